"""All that controllers are made from, and how features declare what they add."""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from karmada_vc_agent.cluster.agent_conditions import (
    AgentCondition,
    MissingRights,
    check_apart_from_tenants,
)
from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.rules.conditions import (
    NODES_REACHABLE,
    Condition,
    ConditionType,
    Thresholds,
)
from karmada_vc_agent.cluster.status import ReachableNodes
from karmada_vc_agent.cluster.virtual_cluster_sources import LiveSettings, VirtualClusterSources
from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig, Fields
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Controller, ControllerSpec, Signal, Subscribe
from karmada_vc_agent.kube.errors import Need
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import STRICT, VirtualCluster
from karmada_vc_agent.runner.collector import MetricsCollector
from karmada_vc_agent.runner.common import Common, Offline
from karmada_vc_agent.runner.hub_presence import HubStart
from karmada_vc_agent.runner.settings_follower import has_rights
from karmada_vc_agent.runner.work_parts import WorkParts
from karmada_vc_agent.work.removal import Removal
from karmada_vc_agent.work.work_finalizer import OrphanedObjects


class _SavedHub(Protocol):
    """All that is saved of the hub. offline: serves from it."""

    @property
    def offline(self) -> Offline:
        """Return what serves from it."""

    def warning(self) -> str | None:
        """Return what is served from it, and what of it is not used, None = nothing."""

    def is_served_from(self) -> bool:
        """Return whether any virtual cluster is served from it."""


