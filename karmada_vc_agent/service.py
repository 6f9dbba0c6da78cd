"""What runs while this process leads: stores, controllers, and what makes whom look.

Everything is made from AgentConfig here and runs in one task group.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from karmada_vc_agent.config import AgentConfig
from karmada_vc_agent.controllers import certificate, endpoint_slices
from karmada_vc_agent.controllers.admin_role import AdminRoleController, admin_role_key
from karmada_vc_agent.controllers.cluster_lease import ClusterLeaseController
from karmada_vc_agent.controllers.cluster_status import (
    PODS_BY_NODE,
    ClusterStatusController,
    Gates,
    HostView,
    StatusTimes,
    pod_indexes,
)
from karmada_vc_agent.controllers.escape_detector import (
    SETTLES_S,
    EscapeDetector,
    HostPods,
    PodKey,
)
from karmada_vc_agent.controllers.execution import Collaborators, ExecutionController
from karmada_vc_agent.controllers.membership import MembershipController
from karmada_vc_agent.controllers.namespaces import (
    DEFAULT_NAMESPACE,
    NAMESPACES,
    NamespaceController,
)
from karmada_vc_agent.controllers.orphans import FIRST_LOOK_S, OrphansController
from karmada_vc_agent.controllers.placement_guard import (
    EVERYTHING,
    IN_EFFECT_WITHIN_S,
    GuardSettings,
    PlacementGuard,
)
from karmada_vc_agent.controllers.quotas import WORKLOADS, QuotaController
from karmada_vc_agent.controllers.registration import RegistrationController
from karmada_vc_agent.controllers.service_names import ServiceNamesController
from karmada_vc_agent.controllers.work_status import WorkStatus
from karmada_vc_agent.fleet.agent_state import AgentState
from karmada_vc_agent.fleet.census import (
    HOST_OBJECT_INDEX,
    HUB,
    Census,
    Counted,
    StatusMeter,
    cluster_label,
    controller_label,
)
from karmada_vc_agent.fleet.claims import Claims, claim_of
from karmada_vc_agent.fleet.default_objects import QUOTAS, RESOURCES, DefaultObjects
from karmada_vc_agent.fleet.host_objects import HostObjects
from karmada_vc_agent.fleet.hub_clusters import CLUSTERS_PATH, ClusterCodec, HubClusters
from karmada_vc_agent.fleet.hub_kubeconfig import FileKeep, SecretKeep
from karmada_vc_agent.fleet.interpreter_rules import Concerns, InterpreterRules
from karmada_vc_agent.fleet.lead import Lead
from karmada_vc_agent.fleet.manifests import Manifests
from karmada_vc_agent.fleet.membership import Membership
from karmada_vc_agent.fleet.node_groups import NodeGroups
from karmada_vc_agent.fleet.progress import Progress, vital_checks
from karmada_vc_agent.fleet.resync import resync
from karmada_vc_agent.fleet.shared_objects import SharedObjects
from karmada_vc_agent.fleet.work_events import WorkEvents
from karmada_vc_agent.fleet.work_finalizer import WorkFinalizer
from karmada_vc_agent.fleet.work_watches import WorkWatches
from karmada_vc_agent.fleet.works import is_of_cluster, namespaces_used
from karmada_vc_agent.interpretation.interpreter import Interpreter
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec, StructCodec
from karmada_vc_agent.kube.controller import Controller, Requeue
from karmada_vc_agent.kube.credentials import Credentials
from karmada_vc_agent.kube.discovery import Discovery, Resource, ServedApis
from karmada_vc_agent.kube.events import EventRecorder
from karmada_vc_agent.kube.health_probe import HealthProbe
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.kube.rate_limit import TokenBucket
from karmada_vc_agent.kube.reflector import Reflector, unlisted, wait_all_synced
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.work_queue import WorkQueue
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.domain import AGENT_LABEL, CLUSTER_LABEL, NAMESPACE_LABEL, SHARED_LABEL
from karmada_vc_agent.model.karmada import cluster_of_execution_namespace, work_name
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    gvk_of,
    labels_of,
)
from karmada_vc_agent.model.switches import (
    CERT_ROTATION,
    CLUSTER_RESOURCE_MODELING,
    CLUSTER_STATUS,
    ENDPOINT_SLICE_COLLECT,
    EXECUTION,
    MULTI_CLUSTER_SERVICE,
    SERVICE_EXPORT,
    WORK_STATUS,
    enabled_controllers,
    feature_gates,
)
from karmada_vc_agent.model.virtual_cluster import VirtualCluster, VirtualNamespace
from karmada_vc_agent.script_runner import ScriptRunner
from karmada_vc_agent.status import endpoint_slice_work
from karmada_vc_agent.status.readiness import Thresholds
from karmada_vc_agent.telemetry.metrics import ControllerMeter, Metrics
from karmada_vc_agent.translation.kind_policy import Policy
from karmada_vc_agent.translation.names import NamespaceTemplate
from karmada_vc_agent.translation.pod_templates import PodTemplates
from karmada_vc_agent.translation.rbac_rules import admin_rules
from karmada_vc_agent.translation.reference_table import NamespaceReferences
from karmada_vc_agent.translation.translate import Surroundings, TranslationSettings

_log = logging.getLogger(__name__)

LEASE_WORKERS = 8
FEW_WORKERS = 4
LEASE_RETRY_MAX_S = 5.0
STATUS_RETRY_MAX_S = 30.0
NODE_CHANGE_SETTLES_S = 0.2
"""Changes of nodes come in groups; one status write is enough for those of this time."""
QUOTA_KINDS = frozenset((QUOTAS.gvk, *(resource.gvk for resource in WORKLOADS)))
QUOTA_SETTLES_S = 0.05
"""So do changes of quotas and workloads, but pods wait for what comes of them."""
SERVICE_NAMES_KEY = "rules"
"""There is one set of rules for CoreDNS."""
BUSY_WORKS = 16
"""Works waiting for a worker; events are held back while there are more."""
FINISH_S = 3.0
"""What is being done may end within this time when the agent is told to stop."""
LAST_EVENTS_S = 0.5
HOST_OBJECT_INDEXES = {HOST_OBJECT_INDEX: cluster_label}
SWITCHES = {
    "cluster-lease": CLUSTER_STATUS,
    "cluster-status": CLUSTER_STATUS,
    "execution": EXECUTION,
}
"""Controller here -> the name it is switched by; others always run (docs/adr/0009)."""

ALL = "all virtual clusters"
"""The only key of a controller that looks at all of them at once."""


@dataclass(frozen=True, slots=True)
class Clients:
    """The API servers; `urgent` are the lanes of their own, not fenced by the lead."""

    hub: ApiClient
    hub_urgent: ApiClient
    hub_leases: ApiClient
    hub_events: ApiClient
    host: ApiClient
    host_urgent: ApiClient

    def use_for_hub(self, credentials: Credentials) -> None:
        """Be known to the hub by other credentials, from the next request on."""
        for client in (self.hub, self.hub_urgent, self.hub_leases, self.hub_events):
            client.credentials = credentials

    def use_for_host(self, credentials: Credentials) -> None:
        """Be known to the host by other credentials, from the next request on."""
        for client in (self.host, self.host_urgent):
            client.credentials = credentials

    def all(self) -> tuple[ApiClient, ...]:
        """Return every client, those of the hub first."""
        return (
            self.hub,
            self.hub_urgent,
            self.hub_leases,
            self.hub_events,
            self.host,
            self.host_urgent,
        )

    def missing_rights(self) -> str | None:
        """Say which right is missing for longer, or None."""
        for client in self.all():
            for need in client.denials.lasting():
                return f"{client.name}: the agent needs rule {need}; see karmada-vc-agent join"
        return None

    async def close(self) -> None:
        """Close all connections."""
        for client in self.all():
            await client.close()


class Service:
    """Everything that runs while this process leads."""

    def __init__(
        self,
        config: AgentConfig,
        clients: Clients,
        state: AgentState,
        host_uid: str,
        virtual_clusters: dict[str, VirtualCluster],
        reregister: frozenset[str],
        lead: Lead,
        metrics: Metrics,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._tasks: list[asyncio.Task[None]] = []
        self._lease_progress = Progress()
        self._enabled = enabled_controllers(config.controllers)
        self._gates = feature_gates(config.feature_gates)
        self._lead = lead
        self._state = state
        self._clients = clients
        self._virtual_clusters = virtual_clusters
        self._settings = TranslationSettings(
            namespace_template=NamespaceTemplate.parse(config.namespace_template),
            forbidden_namespaces=config.forbidden_namespaces,
            pod_templates=tuple(
                PodTemplates(row.group, row.kind, row.paths, row.selector_only)
                for row in config.pod_templates
            ),
            namespace_references=tuple(
                NamespaceReferences(row.group, row.kind, row.paths)
                for row in config.namespace_references
            ),
            cluster_scoped_kinds={
                kind: Policy(policy) for kind, policy in config.cluster_scoped_kinds.items()
            },
            cluster_domain=config.cluster_domain,
            cluster_dns=config.cluster_dns,
            infrastructure=(*config.infrastructure_namespaces, config.agent_namespace),
            pod_cidrs=config.pod_cidrs,
            agent_name=config.agent_name,
        )
        self._admin_rules: tuple[ServedApis | None, tuple[Object, ...]] = (None, ())
        self._read(host_uid)
        self._decide(state, reregister)
        self._connect_handlers()
        self._count()

    # --- what is watched ----------------------------------------------------------------

    def _read(self, host_uid: str) -> None:
        """Make the stores and their reflectors."""
        names = list(self._virtual_clusters)
        hub, host = self._clients.hub, self._clients.host
        cluster_codec = ClusterCodec()
        cluster_store: Store[Object] = Store(cluster_codec)
        self._clusters = HubClusters(cluster_store, host_uid, names)
        node_codec: StructCodec[Node] = StructCodec(Node)
        self._nodes: Store[Node] = Store(node_codec)
        pod_codec: StructCodec[Pod] = StructCodec(Pod)
        self._pods: Store[Pod] = Store(pod_codec, pod_indexes())
        raw = RawCodec()
        self._namespace_store: Store[Object] = Store(raw, HOST_OBJECT_INDEXES)
        self._membership = Membership(
            self._config.virtual_clusters, self._nodes, self._clusters.created_at
        )
        self._claims = Claims(self._namespace_store, self._config.agent_name)
        self._reflectors: list[Reflector[Any]] = [
            Reflector(hub, CLUSTERS_PATH, cluster_codec, cluster_store),
            Reflector(host, "/api/v1/nodes", node_codec, self._nodes),
            Reflector(host, "/api/v1/namespaces", raw, self._namespace_store),
            Reflector(host, "/api/v1/pods", pod_codec, self._pods),
        ]
        self._group_informers = InformerSet(host, {}, self._group_changed)
        self._node_groups = NodeGroups(
            self._known_resource, self._group_informers.store, self._membership
        )
        self._host_discovery = Discovery(self._clients.host_urgent)
        self._hub_discovery = Discovery(hub)
        self._watches = WorkWatches(
            hub, names, self._work_changed, cluster_wide=self._config.works_cluster_wide
        )
        self._scripts = ScriptRunner()
        self._interpreter_rules = InterpreterRules(hub, self._scripts.run, self._meaning_changed)

    # --- who decides and writes ---------------------------------------------------------

    def _decide(self, state: AgentState, reregister: frozenset[str]) -> None:
        """Make the controllers and their queues."""
        config, clients, vcs = self._config, self._clients, self._virtual_clusters
        self._works_queue: WorkQueue[tuple[str, str]] = WorkQueue(
            lambda key: key[0],
            config.rate_limiter_base_delay,
            config.rate_limiter_max_delay,
            TokenBucket(config.rate_limiter_qps, config.rate_limiter_bucket_size, time.monotonic),
        )
        self._namespace_queue: WorkQueue[tuple[str, Any]] = WorkQueue(
            lambda key: key[0], config.rate_limiter_base_delay, STATUS_RETRY_MAX_S
        )
        self._registration_queue = _name_queue(STATUS_RETRY_MAX_S)
        self._status_queue = _name_queue(config.cluster_status_update_frequency)
        self._lease_queue = _name_queue(LEASE_RETRY_MAX_S)
        self._node_queue = _name_queue(STATUS_RETRY_MAX_S)
        self._service_queue: WorkQueue[endpoint_slices.ServiceKey] = WorkQueue(
            lambda key: key[0], config.rate_limiter_base_delay, STATUS_RETRY_MAX_S
        )
        self._orphans_queue = _name_queue(STATUS_RETRY_MAX_S)
        self._admin_role_queue = _name_queue(STATUS_RETRY_MAX_S)
        self._names_queue = _name_queue(STATUS_RETRY_MAX_S)
        self._quota_queue = _name_queue(STATUS_RETRY_MAX_S)
        self._leasing: set[str] = set()
        self._ready: dict[str, str | None] = {}

        self._recorder = EventRecorder(
            clients.hub_events, lambda: len(self._works_queue) > BUSY_WORKS
        )
        events = WorkEvents(self._recorder)
        interpreter = Interpreter(self._interpreter_rules.levels, time.monotonic)
        self._work_status = WorkStatus(self._enqueue_work, events, interpreter)
        self._informers = InformerSet(
            clients.host,
            {"labelSelector": CLUSTER_LABEL},
            self._host_object_changed,
            HOST_OBJECT_INDEXES,
        )
        self._shared = SharedObjects(
            clients.host, self._shared_store_of, self._enqueue_id, interpreter
        )
        self._shared_informers = InformerSet(
            clients.host, {"labelSelector": SHARED_LABEL}, self._shared.follow
        )
        host_objects = HostObjects(clients.host, self._store_of, interpreter)
        namespaces = NamespaceController(
            clients.host,
            self._claims,
            host_objects,
            vcs,
            self._settings,
            lambda name: (
                self._clusters.ours(name) is not None and not self._clusters.is_deleting(name)
            ),
            DefaultObjects(clients.host, self._store_of, self._settings),
        )
        quotas = QuotaController(clients.host, self._store_of, self._claims, self._membership, vcs)
        self._manifests = manifests = Manifests(
            host_objects,
            self._shared,
            namespaces,
            self._find_resource,
            self._around,
            self._membership.lost_node,
        )
        self._finalizer = WorkFinalizer(
            clients.hub,
            self._clusters,
            self._watches.works,
            manifests,
            self._status_queue.add,
        )
        self._execution = ExecutionController(
            vcs,
            Collaborators(
                hub=clients.hub,
                clusters=self._clusters,
                works=self._watches.works,
                manifests=manifests,
                finalizer=self._finalizer,
                work_status=self._work_status if WORK_STATUS in self._enabled else None,
                events=events,
                now=_now,
                measure=self._metrics.work_synced,
            ),
        )
        self._guard = self._placement_guard()
        self._escapes = self._escape_detector(events)
        self._census = self._new_census()
        registration = RegistrationController(clients.hub, self._clusters, state, vcs, reregister)
        lease = ClusterLeaseController(
            clients.hub_leases,
            self._clusters,
            config.cluster_lease_duration,
            config.cluster_lease_renew_interval_fraction,
            self._lead,
            on_renewed=lambda name: self._census.contact(name, HUB),
        )
        names = ServiceNamesController(
            clients.host,
            self._claims,
            vcs,
            config.agent_name,
            config.dns_namespace,
            config.cluster_domain,
        )
        membership = MembershipController(clients.host, self._nodes, self._membership, vcs)
        admin_role = AdminRoleController(clients.host, self._host_discovery)
        orphans = OrphansController(
            clients.host,
            self._host_discovery,
            self._claims,
            self._watches.works,
            vcs,
            on_counted=self._census.orphans_found,
        )
        controllers: list[Controller[Any]] = [
            Controller("orphans", self._orphans_queue, orphans.reconcile, workers=1),
            Controller(
                "cluster-lease",
                self._lease_queue,
                self._noting_progress(lease.reconcile),
                LEASE_WORKERS,
            ),
            Controller(
                "registration", self._registration_queue, registration.reconcile, FEW_WORKERS
            ),
            Controller(
                "cluster-status",
                self._status_queue,
                self._status_controller().reconcile,
                config.concurrent_cluster_syncs,
            ),
            Controller("namespaces", self._namespace_queue, namespaces.reconcile, FEW_WORKERS),
            Controller("service-names", self._names_queue, names.reconcile, 1),
            Controller("quotas", self._quota_queue, quotas.reconcile, FEW_WORKERS),
            Controller("membership", self._node_queue, membership.reconcile, FEW_WORKERS),
            Controller("admin-role", self._admin_role_queue, admin_role.reconcile, 1),
            Controller("placement-guard", self._guard_queue, self._guard.reconcile, 1),
            Controller("escape-detector", self._escape_queue, self._escapes.reconcile, FEW_WORKERS),
            Controller(
                "execution",
                self._works_queue,
                self._execution.reconcile,
                config.concurrent_work_syncs,
            ),
        ]
        self._endpoint_slices = self._endpoint_slice_controller()
        if self._endpoint_slices is not None:
            controllers.append(
                Controller(
                    "service-export",  # Karmada's name; collecting is part of it here
                    self._service_queue,
                    self._endpoint_slices.reconcile,
                    FEW_WORKERS,
                )
            )
        self._certificate_queue = _name_queue(STATUS_RETRY_MAX_S)
        kubeconfig = clients.hub.credentials.kubeconfig
        if CERT_ROTATION in self._enabled and kubeconfig is None:
            _log.warning("Not renewing the hub credential: it comes from no kubeconfig")
        elif CERT_ROTATION in self._enabled and kubeconfig is not None:
            rotation = self._certificate_controller(kubeconfig)
            controllers.append(
                Controller("cert-rotation", self._certificate_queue, rotation.reconcile, 1)
            )
            self._certificate_queue.add("hub")
        self._controllers = [
            controller
            for controller in controllers
            if SWITCHES.get(controller.name) in self._enabled | {None}
        ]

    def _endpoint_slice_controller(self) -> endpoint_slices.EndpointSliceController | None:
        is_collecting = self._gates[MULTI_CLUSTER_SERVICE]
        switches = {
            SERVICE_EXPORT: (endpoint_slice_work.SERVICE_EXPORT, True),
            ENDPOINT_SLICE_COLLECT: (endpoint_slice_work.MULTI_CLUSTER_SERVICE, is_collecting),
        }
        reporters = [
            reporter
            for name, (reporter, is_open) in switches.items()
            if name in self._enabled and is_open
        ]
        if not reporters:
            return None
        return endpoint_slices.EndpointSliceController(
            self._virtual_clusters,
            reporters,
            endpoint_slices.Collaborators(
                hub=self._clients.hub,
                host=self._clients.host,
                clusters=self._clusters,
                works=self._watches.works,
                claims=self._claims,
                find_on_host=self._host_discovery.find,
                around=self._around,
                enqueue=self._service_queue.add,
            ),
        )

    def _certificate_controller(self, kubeconfig: Path) -> certificate.CertificateController:
        config, clients = self._config, self._clients
        namespace = config.karmada_kubeconfig_namespace or config.agent_namespace
        return certificate.CertificateController(
            clients.hub,
            clients.hub.credentials,
            (FileKeep(kubeconfig), SecretKeep(clients.host, namespace)),
            certificate.Rule(
                config.cert_rotation_checking_interval,
                config.cert_rotation_remaining_time_threshold,
            ),
            clients.use_for_hub,
            lambda: datetime.now(UTC),
        )

    def _placement_guard(self) -> PlacementGuard:
        config = self._config
        self._guard_queue = _name_queue(STATUS_RETRY_MAX_S)
        self._policies = InformerSet(
            self._clients.host,
            {"labelSelector": f"{AGENT_LABEL}={config.agent_name}"},
            lambda _old, _new: self._guard_queue.add(EVERYTHING),
        )
        return PlacementGuard(
            self._clients.host,
            self._host_discovery,
            self._claims,
            self._virtual_clusters,
            GuardSettings(config.agent_name, config.agent_namespace, config.install_policies),
            watch=self._policies.store,
            on_change=self._placement_changed,
        )

    def _escape_detector(self, events: WorkEvents) -> EscapeDetector:
        self._escape_queue: WorkQueue[PodKey] = WorkQueue(
            self._cluster_of_pod, max_delay_s=STATUS_RETRY_MAX_S
        )
        known = HostPods(
            self._pods,
            PODS_BY_NODE,
            self._nodes,
            self._membership,
            self._claims,
            self._virtual_clusters,
        )
        return EscapeDetector(
            self._clients.host,
            self._host_discovery,
            known,
            self._watches.works,
            self._clusters,
            events,
            lambda key: self._escape_queue.add_after(key, SETTLES_S),
        )

    def _cluster_of_pod(self, key: PodKey) -> str:
        claim = self._claims.on(key[0])
        return claim.cluster if claim is not None else ""

    def _status_controller(self) -> ClusterStatusController:
        config, host = self._config, self._clients.host_urgent
        frequency_s = config.cluster_status_update_frequency
        view = HostView(
            client=host,
            probe=HealthProbe(host, max_age_s=frequency_s / 2),
            discovery=self._host_discovery,
            membership=self._membership,
            pods=self._pods,
            claims=self._claims,
            cluster_scoped_kinds=self._settings.cluster_scoped_kinds,
            placement=self._guard.condition,
        )
        thresholds = Thresholds(config.cluster_success_threshold, config.cluster_failure_threshold)
        return ClusterStatusController(
            self._clients.hub_urgent,
            self._clusters,
            view,
            self._virtual_clusters,
            StatusTimes(frequency_s, thresholds),
            Gates(self._lead.may_report, self._finalizer.is_barred),
            with_resources=config.enable_cluster_resource_modeling,
            with_models=self._gates[CLUSTER_RESOURCE_MODELING],
            on_ready=self._start_lease,
            now=_now,
            instrument=StatusMeter(self._metrics, self._census),
        )

    def _store_of(self, resource: Resource) -> Store[Object] | None:
        if resource.gvk == NAMESPACES.gvk:
            return self._namespace_store
        return self._informers.store(resource)

    def _shared_store_of(self, resource: Resource) -> Store[Object] | None:
        return self._shared_informers.store(resource)

    def _known_resource(self, gvk: GroupVersionKind) -> Resource | None:
        return self._host_discovery.served.by_kind.get(gvk)

    async def _find_resource(self, gvk: GroupVersionKind) -> Resource | None:
        """Return where a kind lives: as the host serves it, else as the hub does (trap 34)."""
        return await self._host_discovery.find(gvk) or await self._hub_discovery.find(gvk)

    def _around(self, vc: VirtualCluster, work: str) -> Surroundings:
        return Surroundings(
            vc=vc,
            settings=self._settings,
            claims=self._claims.of(vc.name),
            owns_node=lambda node: self._membership.owner_of(node) == vc.name,
            work=work,
            is_of_cluster=is_of_cluster(
                self._watches.works.by_id(work), self._clusters.ours(vc.name)
            ),
            admin_rules=self._most_rules(),
            nodes_of_group=self._node_groups.nodes_of,
        )

    def _most_rules(self) -> tuple[Object, ...]:
        """Return what RBAC rules may grant at most; made anew when the host serves others."""
        served = self._host_discovery.served
        if self._admin_rules[0] is not served:
            self._admin_rules = (served, admin_rules(served.namespaced))
        return self._admin_rules[1]

    # --- what makes whom look -----------------------------------------------------------

    def _host_object_changed(self, old: Object | None, new: Object | None) -> None:
        self._follow(old, new)
        obj = new or old
        labels = labels_of(obj or {})
        cluster = labels.get(CLUSTER_LABEL, "")
        vc = self._virtual_clusters.get(cluster)
        if obj is None or vc is None:
            return
        if gvk_of(obj) in RESOURCES:
            namespace = VirtualNamespace(labels.get(NAMESPACE_LABEL, ""))
            self._namespace_queue.add((cluster, namespace))
        if vc.quota and gvk_of(obj) in QUOTA_KINDS:
            self._quota_queue.add_after(cluster, QUOTA_SETTLES_S)

    def _connect_handlers(self) -> None:
        self._clusters.store.add_handler(self._cluster_changed)
        self._nodes.add_handler(self._node_changed)
        self._nodes.add_handler(self._escapes.follow_node)
        self._pods.add_handler(self._escapes.follow_pod)
        self._membership.add_listener(self._nodes_of_cluster_changed)
        self._namespace_store.add_handler(self._namespace_changed)
        for client in (self._clients.hub, self._clients.host):
            client.on_recovery(self.retry_all)

    def _follow(self, old: Object | None, new: Object | None) -> None:
        """Look at the Work of a host object that changed: to reflect it, and repair drift."""
        if WORK_STATUS in self._enabled:
            self._work_status.follow(old, new)

    def _enqueue_work(self, key: tuple[str, str]) -> None:
        if key[0] in self._virtual_clusters:
            self._works_queue.add(key)

    def _enqueue_id(self, work: str) -> None:
        """Queue a Work by `<execution namespace>/<name>`."""
        namespace, _, name = work.partition("/")
        self._enqueue_work((cluster_of_execution_namespace(namespace) or "", name))

    def _work_changed(self, cluster: str, old: Object | None, new: Object | None) -> None:
        if self._endpoint_slices is not None:
            # Our own writes too: it is we who say that a ServiceExport is applied.
            self._endpoint_slices.work_changed(cluster, old, new)
        if old is not None and new is not None:
            before, after = old["metadata"], new["metadata"]
            if before.get("resourceVersion") == after.get("resourceVersion"):
                return  # our own write, already observed
        work = new or old
        if work is not None:
            self._works_queue.add((cluster, work["metadata"]["name"]))
        if old is not None and new is None:
            # The Works of its namespaces may have waited for this one to go.
            for namespace in namespaces_used(old):
                self._works_queue.add((cluster, work_name("Namespace", namespace, "")))

    def _cluster_changed(self, old: Object | None, new: Object | None) -> None:
        cluster = new or old
        name = cluster["metadata"]["name"] if cluster else ""
        if name not in self._virtual_clusters:
            return
        self._registration_queue.add(name)
        if self._clusters.ours(name) is None:
            self._watches.stop(name)
            self._leasing.discard(name)
            self._lease_progress.forget(name)
            self._look_at_overlaps()
            return
        self._watches.start(name)
        self._namespace_queue.add((name, DEFAULT_NAMESPACE))
        generations = [dig(obj, "metadata", "generation") for obj in (old, new)]
        finalizers = [dig(obj, "metadata", "finalizers") for obj in (old, new)]
        if generations[0] != generations[1] or finalizers[0] != finalizers[1]:
            self._status_queue.add(name)
        if self._clusters.is_deleting(name):
            for work in self._watches.works.names(name):
                self._works_queue.add((name, work))
        if old is None:
            self._look_at_overlaps()
        # Not compared with `old`: after our own write that is what we wrote (Store.observe).
        if self._ready.get(name) != _ready_status(new):
            self._ready[name] = _ready_status(new)
            self._retry_cluster(name)

    def _retry_cluster(self, name: str) -> None:
        self._works_queue.retry_now(lambda key: key[0] == name)
        self._service_queue.retry_now(lambda key: key[0] == name)

    def _start_lease(self, name: str) -> None:
        if name not in self._leasing:
            self._leasing.add(name)
            self._lease_progress.note(name)
            self._lease_queue.add(name)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is not None:
            self._node_queue.add(node.metadata.name)

    def _nodes_of_cluster_changed(self, name: str) -> None:
        self._status_queue.add_after(name, NODE_CHANGE_SETTLES_S)
        self._retry_refused(name)

    def _look_at_overlaps(self) -> None:
        """Look again who owns shared nodes: a Cluster came or went, and with it the older one."""
        for name in self._virtual_clusters:
            for node, _ in self._membership.overlaps(name):
                self._node_queue.add(node)
                self._escapes.look_at_node(node)
                self._nodes_of_cluster_changed(name)

    def _namespace_changed(self, old: Object | None, new: Object | None) -> None:
        self._follow(old, new)
        before, after = (claim_of(obj) if obj else None for obj in (old, new))
        for claim in dict.fromkeys((before, after)):
            if claim is not None and claim.cluster in self._virtual_clusters:
                self._namespace_queue.add((claim.cluster, claim.namespace))
                self._quota_queue.add_after(claim.cluster, QUOTA_SETTLES_S)
                self._names_queue.add_after(SERVICE_NAMES_KEY, NODE_CHANGE_SETTLES_S)
                if new is None:
                    self._retry_cluster(claim.cluster)
                if before != after and self._endpoint_slices is not None:
                    self._endpoint_slices.namespace_changed(claim)
                if before != after:
                    # Its Work, if there is one, takes over what was claimed on demand.
                    work = work_name("Namespace", claim.namespace, "")
                    self._works_queue.add((claim.cluster, work))
                    for resting in self._manifests.resting_on_claims(claim.cluster):
                        self._enqueue_id(resting)
        if before != after and new is not None:
            self._namespace_claimed(new["metadata"]["name"], is_new=old is None)
        if old is None or new is None or _names(old) != _names(new):
            for name in self._virtual_clusters:
                self._retry_refused(name)

    def _meaning_changed(self, concerns: Concerns) -> None:
        """Look again at what is applied: the interpreter says something else of it now."""
        for name in self._virtual_clusters:
            for work in self._watches.works.with_kind(name, concerns):
                self._works_queue.add((name, work))

    def _group_changed(self, _old: Object | None, _new: Object | None) -> None:
        for name in self._virtual_clusters:
            self._retry_refused(name)

    def _namespace_claimed(self, name: str, *, is_new: bool) -> None:
        if self._guard.is_undecided():
            self._guard_queue.add(EVERYTHING)
        if not is_new:
            self._escapes.look_at_namespace(name)

    def _placement_changed(self) -> None:
        for name in self._virtual_clusters:
            self._status_queue.add(name)

    def _retry_refused(self, name: str) -> None:
        for key in self._execution.refused(name):
            self._works_queue.add(key)

    def retry_all(self) -> None:
        """After an outage try everything at once, not when its back-off ends (trap 35)."""
        for controller in self._controllers:
            controller.queue.retry_now(lambda _: True)

    # --- what is told of all this -------------------------------------------------------

    def _new_census(self) -> Census:
        return Census(
            self._virtual_clusters,
            Counted(
                clusters=self._clusters,
                works=self._watches.works,
                membership=self._membership,
                host_objects=lambda: (self._namespace_store, *self._informers.stores()),
                refused=self._execution.refusals,
                escaped=self._escapes.escaped,
                controllers=lambda: self._controllers,
                events_dropped=lambda: self._recorder.dropped,
            ),
        )

    def _count(self) -> None:
        """Let controllers and queues tell what they do."""
        for controller in self._controllers:
            meter = ControllerMeter(self._metrics, controller_label(controller))
            controller.instrument = controller.queue.instrument = meter
        self._metrics.add_source(self._census.samples)

    def _noting_progress(
        self, reconcile: Callable[[str], Awaitable[Requeue | None]]
    ) -> Callable[[str], Awaitable[Requeue | None]]:
        async def noting(name: str) -> Requeue | None:
            try:
                outcome = await reconcile(name)
            finally:
                self._lease_progress.note(name)
            if outcome is None:
                self._lease_progress.forget(name)
            return outcome

        return noting

    def unlisted(self) -> list[str]:
        """Return the paths whose first list has not come yet."""
        return unlisted(self._reflectors)

    def stuck(self, hub_answers_since: float) -> dict[str, str | None]:
        """Return the liveness checks of what runs here: name -> None or what is wrong.

        hub_answers_since: monotonic time, infinite while it does not.
        """
        return vital_checks(
            self._tasks, self._lease_progress, stuck_after_s(self._config), hub_answers_since
        )

    # --- running ------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`, then let what is being done end."""
        async with asyncio.TaskGroup() as group:
            readers = [
                group.create_task(reflector.run(), name=f"reflector {reflector.path}")
                for reflector in self._reflectors
            ]
            readers.append(group.create_task(self._informers.run(), name="informers"))
            for what, informers in (
                ("shared objects", self._shared_informers),
                ("node groups", self._group_informers),
            ):
                readers.append(group.create_task(informers.run(), name=f"informers of {what}"))
            readers.append(group.create_task(self._watches.run(), name="work watches"))
            readers.append(group.create_task(self._recorder.run(), name="events"))
            readers.append(group.create_task(self._policies.run(), name="policies"))
            readers.append(
                group.create_task(self._interpreter_rules.run(), name="interpreter rules")
            )
            if self._endpoint_slices is not None:
                readers.append(group.create_task(self._endpoint_slices.run(), name="slices"))
            stopped = group.create_task(stop.wait(), name="stop")
            synced = group.create_task(self._wait_synced(), name="sync")
            self._tasks += readers
            await asyncio.wait((stopped, synced), return_when=asyncio.FIRST_COMPLETED)
            workers: list[asyncio.Task[None]] = []
            if synced.done():
                await self._report_unserved()
                _log.info("Serving", extra={"virtual_clusters": ",".join(self._virtual_clusters)})
                self._names_queue.add(SERVICE_NAMES_KEY)
                for name in self._virtual_clusters:
                    self._registration_queue.add(name)
                self._orphans_queue.add_after(ALL, FIRST_LOOK_S)
                self._admin_role_queue.add(admin_role_key())
                self._guard_queue.add(EVERYTHING)
                self._escapes.look_at_all()
                workers = [
                    group.create_task(self._work(controller), name=controller.name)
                    for controller in self._controllers
                ]
                self._tasks += workers
                if self._config.resync_period:
                    again = resync(
                        self._config.resync_period,
                        self._virtual_clusters,
                        self._watches.works,
                        self._works_queue.add,
                    )
                    readers.append(group.create_task(again, name="resync"))
                await stopped
            self._tasks.clear()
            await self._finish(workers)
            await self._scripts.close()
            await self._interpreter_rules.close()
            for task in (*readers, *workers, synced):
                task.cancel()

    async def _wait_synced(self) -> None:
        await wait_all_synced(self._reflectors, self._config.cluster_cache_sync_timeout)
        await self._interpreter_rules.wait_answered()

    async def _work(self, controller: Controller[Any]) -> None:
        if controller.queue is self._works_queue:
            # No workload comes before what keeps its pods in place, or before it is known why not.
            await self._guard.wait_settled(IN_EFFECT_WITHIN_S)
        await controller.run()

    async def _report_unserved(self) -> None:
        """Warn of virtual clusters that left the settings; forget those that left the hub too."""
        for name in self._state.clusters():
            if name in self._virtual_clusters:
                continue
            if self._clusters.store.get("", name) is None:
                await self._state.forget(name)
                continue
            _log.warning(
                "Not serving a virtual cluster that is no longer in the settings; nothing of it is "
                "deleted. To remove it run karmada-vc-agent leave",
                extra={"virtual_cluster": name},
            )

    async def _finish(self, workers: list[asyncio.Task[None]]) -> None:
        _log.info("Stopping")
        for controller in self._controllers:
            controller.queue.close()
        if workers:
            await asyncio.wait(workers, timeout=FINISH_S)
        await self._recorder.drain(LAST_EVENTS_S)


def stuck_after_s(config: AgentConfig) -> float:
    """Return after how long without an attempt at a Lease something must be wrong here.

    Longer than one attempt can take with a slow hub, which is a read and a write of up to
    30 s each: two minutes, or six times the pause between two attempts.
    """
    interval_s = config.cluster_lease_duration * config.cluster_lease_renew_interval_fraction
    return max(120.0, 6 * interval_s)


def _name_queue(max_delay_s: float) -> WorkQueue[str]:
    return WorkQueue(lambda name: name, max_delay_s=max_delay_s)


def _ready_status(cluster: Object | None) -> str | None:
    for condition in dig(cluster, "status", "conditions") or ():
        if condition["type"] == "Ready":
            return str(condition["status"])
    return None


def _names(obj: Object) -> tuple[Object, Object]:
    return labels_of(obj), annotations_of(obj)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
