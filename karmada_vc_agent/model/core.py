"""Nodes and Pods as read-only structs with only the fields that are used.

A kept Pod costs 1.25 KB like this against 32.9 KB as the generated client's object
(docs/adr/0001-stack.md). Structs drop unknown fields: never write one back.

Tenants and nodes may fill an object of 1.5 MB with tiny entries, which hold seven times that. So
of each map and list only so much is kept (docs/adr/0077).
"""

from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any

from msgspec import Meta, Struct, field

OF_NODE = 1024
"""Labels, addresses and resources that are kept of a Node."""
OF_POD = 64
"""Labels of a selector, containers with requests, and requests of one, that are kept of a Pod."""


def _first(most: int, values: dict[str, Any]) -> dict[str, Any]:
    return values if len(values) <= most else dict(islice(values.items(), most))


class _PodMeta(Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None


class _LabelledMeta(_PodMeta, rename="camel", gc=False):
    """Metadata of a Node, and of a Pod whose labels are read."""

    labels: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.labels = _first(OF_NODE, self.labels)


class _NodeCondition(Struct, rename="camel", gc=False):
    type: str = ""
    status: str = ""


class _NodeInfo(Struct, rename="camel", gc=False, frozen=True):
    kubelet_version: str = ""


class _NodeAddress(Struct, gc=False, frozen=True):
    address: str = ""


class _NodeStatus(Struct, rename="camel", gc=False):
    """Status of a Node; allocatable maps resource names to quantities."""

    allocatable: dict[str, str] = field(default_factory=dict)
    conditions: list[_NodeCondition] = field(default_factory=list)
    node_info: _NodeInfo = field(default_factory=_NodeInfo)
    addresses: list[_NodeAddress] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.allocatable = _first(OF_NODE, self.allocatable)
        self.conditions = [each for each in self.conditions if each.type == "Ready"]
        del self.addresses[OF_NODE:]


class Taint(Struct, gc=False, frozen=True):
    """One entry of spec.taints, without timeAdded."""

    key: str
    value: str = ""
    effect: str = ""


class _NodeSpec(Struct, gc=False):
    taints: list[Taint] = field(default_factory=list)


class Node(Struct):
    """A Node of the host."""

    metadata: _LabelledMeta
    status: _NodeStatus = field(default_factory=_NodeStatus)
    spec: _NodeSpec = field(default_factory=_NodeSpec)

    @property
    def is_ready(self) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


class _ResourceRequirements(Struct, gc=False):
    """Requests of one container: resource names to quantities."""

    requests: dict[str, str | int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.requests = _first(OF_POD, self.requests)


class Container(Struct, gc=False):
    """A container or init container."""

    resources: _ResourceRequirements = field(default_factory=_ResourceRequirements)


def _requesting(containers: Iterable[Container]) -> list[Container]:
    requesting = (each for each in containers if each.resources.requests)
    return list(islice(requesting, OF_POD))


class _PodSpec(Struct, rename="camel"):
    """The fields of a Pod's spec that matter for resources and placement."""

    node_name: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    containers: list[Container] = field(default_factory=list)
    init_containers: list[Container] = field(default_factory=list)
    overhead: dict[str, str | int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.node_selector = _first(OF_POD, self.node_selector)
        self.containers = _requesting(self.containers)
        self.init_containers = _requesting(self.init_containers)


class _PodStatus(Struct, gc=False):
    phase: str = ""


class Pod(Struct):
    """A Pod of the host."""

    metadata: _PodMeta
    spec: _PodSpec = field(default_factory=_PodSpec)
    status: _PodStatus = field(default_factory=_PodStatus)

    @property
    def is_finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")


class LabelledPod(Pod):
    """A Pod that selectors are compared with; none is stored."""

    metadata: _LabelledMeta


class _Metadata(Struct, rename="camel"):
    name: Annotated[str, Meta(min_length=1)]
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[dict[str, Any]] | None = None


class Shape(Struct, rename="camel"):
    """Any object; API servers guarantee it."""

    metadata: _Metadata
    api_version: str = ""
    kind: str = ""


class _HubCondition(Struct):
    type: str
    status: str


class _Identifier(Struct):
    ordinal: int


class _ManifestStatus(Struct):
    identifier: _Identifier


class _Workload(Struct):
    manifests: list[Any] | None = None


class _HubSpec(Struct):
    workload: _Workload | None = None
    taints: list[dict[str, Any]] | None = None


class _HubStatus(Struct, rename="camel"):
    conditions: list[_HubCondition] | None = None
    manifest_statuses: list[_ManifestStatus] | None = None


class HubShape(Shape):
    """A Work, whose manifests are validated one by one, or a Cluster."""

    spec: _HubSpec | None = None
    status: _HubStatus | None = None
