"""Discovered virtual clusters: how they are made, and their records."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Protocol

import msgspec
from msgspec.structs import replace

from karmada_vc_agent.cluster.hub_clusters import AgentState
from karmada_vc_agent.config.checks import NAME_PLACEHOLDER, VALUE_PLACEHOLDER, template_problem
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.loading import completed, field_of
from karmada_vc_agent.config.settings import AgentConfig, Fields, SourceSettings
from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import (
    NO_NODES,
    LabelSelector,
    Range,
    Requirement,
    VirtualCluster,
    label_key_problem,
    virtual_cluster_of,
)
from karmada_vc_agent.model.vocabulary import MEMBERSHIP_LABEL, NODE_GROUP_LABEL


class NodeGroupSettings(SourceSettings, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """KubeEdge's NodeGroups as a source of virtual clusters."""

    enabled: bool = False
    """Make each NodeGroup of KubeEdge a virtual cluster with its nodes ([ADR
    34](adr/0034-found-virtual-clusters.md)). Run `karmada-vc-agent join` after changing it."""
    selector: LabelSelector = LabelSelector()
    """Label selector of the NodeGroups; empty = all there are."""
    name_template: str = NAME_PLACEHOLDER
    """Name of the virtual cluster of a NodeGroup, such as `branch-{name}`."""

    @property
    def is_used(self) -> bool:
        return self.enabled

    @property
    def node_labels(self) -> tuple[str, ...]:
        return (NODE_GROUP_LABEL,)

    def problem(self) -> tuple[str, str] | None:
        wrong = template_problem(self.name_template, NAME_PLACEHOLDER)
        return ("nameTemplate", wrong) if wrong else None


