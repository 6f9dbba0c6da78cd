"""What controllers are made from, what features declare, and conditions."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from karmada_vc_agent.cluster.hub_clusters import AgentState
from karmada_vc_agent.cluster.lease import AgentCondition, MissingRights, check_apart_from_tenants
from karmada_vc_agent.cluster.registration import LiveSettings, VirtualClusterSources
from karmada_vc_agent.cluster.rules import conditions as rules
from karmada_vc_agent.cluster.rules.cluster_objects import COMPLETE_API_ENABLEMENTS
from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.cluster.status import ReachableNodes
from karmada_vc_agent.cluster.virtual_clusters import Scopes, VirtualClusters
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig, Fields
from karmada_vc_agent.kube import controller
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import Need
from karmada_vc_agent.kube.flows import LogOnce
from karmada_vc_agent.kube.leader_election import LeaderElection
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import user_text
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import STRICT, VirtualCluster
from karmada_vc_agent.runner.collector import MetricsCollector
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.hub_presence import HubStart
from karmada_vc_agent.runner.process import has_rights
from karmada_vc_agent.runner.work_parts import WorkParts
from karmada_vc_agent.telemetry.metrics import Sample
from karmada_vc_agent.work.removal import OrphanedObjects, Removal


class Leases:
    """The Leases that are renewed: from the first time a Cluster was Ready."""

    def __init__(self, scopes: Scopes, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tried_at: dict[str, float] = scopes.keep()
        self.due: controller.Signal[[str]] = controller.Signal()

    def start(self, name: str) -> None:
        if name not in self._tried_at:
            self.tried(name)
            self.due.emit(name)

    def tried(self, name: str) -> None:
        self._tried_at[name] = self._clock()

    def end(self, name: str) -> None:
        self._tried_at.pop(name, None)

    def late(self, limit_s: float, possible_since: float) -> list[str]:
        """Return those last tried `limit_s` ago, as far as attempts could finish since."""
        now, tried = self._clock(), self._tried_at.items()
        return sorted(name for name, at in tried if now - max(at, possible_since) > limit_s)


Runs = Callable[[], Awaitable[None]]


class Parts:
    """The input of `setup(parts)` of a controller.

    runs: what features run from the start on, by name; keeps: with the controllers; ends: what ends
    by itself. spared_rights: which of the rights the agent works without. reachable: what is judged
    of nodes. credential: whether that for the hub is renewed in time. lease_namespace: whether it
    exists.
    """

    def __init__(self, common: Common, features: "tuple[Feature, ...]") -> None:
        self.common = common
        self.features = features
        for feature in features:
            feature.prepare(common)
        self.leases = Leases(common.scopes)
        self.works = WorkParts(common)
        config = common.config
        self.thresholds = rules.Thresholds(
            config.cluster_success_threshold, config.cluster_failure_threshold
        )
        self.reachable = ReachableNodes(
            common.stores.membership,
            self.thresholds,
            lambda cluster, condition: self.works.events.condition_changed(
                cluster, rules.NODES_REACHABLE, condition
            ),
            common.clock.monotonic,
            common.scopes,
        )
        self.missing_rights = MissingRights(
            common.clients.lacking,
            common.virtual_clusters,
            common.stores.claims,
            common.config.agent_namespace,
            is_spared=lambda need: any(is_spared(need) for is_spared in self.spared_rights),
            clock=common.clock.monotonic,
        )
        self.credential = AgentCondition()
        self.lease_namespace = AgentCondition()
        self.orphaned = OrphanedObjects(common.scopes)
        self.controllers: list[controller.Controller[Any]] = []
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
        return self.common.virtual_clusters


Trigger = tuple[controller.Subscribe, Callable[..., Iterable[str]]]
"""A signal, and a function from its change to names of virtual clusters."""


@dataclass(frozen=True, slots=True)
class ConditionSpec:
    """A condition and how it is evaluated.

    evaluate: returns it as it is now, without a request; None = undetermined. triggers: what
    requeues the status of a virtual cluster; without them it is as old as the status.
    """

    type: ConditionType
    evaluate: Callable[[Parts, VirtualCluster], Condition | None]
    triggers: Callable[[Parts], Iterable[Trigger]] = lambda _: ()


Setup = Callable[[Parts], controller.ControllerSpec[Any] | None]
"""Returns a controller; None = it is switched off."""


Say = Callable[[str], None]
Serving = tuple[VirtualClusters, Callable[..., LeaderElection], Callable[..., AgentState]]


class Start(Protocol):
    """Read by a feature on the host before this process serves; provided to its parts then."""

    @property
    def reads(self) -> str: ...

    async def read(self, host: ApiClient, live: LiveSettings, state: AgentState) -> None:
        """Read it. Raises KubeError."""


@dataclass(frozen=True, slots=True)
class Described:
    """Virtual clusters that the host describes besides the settings file, for `join`.

    group_labels: of nodes. virtual_clusters: one of each name, which is served. objects: those that
    VirtualCluster objects describe.
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
    serving: returns the registry of one of several processes, what makes its election and record.
    leases: returns which Leases its processes hold, or the one that serves a virtual cluster.
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
    `join --controllers`, or GATEWAY of access/rights.py.
    leave: removes what is recorded on the host of a virtual cluster: by namespace and name of the
    agent, and name of the Cluster; raises KubeError.
    purge: the same of the whole agent.
    """

    name: str
    settings: type[Fields] = Fields
    start: Callable[[VirtualClusterSources, AgentConfig], Start | None] = lambda *_: None
    hub_start: Callable[[AgentConfig, ApiClient, ApiClient], HubStart] | None = None
    serving: Callable[[AgentConfig], Serving] | None = None
    leases: Callable[[ApiClient, str, str, str], Awaitable[list[str]]] | None = None
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
    leave: Callable[[ApiClient, str, str, str, Say], Awaitable[None]] = lambda *_: asyncio.sleep(0)
    purge: Callable[[ApiClient, str, str, Say], Awaitable[None]] = lambda *_: asyncio.sleep(0)


async def check_permitted(common: Common, vc: VirtualCluster) -> None:
    """Refuse what hub or host forbid. Raises ConfigError, KubeError."""
    if common.config.tenancy == STRICT:
        await check_apart_from_tenants(common.clients.host_urgent, common.node, [vc])
    if not await has_rights(common.clients.hub, vc.name):
        problem = f"the agent has no rights for Cluster {vc.name} on the hub; run "
        raise ConfigError("hub", "", f"{problem}karmada-vc-agent join --name {vc.name}")


def removal_of(parts: Parts) -> Removal:
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


_ROWS = user_text.load_yaml(Path(__file__).with_name("conditions.yaml").read_bytes())
_TYPES = {
    name: ConditionType(name, **{**row, "on_object": Shown[row.get("on_object", "NEVER")]})
    for name, row in _ROWS.items()
}
NODE_OVERLAP = _TYPES["NodeOverlap"]
NODES_MISSING = _TYPES["NodesMissing"]
RIGHTS_GRANTED = _TYPES["RightsGranted"]
CREDENTIAL_RENEWED = _TYPES["CredentialRenewed"]
LEASE_NAMESPACE_EXISTS = _TYPES["LeaseNamespaceExists"]
OBJECTS_ORPHANED = _TYPES["ObjectsOrphaned"]


def node_overlap(overlaps: Sequence[tuple[str, str]]) -> Condition:
    """Return the condition. overlaps: (node, other virtual cluster)."""
    if not overlaps:
        return NODE_OVERLAP.false("NodesDisjoint", "no node is selected by another virtual cluster")
    node, other = overlaps[0]
    more = f" (and {len(overlaps) - 1} more)" if len(overlaps) > 1 else ""
    text = f'node "{node}"{more} is also selected by virtual cluster "{other}"'
    return NODE_OVERLAP.true("NodesShared", text)


def nodes_missing(nodes: Store[Node], vc: VirtualCluster) -> Condition:
    """Return the condition; it has the names without a node in the order of nodeNames."""
    names = [name for name in vc.node_names if nodes.get("", name) is None]
    if not names:
        return NODES_MISSING.false("NodeNamesFound", "all nodes of nodeNames exist")
    text = f"no node is named {user_text.listed(names)}; correct nodeNames, or add the node"
    return NODES_MISSING.true("NodeNamesNotFound", text)


def _agent_apart(parts: Parts, _: VirtualCluster) -> Condition | None:
    name, stores = parts.common.node, parts.common.stores
    if not name or (node := stores.nodes.get("", name)) is None:
        return None
    return rules.agent_apart(name, node.metadata.labels, stores.membership.owner_of(name))


def _trusted(parts: Parts, vc: VirtualCluster) -> Condition:
    origin, trust = parts.common.origins.of(vc.name), parts.common.stores.trust
    return rules.group_trusted(
        vc,
        has_kubeedge=trust.has_kubeedge,
        node_restriction=trust.node_restriction,
        origin=origin.text if origin is not None else "",
        by_label=origin is not None and origin.is_label,
    )


def rights_granted(parts: Parts, vc: VirtualCluster) -> Condition:
    """Return the condition; its message has one of the rights that are missing."""
    texts = parts.missing_rights.by_cluster().get(vc.name)
    if not texts:
        return RIGHTS_GRANTED.true("NothingRefused", "no right was refused lately")
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return RIGHTS_GRANTED.false("RightsMissing", f"{texts[0]}{more}")


def succeeded(kind: ConditionType, state: AgentCondition) -> Condition:
    if state.problem:
        return kind.false(state.reason, state.problem)
    return kind.true("Succeeded", "it succeeds again")


def objects_orphaned(parts: Parts, vc: VirtualCluster) -> Condition:
    """Return the condition; its message names some of the objects."""
    count, first = parts.orphaned.of(vc.name)
    if not count:
        return OBJECTS_ORPHANED.false("WorksExist", "each host object has a Work on the hub")
    names = user_text.listed(first, len(first), count)
    text = (
        f"the hub has no Work for {names}, as after an old checkpoint or a restored backup; the "
        "agent removes none of them: karmada-vc-agent leave --prune lists them, with --yes it "
        "removes them"
    )
    return OBJECTS_ORPHANED.true("WorksMissing", text)


_log = logging.getLogger(__name__)

OF_CORE = (
    ConditionSpec(
        rules.GROUP_TRUSTED,
        _trusted,
        lambda parts: ((parts.common.origins.changed.subscribe, controller.itself),),
    ),
    ConditionSpec(
        NODE_OVERLAP,
        lambda parts, vc: node_overlap(parts.common.stores.membership.overlaps(vc.name)),
    ),
    ConditionSpec(NODES_MISSING, lambda parts, vc: nodes_missing(parts.common.stores.nodes, vc)),
    ConditionSpec(rules.AGENT_APART, _agent_apart),
    ConditionSpec(RIGHTS_GRANTED, rights_granted),
    ConditionSpec(
        CREDENTIAL_RENEWED,
        lambda parts, _: succeeded(CREDENTIAL_RENEWED, parts.credential),
        lambda parts: ((parts.credential.changed.subscribe, parts.names),),
    ),
    ConditionSpec(
        LEASE_NAMESPACE_EXISTS,
        lambda parts, _: succeeded(LEASE_NAMESPACE_EXISTS, parts.lease_namespace),
        lambda parts: ((parts.lease_namespace.changed.subscribe, parts.names),),
    ),
    ConditionSpec(
        OBJECTS_ORPHANED,
        objects_orphaned,
        lambda parts: ((parts.orphaned.changed.subscribe, controller.itself),),
    ),
)
OF_CLUSTER_STATUS: tuple[ConditionType, ...] = (
    rules.READY,
    rules.NODES_REACHABLE,
    COMPLETE_API_ENABLEMENTS,
)
"""Types that the controller of Cluster status adds, since they are the state of that."""


def declared_conditions(features: Iterable[Feature]) -> tuple[ConditionSpec, ...]:
    return (*OF_CORE, *(spec for feature in features for spec in feature.conditions))


class Conditions:
    """Evaluates what is declared, for one kind of status; shown: when a type is in that."""

    def __init__(self, parts: Parts, shown: Callable[[ConditionType], Shown]) -> None:
        self._parts = parts
        all_specs = ((spec, shown(spec.type)) for spec in declared_conditions(parts.features))
        self._shown = {spec: when for spec, when in all_specs if when is not Shown.NEVER}

    def of(self, vc: VirtualCluster, live: Object) -> list[Condition]:
        """Return the conditions of a virtual cluster. live: the status to compare with."""
        conditions = []
        current = {each.get("type"): each for each in reversed(live.get("conditions") or ())}
        for spec, shown in self._shown.items():
            condition = spec.evaluate(self._parts, vc)
            if condition is None:
                continue
            before = current.get(spec.type.name)
            is_idle = shown is Shown.UNLESS_IDLE and condition["reason"] == spec.type.idle
            if not is_idle or before is not None:
                conditions.append(condition)
            self._evaluated(spec.type, vc.name, before, condition)
        return conditions

    def sources(self, after_s: float = 0.0) -> tuple[controller.Enqueues[str], ...]:
        triggers = (trigger for spec in self._shown for trigger in spec.triggers(self._parts))
        return tuple(controller.Enqueues(subscribe, keys, after_s) for subscribe, keys in triggers)

    def _evaluated(
        self, kind: ConditionType, cluster: str, before: Condition | None, condition: Condition
    ) -> None:
        """Report a condition elsewhere than in the status."""


class ClusterConditions(Conditions):
    """The conditions of Clusters, which log, events and metrics have, too."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts, lambda kind: kind.on_cluster)
        self._once = LogOnce(_log)
        self._abnormal: defaultdict[str, set[str]] = parts.common.scopes.keep_each(set)
        self._report = parts.works.on_cluster(parts.works.events.condition_changed)
        parts.common.metrics.add_source(self._samples)

    def _evaluated(
        self, kind: ConditionType, cluster: str, before: Condition | None, condition: Condition
    ) -> None:
        about = (kind.name, "" if kind.for_all else cluster)
        extra = {"virtual_cluster": cluster, "condition": kind.name, "text": condition["message"]}
        if kind.is_normal(condition):
            self._abnormal[cluster].discard(kind.name)
            if self._once.ended(about):
                _log.info("Condition is normal again", extra=extra)
        else:
            self._abnormal[cluster].add(kind.name)
            if kind.warning:
                self._once.warning(kind.warning, about=about, reason=condition["reason"], **extra)
        if kind.has_event and kind.is_news(before, condition):
            self._report(cluster, kind, condition)

    def _samples(self) -> Iterator[Sample]:
        for cluster, names in self._abnormal.items():
            for name in sorted(names):
                yield Sample("virtual_cluster_condition_abnormal", (cluster, name), 1)


def conditions_of_objects(parts: Parts) -> Conditions:
    return Conditions(parts, lambda kind: kind.on_object)
