"""Discovered virtual clusters: how they are made, and their records."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import msgspec
from msgspec.structs import replace

from karmada_vc_agent.cluster.hub_clusters import AgentState
from karmada_vc_agent.config.checks import NAME_PLACEHOLDER, VALUE_PLACEHOLDER, template_problem
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.loading import completed, field_of
from karmada_vc_agent.config.settings import AgentConfig, Fields, SourceSettings
from karmada_vc_agent.model import virtual_cluster
from karmada_vc_agent.model.objects import decode_as
from karmada_vc_agent.model.virtual_cluster import LabelSelector, Range, VirtualCluster
from karmada_vc_agent.model.vocabulary import NODE_GROUP_LABEL


class NodeGroupSettings(SourceSettings, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """KubeEdge's NodeGroups as a source of virtual clusters."""

    source: ClassVar = "nodeGroups"
    limit: ClassVar = 0
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

    def name_of(self, subject: str) -> str:
        return self.name_template.replace(NAME_PLACEHOLDER, subject)

    def problem(self) -> tuple[str, str] | None:
        wrong = template_problem(self.name_template, NAME_PLACEHOLDER)
        return ("nameTemplate", wrong) if wrong else None


class DiscoverSettings(SourceSettings, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Values of a node label as a source of virtual clusters."""

    source: ClassVar = "discover"
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

    def name_of(self, subject: str) -> str:
        return self.name_template.replace(VALUE_PLACEHOLDER, subject)

    def problem(self) -> tuple[str, str] | None:
        if self.node_label and (wrong := virtual_cluster.label_key_problem(self.node_label)):
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
    """One that is served, or was; source, subject: as of what was discovered.

    labels, nodes: select its nodes; both empty = too many names. gone_at: when the subject was seen
    to be deleted, Unix time; None = it exists. is_draining: whether its removal has begun.
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
        return iter([name for name in self._state.values(_PREFIX) if self.of(name) is not None])

    def of(self, name: str) -> DiscoveredRecord | None:
        """Return the record of a virtual cluster; None if it has none, or a malformed one."""
        record = decode_as(DiscoveredRecord, self._state.value(_PREFIX + name))
        return record if record is not None and record.source == self._source else None

    async def keep(self, name: str, record: DiscoveredRecord) -> None:
        await self._state.write(
            _PREFIX + name, msgspec.json.encode(record, order="sorted").decode()
        )

    async def drop(self, name: str) -> None:
        if self.of(name) is not None:
            await self._state.write(_PREFIX + name, None)


@dataclass(frozen=True, slots=True)
class Discovered:
    """A NodeGroup, or the value of a label, that is to be a virtual cluster: its subject.

    name: it may be no name of a Cluster. labels, nodes: select its nodes; None = not by labels.
    problem: why it can be no virtual cluster whatever the settings.
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


def made(config: AgentConfig, settings: SourceSettings, discovered: Discovered) -> VirtualCluster:
    """Return the virtual cluster of what was discovered. Raises ValueError with the problem."""
    if discovered.problem:
        raise ValueError(discovered.problem)
    selector, nodes = LabelSelector(discovered.labels or {}), discovered.nodes
    if selector or nodes:
        return _completed(config, settings, discovered.name, selector, nodes)
    vc = _completed(config, settings, discovered.name, LabelSelector({"any": ""}))
    return replace(vc, node_selector=virtual_cluster.NO_NODES)


def made_of_record(
    config: AgentConfig, settings: SourceSettings, name: str, record: DiscoveredRecord
) -> VirtualCluster:
    """Return the virtual cluster of what was deleted, with the nodes that it had. See `made`.

    Without labels and names by the label that they were given: the selector of its pods stays.
    """
    is_by_label = not record.labels and not record.nodes
    selector = virtual_cluster.labelled(name) if is_by_label else LabelSelector(record.labels)
    return _completed(config, settings, name, selector, record.nodes)


def _completed(
    config: AgentConfig,
    settings: SourceSettings,
    name: str,
    selector: LabelSelector,
    nodes: tuple[str, ...] = (),
) -> VirtualCluster:
    try:
        return completed(
            virtual_cluster.virtual_cluster_of(settings.settings, name, selector, nodes), config
        )
    except ConfigError as error:
        field = field_of(error)
        about = "" if field == "name" else field
        raise ValueError(f"{about} {error.problem}".strip()) from error