class Leases:
    """Renewed from the first time a Cluster was Ready, as their attempts show.

    attempts: the time of the last one of each, which shows whether it is stuck. due: a virtual
    cluster whose Lease is to be renewed from now on.
    """

    def __init__(self, scopes: Scopes, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tried_at: dict[str, float] = scopes.keep()
        self.due: Signal[[str]] = Signal()

    def start(self, name: str) -> None:
        """Renew the Lease of a virtual cluster from now on."""
        if name not in self._tried_at:
            self.tried(name)
            self.due.emit(name)

    def tried(self, name: str) -> None:
        """Record an attempt, whatever its result."""
        self._tried_at[name] = self._clock()

    def end(self, name: str) -> None:
        """Renew it no more, until it is started again."""
        self._tried_at.pop(name, None)

    def late(self, limit_s: float, possible_since: float) -> list[str]:
        """Return the virtual clusters whose last attempt is longer ago than `limit_s`.

        possible_since: since when attempts could finish, by the same clock; inf in an outage.
        """
        now, tried = self._clock(), self._tried_at.items()
        return sorted(name for name, at in tried if now - max(at, possible_since) > limit_s)


Runs = Callable[[], Awaitable[None]]


class Parts:
    """The input of `setup(parts)` of a controller.

    common: settings, clients, stores, signals. works: what reads and applies Works. leases: which
    Leases are renewed. features: those of this agent. runs: what features run from the start on, by
    name; keeps: what they run with the controllers, and the end does not wait for; ends: what ends
    by itself. spared_rights: which of the rights the agent works without. reachable: what is judged
    of nodes. missing_rights: which rights are missing, and for whom. checkpoint: what is saved of
    the hub. orphaned: host objects without a Work. credential: whether the credential for the hub
    is renewed in time. lease_namespace: whether the hub has the namespace of the Leases.
    controllers: all that run, for metrics.
    """

    def __init__(self, common: Common, features: "tuple[Feature, ...]") -> None:
        self.common = common
        self.features = features
        for feature in features:
            feature.prepare(common)
        self.leases = Leases(common.scopes)
        self.works = WorkParts(common)
        self.checkpoint: _SavedHub | None = None
        self.reachable = self._reachable()
        self.missing_rights = MissingRights(
            common.clients.lacking,
            common.virtual_clusters,
            common.stores.claims,
            common.config.agent_namespace,
            is_spared=lambda need: any(is_spared(need) for is_spared in self.spared_rights),
        )
        self.credential = AgentCondition()
        self.lease_namespace = AgentCondition()
        self.orphaned = OrphanedObjects(common.scopes)
        self.controllers: list[Controller[Any]] = []
        self.runs: dict[str, Runs] = {}
        self.keeps: dict[str, Runs] = {}
        self.ends: dict[str, Runs] = {}
        self.spared_rights: list[Callable[[Need], bool]] = []
        self.collector = MetricsCollector(
            common, self.works, self.orphaned, self.missing_rights, self.controllers
        )
        for feature in features:
            feature.connect(self)

    def names(self, *_change: object) -> Iterable[str]:
        """Return the names of all virtual clusters, whatever changed."""
        return self.common.virtual_clusters

    def _reachable(self) -> ReachableNodes:
        common, config = self.common, self.common.config
        thresholds = Thresholds(config.cluster_success_threshold, config.cluster_failure_threshold)
        return ReachableNodes(
            common.stores.membership,
            thresholds,
            lambda cluster, condition: self.works.events.condition_changed(
                cluster, NODES_REACHABLE, condition
            ),
            common.clock.monotonic,
            common.scopes,
        )


Trigger = tuple[Subscribe, Callable[..., Iterable[str]]]
"""A signal, and a function from its change to names of virtual clusters."""


@dataclass(frozen=True, slots=True)
class ConditionSpec:
    """A condition and how it is evaluated.

    evaluate: returns the condition as it is now; None = undetermined. It makes no request.
    triggers: what requeues the status of a virtual cluster; without them the condition is as old as
    the interval of the status.
    """

    type: ConditionType
    evaluate: Callable[[Parts, VirtualCluster], Condition | None]
    triggers: Callable[[Parts], Iterable[Trigger]] = lambda _: ()


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
    settings: fields that it adds to AgentConfig; it reads them by `config.of`.
    start: adds sources of virtual clusters, and is read before this process serves.
    hub_start: replaces the check of the hub at the start; of one feature.
    prepare: provides what controllers share (`Common.provide`) and sets hooks, before the path of
    Works is built.
    connect: the same once all parts exist.
    controllers: their setups.
    conditions: of Clusters and VirtualCluster objects.
    metrics: file of the package with their families; `prepare` or `connect` adds what fills them.
    commands: name -> module, imported when it is called.
    describe: which virtual clusters the host describes, for `join`; raises KubeError.
    definitions: CustomResourceDefinitions that `join` installs on the host.
    host_roles: files of the package with its rights on the host, by the settings.
    hub_roles: those with its rights on the hub, by what they are granted with: a controller of
    `join --controllers`, or GATEWAY of access/hub_objects.py.
    leave: removes what is recorded on the host of a virtual cluster: by namespace and name of the
    agent, and name of the Cluster; raises KubeError.
    purge: the same of the whole agent.
    """

    name: str
    settings: type[Fields] = Fields
    start: Callable[[VirtualClusterSources, AgentConfig], Start | None] = lambda *_: None
    hub_start: Callable[[AgentConfig, ApiClient, ApiClient], HubStart] | None = None
    prepare: Callable[[Common], None] = lambda _: None
    connect: Callable[[Parts], None] = lambda _: None
    controllers: tuple[Setup, ...] = ()
    conditions: tuple[ConditionSpec, ...] = ()
    metrics: str = ""
    commands: Mapping[str, str] = field(default_factory=dict)
    describe: Callable[[ApiClient, AgentConfig], Awaitable[Described]] | None = None
    definitions: Callable[[AgentConfig], tuple[Object, ...]] = lambda _: ()
    host_roles: Callable[[AgentConfig], tuple[str, ...]] = lambda _: ()
    hub_roles: Mapping[str, str] = field(default_factory=dict)
    leave: Callable[[ApiClient, str, str, str, Say], Awaitable[None]] = _nothing
    purge: Callable[[ApiClient, str, str, Say], Awaitable[None]] = _nothing


async def check_permitted(common: Common, vc: VirtualCluster) -> None:
    """Refuse what hub or host forbid. Raises ConfigError, KubeError."""
    if common.config.tenancy == STRICT:
        await check_apart_from_tenants(common.clients.host_urgent, common.node, [vc])
    if not await has_rights(common.clients.hub, vc.name):
        command = f"karmada-vc-agent join --name {vc.name}"
        problem = f"the agent has no rights for Cluster {vc.name} on the hub; run {command}"
        raise ConfigError("hub", "", problem)


def removal_of(parts: Parts) -> Removal:
    """Return what takes virtual clusters away."""
    common, stores, works = parts.common, parts.common.stores, parts.works
    return Removal(
        common.clients.hub,
        common.clients.host,
        stores.clusters,
        works.watches.works,
        stores.claims,
        works.namespace_writer,
        works.finalizer,
        common.state,
    )