class DiscoverSettings(SourceSettings, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Values of a node label as a source of virtual clusters."""

    node_label: str = ""
    """Key of a label of nodes: each value of it is a virtual cluster; empty = none ([ADR
    34](adr/0034-found-virtual-clusters.md)). Run `karmada-vc-agent join` after changing it."""
    name_template: str = VALUE_PLACEHOLDER
    """Name of the virtual cluster of a value, such as `branch-{value}`."""
    limit: Annotated[int, Range(1)] = 100
    """How many virtual clusters it makes at most; further values are reported only."""

    @property
    def is_used(self) -> bool:
        return bool(self.node_label)

    @property
    def group_labels(self) -> tuple[str, ...]:
        return (self.node_label,)

    def problem(self) -> tuple[str, str] | None:
        if self.node_label and (wrong := label_key_problem(self.node_label)):
            return "nodeLabel", wrong
        wrong = template_problem(self.name_template, VALUE_PLACEHOLDER)
        return ("nameTemplate", wrong) if wrong else None


class DiscoveredFields(Fields, frozen=True):
    """What the settings have of it."""

    node_groups: NodeGroupSettings = NodeGroupSettings()
    """Virtual clusters from NodeGroups."""
    discover: DiscoverSettings = DiscoverSettings()
    """Virtual clusters from a label of nodes."""


_PREFIX = "found."


MOST_NODES = 256
"""Names that a record has at most; those of all groups are in one ConfigMap, of at most 1 MiB."""


class DiscoveredRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One that is served, or was.

    source: `nodeGroups` or `discover`. subject: the NodeGroup, or the value of the label. labels,
    nodes: select its nodes; both empty = too many names. gone_at: when the subject was seen to be
    deleted, Unix time; None = it exists. is_draining: whether its removal has begun.
    """

    source: str
    subject: str
    labels: Mapping[str, str] = {}
    gone_at: float | None = None
    is_draining: bool = False
    nodes: tuple[str, ...] = ()


class DiscoveredRecords:
    """The records of one source, by virtual cluster."""

    def __init__(self, state: AgentState, source: str) -> None:
        self._state = state
        self._source = source

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of virtual clusters with a record."""
        return iter([name for name in self._state.values(_PREFIX) if self.of(name) is not None])

    def __len__(self) -> int:
        """Return how many virtual clusters have a record."""
        return sum(1 for _ in self)

    def of(self, name: str) -> DiscoveredRecord | None:
        """Return the record of a virtual cluster; None if it has none, or a malformed one."""
        text = self._state.value(_PREFIX + name)
        try:
            record = msgspec.json.decode(text, type=DiscoveredRecord) if text else None
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        return record if record is not None and record.source == self._source else None

    async def keep(self, name: str, record: DiscoveredRecord) -> None:
        """Store a record. Raises KubeError."""
        await self._state.write(
            _PREFIX + name, msgspec.json.encode(record, order="sorted").decode()
        )

    async def drop(self, name: str) -> None:
        """Forget a virtual cluster. Raises KubeError."""
        if self.of(name) is not None:
            await self._state.write(_PREFIX + name, None)


_ANY = LabelSelector({"any": ""})


@dataclass(frozen=True, slots=True)
class Discovered:
    """A NodeGroup or label value that is to be a virtual cluster.

    name: of the virtual cluster; it may be no name of a Cluster. subject: the NodeGroup, or the
    value of the label. labels: those that select its nodes, None = no nodes by labels. nodes:
    names of nodes. problem: why it can be no virtual cluster whatever the settings.
    """

    name: str
    subject: str
    labels: Mapping[str, str] | None = None
    nodes: tuple[str, ...] = ()
    problem: str = ""


def record_of(source: str, discovered: Discovered) -> DiscoveredRecord:
    """Return the record of one that is served, with all that selects its nodes, or nothing."""
    if len(discovered.nodes) > MOST_NODES:
        return DiscoveredRecord(source, discovered.subject)
    labels = discovered.labels or {}
    return DiscoveredRecord(source, discovered.subject, labels, nodes=discovered.nodes)


class GroupSource(Protocol):
    """Lists what is to be a virtual cluster.

    source: its settings, `nodeGroups`. by_label: whether labels of nodes define it. is_synced:
    whether what it does not list does not exist. changed: emits the name of a virtual cluster that
    was added, changed or deleted.
    """

    source: str
    by_label: bool
    changed: Signal[[str]]

    @property
    def is_synced(self) -> bool: ...

    def names(self) -> Iterable[str]: ...

    def get(self, name: str) -> Discovered | None: ...

    def text_of(self, subject: str) -> str:
        """Return the name of a subject in messages: `NodeGroup shop-a`."""

    def object_of(self, subject: str) -> Object | None:
        """Return the object that events about a subject are recorded on."""

    async def is_deleted(self, name: str, subject: str) -> bool:
        """Return whether the host has no subject of this name for certain. Raises KubeError."""


@dataclass(frozen=True, slots=True)
class Making:
    """Makes virtual clusters of what is discovered.

    config: the agent's settings, the defaults. limit: how many it may serve; 0 = no bound. is_on:
    whether any are to be served.
    """

    config: AgentConfig
    common: SourceSettings = field(default_factory=SourceSettings)
    limit: int = 0
    is_on: bool = True

    def of(self, discovered: Discovered) -> VirtualCluster:
        """Return the virtual cluster of what was discovered. Raises ValueError with the problem."""
        if discovered.problem:
            raise ValueError(discovered.problem)
        selector = LabelSelector(discovered.labels or {})
        if selector or discovered.nodes:
            return self._made(discovered.name, selector, discovered.nodes)
        return replace(self._made(discovered.name, _ANY), node_selector=NO_NODES)

    def of_record(self, name: str, record: DiscoveredRecord) -> VirtualCluster:
        """Return the virtual cluster of what was deleted, with the nodes that it had. See `of`.

        Without labels and names by the label that they were given, which keeps the selector of its
        pods.
        """
        if record.labels or record.nodes:
            return self._made(name, LabelSelector(record.labels), record.nodes)
        given = Requirement(MEMBERSHIP_LABEL, "In", frozenset((name,)))
        return self._made(name, LabelSelector(match_expressions=(given,)))

    def _made(
        self, name: str, selector: LabelSelector, nodes: tuple[str, ...] = ()
    ) -> VirtualCluster:
        vc = virtual_cluster_of(self.common.settings, name, selector, nodes)
        try:
            return completed(vc, self.config)
        except ConfigError as error:
            field = field_of(error)
            about = "" if field == "name" else field
            raise ValueError(f"{about} {error.problem}".strip()) from error


def making_of_groups(config: AgentConfig) -> Making:
    """Return how NodeGroups become virtual clusters."""
    settings = config.of(DiscoveredFields).node_groups
    return Making(config, settings, is_on=settings.enabled)


def making_of_labels(config: AgentConfig) -> Making:
    """Return how values of a node label become virtual clusters."""
    settings = config.of(DiscoveredFields).discover
    return Making(config, settings, settings.limit, is_on=bool(settings.node_label))
