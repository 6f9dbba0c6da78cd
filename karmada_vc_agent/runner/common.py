"""Settings, stores, signals, queues, hooks and contexts that all parts share."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from karmada_vc_agent.cluster import host_objects, hub_clusters
from karmada_vc_agent.cluster.lease import Lead
from karmada_vc_agent.cluster.registration import LiveSettings, Origins, Registrations
from karmada_vc_agent.cluster.virtual_clusters import (
    CLUSTER_INDEX,
    Claims,
    Membership,
    Scopes,
    VirtualClusters,
    former_names,
    labelled_cluster,
)
from karmada_vc_agent.config import checks
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.codec import Codec
from karmada_vc_agent.kube.controller import ControllerSpec, Signal, WorkQueue
from karmada_vc_agent.kube.discovery import Discovery, Resource, ServedApis
from karmada_vc_agent.kube.flows import LoopTime, Supervisor, TokenBucket
from karmada_vc_agent.kube.informers import AnyReflector, named_reflector
from karmada_vc_agent.kube.leader_election import LeaderElection
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import virtual_cluster
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.vocabulary import gateway_account, gateway_accounts_role
from karmada_vc_agent.runner.clients import Clients, is_agents_own
from karmada_vc_agent.telemetry.metrics import Metrics
from karmada_vc_agent.translation import context, kind_policy
from karmada_vc_agent.translation.rbac_rules import admin_rules
from karmada_vc_agent.work.host_objects import HostObjects, PlacementKeeper
from karmada_vc_agent.work.manifests import ReportedObjects
from karmada_vc_agent.work.memory_bounds import KeptObjects
from karmada_vc_agent.work.namespace_writer import NamespaceShares
from karmada_vc_agent.work.reporting import Dependency, WindowGate
from karmada_vc_agent.work.served_kinds import Concerns
from karmada_vc_agent.work.work_watches import HeldChanges
from karmada_vc_agent.work.works import WorkKey


def translation_settings(config: AgentConfig) -> context.TranslationSettings:
    """Return those settings of the agent that translation knows. Raises ValueError: template."""
    account = config.agent_namespace, gateway_account(config.agent_name)
    gateway = context.GatewayBinding(account, gateway_accounts_role(config.agent_name))
    return context.TranslationSettings(
        namespace_template=context.NamespaceTemplate.parse(config.namespace_template),
        forbidden_namespaces=config.forbidden_namespaces,
        pod_templates=tuple(
            kind_policy.PodTemplates(row.group, row.kind, row.paths, row.selector_only)
            for row in config.pod_templates
        ),
        namespace_references=tuple(
            kind_policy.NamespaceReferences(row.group, row.kind, row.paths)
            for row in config.namespace_references
        ),
        cluster_scoped_kinds=kind_policy.configured_kinds(config.cluster_scoped_kinds),
        cluster_domain=config.cluster_domain,
        cluster_dns=config.cluster_dns,
        infrastructure=(*config.infrastructure_namespaces, config.agent_namespace),
        pod_cidrs=config.pod_cidrs,
        agent_name=config.agent_name,
        tenancy=config.tenancy,
        namespace_keys=config.namespace_keys,
        gateway=gateway if config.gateway.enabled else None,
    )


def all_problems(config: AgentConfig) -> checks.Problems:
    """Yield every validated setting, also by rules, which `config` must not import."""
    yield from checks.problems(config)
    parse = context.NamespaceTemplate.parse
    yield "namespaceTemplate", checks.raised(parse, config.namespace_template)
    for kind, policy in config.cluster_scoped_kinds.items():
        yield f'clusterScopedKinds["{kind}"]', kind_policy.problem_with(kind, policy)


@dataclass(eq=False)
class TranslationContexts:
    """Gathers the TranslationContext of a virtual cluster, or of a Work, by its id.

    is_of_cluster: whether a Work was made for the Cluster itself. bound_to: namespace of the
    binding of a Work. store_of_groups: returns the store of NodeGroups, by their resource.
    """

    settings: context.TranslationSettings
    membership: Membership
    claims: Claims
    addresses: host_objects.HostAddresses
    is_of_cluster: Callable[[str, str], bool]
    bound_to: Callable[[str], str | None]
    discovery: Discovery
    store_of_groups: Callable[[Resource], Store[Object] | None]
    on_new_kinds: Callable[[], object]
    virtual_clusters: Mapping[str, VirtualCluster]

    def __post_init__(self) -> None:
        self._admin_rules: tuple[ServedApis | None, tuple[Object, ...]] = (None, ())

    def context_for(self, vc: VirtualCluster, work: str) -> context.TranslationContext:
        """Return the facts about a virtual cluster; work: `<execution namespace>/<name>` or ""."""
        membership, addresses, settings = self.membership, self.addresses, self.settings

        def is_of_host(address: str) -> bool:
            return addresses.is_foreign(address, vc.name) or settings.is_of_host(address)

        def is_namespaced(gvk: GroupVersionKind) -> bool | None:
            resource = self.discovery.cached(gvk)
            return resource.namespaced if resource is not None else None

        return context.TranslationContext(
            vc=vc,
            settings=settings,
            claims=self._claims(vc.name),
            owns_node=lambda node: membership.owner_of(node) == vc.name,
            work=work,
            bound_to=self.bound_to(work),
            is_of_cluster=self.is_of_cluster(vc.name, work),
            admin_rules=self._most_rules(),
            nodes_of_group=partial(
                membership.nodes_of_group, self.discovery.cached, self.store_of_groups
            ),
            node_taints=membership.taints_of(vc.name),
            is_of_host=is_of_host,
            is_namespaced=is_namespaced,
        )

    def _claims(
        self, cluster: str
    ) -> Mapping[virtual_cluster.VirtualNamespace, virtual_cluster.HostNamespace]:
        """Return the claims of a virtual cluster, and those that it is about to take over."""
        own, former = self.claims.of(cluster), former_names(self.virtual_clusters, cluster)
        if not former:
            return own
        return virtual_cluster.ClaimedNamespaces({**self.claims.left_by(former), **own})

    def _most_rules(self) -> tuple[Object, ...]:
        """Return what RBAC rules may grant at most; computed again when the host serves others."""
        served = self.discovery.served
        if self._admin_rules[0] is not served:
            rules = admin_rules(served.namespaced, is_strict=self.settings.is_strict)
            self._admin_rules = served, rules
            self.on_new_kinds()
        return self._admin_rules[1]


class Offline:
    """Serves what is saved of the hub, until the hub has listed everything: by itself nothing.

    is_fencing: whether the Clusters are those that were saved. on_hub_answer: called once they are
    not. warning: returns what is served, and what of the saved is not used, None = nothing.
    """

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.is_fencing = False
        self.on_hub_answer: Callable[[], None] = lambda: None
        self.warning: Callable[[], str | None] = lambda: None

    def hub_identified(self, hub: str) -> None:
        """Take which hub it is that answers. hub: uid of its kube-system, "" = not readable."""


class Fence:
    """Keeps a process that does not lead, or not yet, from writing. election: None = none."""

    def __init__(self) -> None:
        self.election: LeaderElection | None = None
        self.offline = Offline()

    def is_leading(self) -> bool:
        return self.election is None or self.election.is_leading()

    def of_hub(self) -> str:
        """Return why no lane may write to the hub now, "" if each of them may."""
        if self.offline.is_fencing:
            return "the hub has not listed its Clusters yet"
        if self.election is not None and not self.election.is_in_touch():
            return "not the leader"
        return ""


Change = Signal[[Object | None, Object | None]]
"""old and new object; None = was or is not there"""


@dataclass(frozen=True, slots=True)
class Signals:
    work: Signal[[str, Object | None, Object | None]] = field(default_factory=Signal)
    """virtual cluster, old and new of a Work"""
    work_due: Signal[[WorkKey]] = field(default_factory=Signal)
    """a Work that changed, or an object of it, other than by its own sync"""
    work_status: Signal[[WorkKey, Object]] = field(default_factory=Signal)
    """a Work, and an object of it on the host, of which the status alone changed"""
    work_affected: Signal[[str]] = field(default_factory=Signal)
    """`<execution namespace>/<name>` of a Work that shares something which another one changed"""
    meaning: Signal[[Concerns]] = field(default_factory=Signal)
    """what the interpreter says otherwise now"""
    host_object: Change = field(default_factory=Signal)
    """an object with our label, in any namespace"""
    own_object: Change = field(default_factory=Signal)
    """an object that is where its virtual cluster may have it; the others are None"""
    node_group: Change = field(default_factory=Signal)
    """a NodeGroup of the host"""
    served: Signal[[ServedApis]] = field(default_factory=Signal)
    """what the host serves, after each look"""
    window: Signal[[str]] = field(default_factory=Signal)
    """a virtual cluster whose window opened or closed"""
    dependencies: Signal[[set[Dependency]]] = field(default_factory=Signal)
    """what changed of that which failed keys wait for"""
    bound_met: Signal[[str, str]] = field(default_factory=Signal)
    """a virtual cluster that has more than it may have, and what"""
    status_due: Signal[[str]] = field(default_factory=Signal)
    """a virtual cluster whose status is due"""
    admin_rules: Signal[[]] = field(default_factory=Signal)
    """the host serves other kinds, which roles have to list"""
    lead_regained: Signal[[]] = field(default_factory=Signal)
    """the lead is certain again"""


K = TypeVar("K", bound=Hashable)

MAX_DELAY_S = 30.0
FEW_WORKERS = 4


class Queues:
    """Makes queues; of several virtual clusters none has more than half of the workers."""

    def __init__(
        self, virtual_clusters: VirtualClusters, base_delay_s: float, loop_time: LoopTime
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._loop_time = loop_time
        self._base_delay_s = base_delay_s
        self._shared: list[tuple[WorkQueue[Any], int]] = []
        virtual_clusters.changed.subscribe(self._share)

    def by_name(self, max_delay_s: float = MAX_DELAY_S) -> WorkQueue[str]:
        """Return a queue of names, each a group of its own: no slow one counts as a worker."""
        return WorkQueue(lambda name: name, self._base_delay_s, max_delay_s, at_once=1)

    def by_cluster(
        self,
        cluster_of: Callable[[K], str],
        workers: int = FEW_WORKERS,
        max_delay_s: float = MAX_DELAY_S,
        new_retries: Callable[[], TokenBucket] | None = None,
        base_delay_s: float | None = None,
    ) -> WorkQueue[K]:
        """Return a queue that is fair among virtual clusters; each has several keys."""
        first_s = self._base_delay_s if base_delay_s is None else base_delay_s
        made = WorkQueue(cluster_of, first_s, max_delay_s, new_retries, loop_time=self._loop_time)
        self._shared.append((made, half_of_workers(workers)))
        self._share()
        return made

    def _share(self, *_change: object) -> None:
        is_shared = self._virtual_clusters.are_several()
        for queue, at_once in self._shared:
            queue.at_once = at_once if is_shared else 0


def half_of_workers(workers: int) -> int:
    return (workers + 1) // 2


def cluster_of_key(key: tuple[Any, ...]) -> str:
    return str(key[0])


MayHold = Callable[[str], Awaitable[bool]]


async def _no_fields(_: VirtualCluster) -> Object:
    return {}


@dataclass(slots=True)
class Hooks:
    """The hooks of one process, set by features in `prepare`.

    placement_keeper: made of the record of kept workloads. shares: of quotas. fields_of_new:
    metadata and spec that a new Cluster has besides its own. writes_ready: precede the first Work.
    confined: makes a controller leave alone what this process does not serve.
    """

    window_gate: Callable[[HostObjects, MayHold], WindowGate] = lambda *_: WindowGate()
    placement_keeper: Callable[[ReportedObjects], PlacementKeeper | None] = lambda _: None
    shares: NamespaceShares = field(default_factory=NamespaceShares)
    fields_of_new: Callable[[VirtualCluster], Awaitable[Object]] = _no_fields
    writes_ready: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    confined: Callable[[ControllerSpec[Any]], ControllerSpec[Any]] = lambda spec: spec

    async def wait_ready(self) -> None:
        for ready in self.writes_ready:
            await ready()


HOST_OBJECT_INDEXES = {CLUSTER_INDEX: labelled_cluster}


class Stores:
    """The stores that no controller can do without, and what is read from them."""

    def __init__(self, common: "Common") -> None:
        config, vcs, clients = common.config, common.virtual_clusters, common.clients
        node_codec: Codec[Node] = Codec(Node)
        pod_codec: Codec[Pod] = Codec(Pod)
        self.nodes: Store[Node] = Store(
            node_codec, {host_objects.ADDRESS_INDEX: host_objects.addresses_of}
        )
        self.pods: Store[Pod] = Store(pod_codec, host_objects.pod_indexes())
        self.kept = KeptObjects(vcs, self._cluster_on)
        self.namespaces: Store[Object] = Store(self.kept, HOST_OBJECT_INDEXES)
        clusters = hub_clusters.cluster_store()
        agent = hub_clusters.agent_id(config.agent_namespace, config.agent_name)
        has_status = virtual_cluster.CLUSTER_STATUS in common.switches
        judgements = common.judgements if has_status else None
        self.clusters = hub_clusters.HubClusters(clusters, common.host_uid, vcs, agent, judgements)
        self.membership = Membership(vcs.everywhere, self.nodes, self.clusters.created_at)
        server, service = clients.host.credentials.server, os.environ.get("KUBERNETES_SERVICE_HOST")
        self.addresses = host_objects.HostAddresses(
            self.nodes, (urlsplit(server).hostname, service), self.membership.owner_of
        )
        self.trust = host_objects.NodeTrust(clients.host_urgent, self.nodes)
        self.claims = Claims(self.namespaces, config.agent_name)
        hub, host = clients.hub, clients.host
        self.of_host: tuple[AnyReflector, ...] = (
            Reflector(host, "/api/v1/nodes", node_codec, self.nodes),
            Reflector(host, "/api/v1/namespaces", self.kept, self.namespaces),
            Reflector(host, "/api/v1/pods", pod_codec, self.pods),
        )
        path = hub_clusters.CLUSTERS_PATH
        self.of_hub: AnyReflector = Reflector(hub, path, clusters.codec, clusters)
        if config.clusters_by_name:
            state, every = common.state, vcs.everywhere
            named = named_reflector(hub, path, clusters, lambda: {*every, *state.clusters()})
            every.changed.subscribe(lambda *_: named.parts_changed())
            self.clusters.has_listed = named.has_listed
            self.of_hub = named
        self.reflectors: tuple[AnyReflector, ...] = (self.of_hub, *self.of_host)

    def owner_of_pod(self, pod: Pod) -> str:
        """Return the Cluster of ours on whose node, else in whose namespace, it is, "" for none."""
        cluster = self.claims.cluster_on(pod.metadata.namespace)
        if pod.spec.node_name:
            cluster = self.membership.owner_of(pod.spec.node_name) or ""
        return cluster if self.clusters.ours(cluster) is not None else ""

    def _cluster_on(self, namespace: str) -> str:
        return self.claims.cluster_on(namespace)


T = TypeVar("T")

UNKNOWN_ON_HUB_FOR_S = 30.0
"""It only says more of kinds that the host does not serve, and it is far away."""


@dataclass(frozen=True, slots=True)
class _Discoveries:
    hub: Discovery
    host: Discovery

    async def find(self, gvk: GroupVersionKind) -> Resource | None:
        """Return where a kind lives: as the host serves it, else as the hub does (trap 34)."""
        return await self.host.find(gvk) or await self.hub.find(gvk)


@dataclass(eq=False)
class Common:
    """Settings, stores and signals of one process, made of what it is given to serve with.

    reregister: virtual clusters to register again although their Clusters were deleted. node: name
    of the agent's own node, "" = none is recorded. provided: what features read at the start.
    host_uid, hub_uid: of kube-system, "" until it answers. switches: the enabled controllers of
    Karmada's.

    An emitter of changes is made before its readers, so its handlers run first.
    """

    config: AgentConfig
    live: LiveSettings
    clients: Clients
    state: hub_clusters.AgentState
    host_uid: str
    virtual_clusters: VirtualClusters
    lead: Lead
    metrics: Metrics
    reregister: frozenset[str] = frozenset()
    node: str = ""
    provided: tuple[object, ...] = ()
    fence: Fence = field(default_factory=Fence)
    hub_uid: Callable[[], str] = lambda: ""
    clock: hub_clusters.Clock = field(default_factory=hub_clusters.Clock)

    def __post_init__(self) -> None:
        config, clients, vcs = self.config, self.clients, self.virtual_clusters
        self.origins = Origins()
        self.hooks = Hooks()
        self._provided: dict[type, Any] = {type(part): part for part in self.provided}
        self.settings: context.TranslationSettings = translation_settings(config)
        self.switches: frozenset[str] = virtual_cluster.enabled_controllers(
            config.controllers, _also_enabled(config, clients)
        )
        self.gates: Mapping[str, bool] = virtual_cluster.feature_gates(config.feature_gates)
        self.signals = Signals()
        self.scopes = Scopes()
        self.scopes.ended.subscribe(self.metrics.forget)
        self.judgements = hub_clusters.Judgements(self.scopes)
        self.stores = Stores(self)
        self.loop_time = LoopTime(vcs.loop_share, self._loop_share_exceeded)
        self.scopes.ended.subscribe(self.loop_time.forget)
        self.queues = Queues(vcs, config.rate_limiter_base_delay, self.loop_time)
        self.registrations = Registrations(
            self.state, self.stores.clusters, vcs, set(self.reregister)
        )
        self.held_changes = HeldChanges(self.signals.work_due.emit, self.signals.work_status.emit)
        self.discoveries = _Discoveries(
            hub=Discovery(clients.hub, self.clock.monotonic, UNKNOWN_ON_HUB_FOR_S),
            host=Discovery(clients.host_urgent, self.clock.monotonic),
        )
        self.contact = hub_clusters.HubContact(config.cluster_lease_duration, self.scopes)
        for client in clients.of_host():
            client.refusal = self.stores.claims.refusal
        self.supervisor = Supervisor(self.metrics.part_restarted)

    def _loop_share_exceeded(self, flow: Hashable) -> None:
        bound = round((self.virtual_clusters.loop_share(flow) or 0.0) * 1000)
        text = (
            f"the agent computes more than {bound} ms of a second for it "
            f"(bounds.{virtual_cluster.LOOP_BOUND}), so its Works wait while others have something "
            "to do"
        )
        self.signals.bound_met.emit(str(flow), text)

    def provide(self, part: object) -> None:
        """Share what a feature made with its controllers, by its type."""
        self._provided[type(part)] = part

    def part(self, kind: type[T]) -> T:
        """Return what a feature provides. Raises KeyError: that feature is not in this agent."""
        return cast("T", self._provided[kind])

    def find(self, kind: type[T]) -> T | None:
        """Return what a feature or the start provides, None = nothing of this type."""
        return self._provided.get(kind)


def _also_enabled(config: AgentConfig, clients: Clients) -> tuple[str, ...]:
    owns_certificate = is_agents_own(clients.hub.credentials.certificate, config.agent_name)
    return (virtual_cluster.CERT_ROTATION,) if owns_certificate else ()
