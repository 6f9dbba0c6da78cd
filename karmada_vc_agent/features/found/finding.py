"""What is found on the host that is to be a virtual cluster, and how it becomes one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from karmada_vc_agent.config.completing import completed, field_of
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.config.settings import AgentConfig, FoundSettings
from karmada_vc_agent.features.found.found_records import MOST_NODES, FoundRecord
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.domain import MEMBERSHIP_LABEL
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.selectors import LabelSelector, Requirement
from karmada_vc_agent.model.virtual_cluster import NO_NODES, VirtualCluster, virtual_cluster_of

_ANY = LabelSelector({"any": ""})


@dataclass(frozen=True, slots=True)
class Found:
    """One that was found.

    name: of the virtual cluster; it may be no name of a Cluster. subject: the NodeGroup, or the
    value of the label. labels: those that select its nodes, None = no nodes by labels. nodes:
    names of nodes. problem: why it can be no virtual cluster whatever the settings.
    """

    name: str
    subject: str
    labels: Mapping[str, str] | None = None
    nodes: tuple[str, ...] = ()
    problem: str = ""


def record_of(source: str, found: Found) -> FoundRecord:
    """Return what to remember of one that is served: all that selects its nodes, or nothing."""
    if len(found.nodes) > MOST_NODES:
        return FoundRecord(source, found.subject)
    return FoundRecord(source, found.subject, found.labels or {}, nodes=found.nodes)


class Finder(Protocol):
    """A source of what is found.

    source: its settings, `nodeGroups`. by_label: whether nodes say themselves what there is.
    is_synced: whether what it does not find is not there. changed: the name of a virtual cluster of
    which something was found, changed or is gone.
    """

    source: str
    by_label: bool
    changed: Signal[[str]]

    @property
    def is_synced(self) -> bool: ...

    def names(self) -> Iterable[str]: ...

    def find(self, name: str) -> Found | None: ...

    def text_of(self, subject: str) -> str:
        """Return what a subject is called: `NodeGroup shop-a`."""

    def object_of(self, subject: str) -> Object | None:
        """Return the object that shows what is to be said of a subject."""

    async def is_gone(self, name: str, subject: str) -> bool:
        """Ask the host whether a subject, by this name, is gone for certain. Raises KubeError."""


@dataclass(frozen=True, slots=True)
class Making:
    """Makes virtual clusters of what is found.

    config: the agent's settings, which lie under. limit: how many it may serve; 0 = no bound.
    is_on: whether what is found is to be served at all.
    """

    config: AgentConfig
    common: FoundSettings = field(default_factory=FoundSettings)
    limit: int = 0
    is_on: bool = True

    def of(self, found: Found) -> VirtualCluster:
        """Return the virtual cluster of what was found. Raises ValueError with what is wrong."""
        if found.problem:
            raise ValueError(found.problem)
        selector = LabelSelector(found.labels or {})
        if selector or found.nodes:
            return self._made(found.name, selector, found.nodes)
        return replace(self._made(found.name, _ANY), node_selector=NO_NODES)

    def of_gone(self, name: str, record: FoundRecord) -> VirtualCluster:
        """Return the virtual cluster of what is gone, with the nodes that it had. See `of`.

        Without labels and names by the label that they were given, which keeps what its pods
        select.
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
    """Return what makes virtual clusters of NodeGroups."""
    settings = config.node_groups
    return Making(config, settings, is_on=settings.enabled)


def making_of_labels(config: AgentConfig) -> Making:
    """Return what makes virtual clusters of values of a node label."""
    settings = config.discover
    return Making(config, settings, settings.limit, is_on=bool(settings.node_label))
