"""The declaration of a feature: all that core depends on."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.live_settings import LiveSettings
from karmada_vc_agent.cluster.virtual_cluster_sources import VirtualClusterSources
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import ControllerSpec
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.condition_spec import ConditionSpec
from karmada_vc_agent.runner.hub_start import HubStart
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.telemetry.families import NO_FAMILIES, Families

Setup = Callable[[Parts], ControllerSpec[Any] | None]
"""Returns a controller; None = it is switched off."""


Say = Callable[[str], None]
"""Prints a line."""


async def _nothing(*_: object) -> None:
    """Do nothing."""


class Start(Protocol):
    """Read by a feature on the host before this process serves; provided to its parts afterwards.

    reads: what that is, for the log.
    """

    @property
    def reads(self) -> str: ...

    async def read(self, host: ApiClient, live: LiveSettings, state: AgentState) -> None:
        """Read it. Raises KubeError."""


@dataclass(frozen=True, slots=True)
class Described:
    """Virtual clusters that the host describes besides the settings file, for `join`.

    group_labels: keys of labels of nodes that select groups. virtual_clusters: one of each name,
    the one that is served. objects: those that VirtualCluster objects describe.
    """

    group_labels: frozenset[str] = frozenset()
    virtual_clusters: Sequence[VirtualCluster] = ()
    objects: Sequence[VirtualCluster] = ()

    def allow(self, name: str) -> tuple[str, ...]:
        """Return the exceptions of a virtual cluster, () where nothing describes it."""
        return next((vc.allow for vc in self.virtual_clusters if vc.name == name), ())


@dataclass(frozen=True, slots=True)
class Feature:
    """One folder of `features/`, as its feature.py declares it.

    name: of the folder.
    start: adds sources of virtual clusters, and is read before this process serves.
    hub_start: replaces the check of the hub at the start; of one feature.
    prepare: provides what controllers share (`Common.provide`) and sets hooks, before the path of
    Works is built.
    connect: the same once all parts exist.
    controllers: their setups.
    conditions: of Clusters and VirtualCluster objects.
    metrics: their families; `prepare` or `connect` adds what fills them.
    commands: name -> module, imported when it is called.
    describe: which virtual clusters the host describes, for `join`; raises KubeError.
    definitions: CustomResourceDefinitions that `join` installs on the host.
    host_roles: files of the package with its rights on the host, by the settings.
    leave: removes what is recorded on the host of a virtual cluster: by namespace and name of the
    agent, and name of the Cluster; raises KubeError.
    purge: the same of the whole agent.
    """

    name: str
    start: Callable[[VirtualClusterSources, AgentConfig], Start | None] = lambda *_: None
    hub_start: Callable[[AgentConfig, ApiClient, ApiClient], HubStart] | None = None
    prepare: Callable[[Common], None] = lambda _: None
    connect: Callable[[Parts], None] = lambda _: None
    controllers: tuple[Setup, ...] = ()
    conditions: tuple[ConditionSpec, ...] = ()
    metrics: Families = NO_FAMILIES
    commands: Mapping[str, str] = field(default_factory=dict)
    describe: Callable[[ApiClient, AgentConfig], Awaitable[Described]] | None = None
    definitions: Callable[[AgentConfig], tuple[Object, ...]] = lambda _: ()
    host_roles: Callable[[AgentConfig], tuple[str, ...]] = lambda _: ()
    leave: Callable[[ApiClient, str, str, str, Say], Awaitable[None]] = _nothing
    purge: Callable[[ApiClient, str, str, Say], Awaitable[None]] = _nothing
