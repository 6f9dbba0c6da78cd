"""What makes whom look: changes on hub and host become keys in the queues, and nothing else."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from karmada_vc_agent.apply import causes
from karmada_vc_agent.apply.default_objects import QUOTAS, RESOURCES
from karmada_vc_agent.apply.grounds import Ground
from karmada_vc_agent.apply.held_changes import HeldChanges
from karmada_vc_agent.apply.manifests import Manifests
from karmada_vc_agent.apply.reflection import WorkStatus, owning_work
from karmada_vc_agent.apply.shared_names import SharedNames
from karmada_vc_agent.controllers.admin_role import ADMIN_ROLE
from karmada_vc_agent.controllers.endpoint_slices import EndpointSliceController
from karmada_vc_agent.controllers.escape_detector import EscapeDetector
from karmada_vc_agent.controllers.execution import ExecutionController
from karmada_vc_agent.controllers.namespaces import DEFAULT_NAMESPACE
from karmada_vc_agent.controllers.node_taints import SETTLES_S as TAINTS_SETTLE_S
from karmada_vc_agent.controllers.placement_guard import EVERYTHING, PlacementGuard
from karmada_vc_agent.controllers.quotas import WORKLOADS
from karmada_vc_agent.kube.discovery import ServedApis
from karmada_vc_agent.kube.store import is_echo
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.domain import CLUSTER_LABEL, NAMESPACE_LABEL
from karmada_vc_agent.model.karmada import cluster_of_execution_namespace, work_name
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    gvk_of,
    labels_of,
)
from karmada_vc_agent.model.virtual_cluster import VirtualCluster, VirtualNamespace
from karmada_vc_agent.service.queues import Queues
from karmada_vc_agent.service.stores import Stores
from karmada_vc_agent.views.claims import Claim, claim_of
from karmada_vc_agent.views.hub_clusters import agent_of
from karmada_vc_agent.views.interpreter_rules import Concerns
from karmada_vc_agent.views.node_groups import NODE_GROUP
from karmada_vc_agent.views.work_watches import WorkWatches
from karmada_vc_agent.views.works import namespaces_used

NODE_CHANGE_SETTLES_S = 0.2
"""Changes of nodes come in groups; one status write is enough for those of this time."""
QUOTA_KINDS = frozenset((QUOTAS.gvk, *(resource.gvk for resource in WORKLOADS)))
QUOTA_SETTLES_S = 0.05
"""So do changes of quotas and workloads, but pods wait for what comes of them."""
SERVICE_NAMES_KEY = "rules"
"""There is one set of rules for CoreDNS."""


@dataclass(frozen=True, slots=True)
class Told:
    """Who is told of changes, beside the queues; None where the controller is off.

    forgetting: told of a virtual cluster whose Cluster is gone, or no longer ours. Whoever
    remembers anything by virtual cluster in memory forgets it there, and nowhere else.
    """

    watches: WorkWatches
    manifests: Manifests
    execution: ExecutionController
    work_status: WorkStatus | None
    shared_names: SharedNames
    guard: PlacementGuard
    escapes: EscapeDetector
    endpoint_slices: EndpointSliceController | None
    forgetting: tuple[Callable[[str], None], ...]


class Triggers:
    """The handlers of all stores. They run when those begin to read, after connect()."""

    def __init__(
        self,
        virtual_clusters: Mapping[str, VirtualCluster],
        stores: Stores,
        queues: Queues,
        held: HeldChanges,
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._stores = stores
        self._queues = queues
        self._held = held
        self._ready: dict[str, str | None] = {}
        self._scopes: dict[GroupVersionKind, bool] = {}
        self._told: Told

    def connect(self, told: Told) -> None:
        """Follow the stores from now on, and tell these."""
        self._told = told
        self._stores.clusters.store.add_handler(self._cluster_changed)
        self._stores.nodes.add_handler(self._node_changed)
        self._stores.nodes.add_handler(told.escapes.follow_node)
        self._stores.pods.add_handler(told.escapes.follow_pod)
        self._stores.membership.add_listener(self._nodes_of_cluster_changed)
        self._stores.namespaces.add_handler(self._namespace_changed)

    # --- the hub ------------------------------------------------------------------------

    def work_changed(self, cluster: str, old: Object | None, new: Object | None) -> None:
        """Look at a Work that came, changed or went."""
        work = new or old
        if work is not None and not is_echo(old, new):
            self._held.changed((cluster, work["metadata"]["name"]), new)
        if self._told.endpoint_slices is not None:
            # Our own writes too: it is we who say that a ServiceExport is applied.
            self._told.endpoint_slices.work_changed(cluster, old, new)
        if old is not None and new is None:
            # The Works of its namespaces may have waited for this one to go.
            for namespace in namespaces_used(old):
                self._queues.works.add((cluster, work_name("Namespace", namespace, "")))

    def meaning_changed(self, concerns: Concerns) -> None:
        """Look again at what is applied: the interpreter says something else of it now."""
        works = self._told.watches.works
        for name in self._virtual_clusters:
            for work in works.with_kind(name, concerns):
                self._queues.works.add((name, work))

    def judgement_changed(self, name: str) -> None:
        """Try again what waited for a Cluster to be Ready."""
        self._retry_cluster(name)

    def _cluster_changed(self, old: Object | None, new: Object | None) -> None:
        cluster = new or old
        name = cluster["metadata"]["name"] if cluster else ""
        if name not in self._virtual_clusters:
            return
        self._queues.registration.add(name)
        self._look_whose(old, new)
        watches = self._told.watches
        if self._stores.clusters.ours(name) is None:
            watches.stop(name)
            self._ready.pop(name, None)
            for forget in self._told.forgetting:
                forget(name)
            self._look_at_overlaps()
            self._queues.guard.add(EVERYTHING)
            return
        watches.start(name)
        self._queues.namespaces.add((name, DEFAULT_NAMESPACE))
        if any(
            dig(old, "metadata", key) != dig(new, "metadata", key)
            for key in ("generation", "finalizers")
        ):
            self._queues.status.add(name)
        if self._stores.clusters.is_deleting(name):
            for work in watches.works.names(name):
                self._queues.works.add((name, work))
        if old is None:
            self._look_at_overlaps()
        # Not compared with `old`: after our own write that is what we wrote (Store.observe).
        if self._ready.get(name) != _ready_status(new):
            self._ready[name] = _ready_status(new)
            self._retry_cluster(name)

    def _look_whose(self, old: Object | None, new: Object | None) -> None:
        """Look at the labels of nodes where another agent begins or ends to serve a Cluster."""
        if agent_of(old) != agent_of(new):
            for node in self._stores.nodes:
                self._queues.nodes.add(node.metadata.name)

    # --- objects of the host ------------------------------------------------------------

    def host_object_changed(self, old: Object | None, new: Object | None) -> None:
        """Look at what rests on an object that carries our label."""
        self._follow(old, new)
        old, new = (self._at_home(each, _labelled_cluster) for each in (old, new))
        self._told.shared_names.follow(old, new)
        obj = new or old
        if new is None and obj is not None:
            gvk = gvk_of(obj)
            self._queues.works.healed(causes.without_objects(f"{gvk.group}/{gvk.kind}"))
        labels = labels_of(obj or {})
        cluster = labels.get(CLUSTER_LABEL, "")
        vc = self._virtual_clusters.get(cluster)
        if obj is None or vc is None:
            return
        if gvk_of(obj) in RESOURCES:
            namespace = VirtualNamespace(labels.get(NAMESPACE_LABEL, ""))
            self._queues.namespaces.add((cluster, namespace))
        if vc.quota and gvk_of(obj) in QUOTA_KINDS:
            self._queues.quotas.add_after(cluster, QUOTA_SETTLES_S)

    def policy_changed(self, _old: Object | None, _new: Object | None) -> None:
        """Look at the admission policies: one of ours changed."""
        self._queues.guard.add(EVERYTHING)

    def placement_changed(self) -> None:
        """Report what is now known about the enforcement of placement."""
        for name in self._virtual_clusters:
            self._queues.status.add(name)

    def _follow(self, old: Object | None, new: Object | None) -> None:
        """Look at the Work of a host object that changed: to reflect it, and repair drift."""
        if self._told.work_status is not None:
            old, new = (self._at_home(each, _cluster_of_work) for each in (old, new))
            self._told.work_status.follow(old, new)

    def _at_home(self, obj: Object | None, named: Callable[[Object], str]) -> Object | None:
        """Return an object that lies where the virtual cluster that it names may have it."""
        if obj is None or not self._stores.claims.may_speak_for(obj, named(obj)):
            return None
        return obj

    def work_of_object_changed(self, key: tuple[str, str], obj: Object | None) -> None:
        """Look at a Work, (virtual cluster, name), if it is one of ours: its object changed."""
        if key[0] in self._virtual_clusters:
            self._held.changed(key, obj)

    def enqueue_work(self, key: tuple[str, str]) -> None:
        """Look at a Work, (virtual cluster, name), if it is one of ours."""
        if key[0] in self._virtual_clusters:
            self._queues.works.add(key)

    def enqueue_id(self, work: str) -> None:
        """Look at a Work by `<execution namespace>/<name>`."""
        namespace, _, name = work.partition("/")
        self.enqueue_work((cluster_of_execution_namespace(namespace) or "", name))

    # --- nodes and their groups ---------------------------------------------------------

    def group_changed(self, old: Object | None, new: Object | None) -> None:
        """Try again what was refused for a NodeGroup that changed."""
        group = new or old
        if group is not None and dig(old, "spec") != dig(new, "spec"):
            self._retry_refused(Ground.NODE_GROUP, group["metadata"]["name"])

    def kinds_served(self, served: ServedApis) -> None:
        """Try again what waited for a kind that the host serves by now, or in another scope."""
        self._queues.works.healed(causes.served_now(served.by_kind))
        scopes = {gvk: resource.namespaced for gvk, resource in served.by_kind.items()}
        if not self._scopes:
            self._retry_refused(Ground.KIND, "")
        for gvk in [gvk for gvk, scope in scopes.items() if self._scopes.get(gvk) != scope]:
            self._retry_refused(Ground.KIND, "/".join(gvk))
            if gvk == NODE_GROUP:
                self._retry_refused(Ground.NODE_GROUP, None)  # nobody watched them before
        self._scopes = scopes

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is not None:
            self._queues.nodes.add(node.metadata.name)

    def _nodes_of_cluster_changed(self, name: str) -> None:
        self._queues.status.add_after(name, NODE_CHANGE_SETTLES_S)
        self._queues.taints.add_after(name, TAINTS_SETTLE_S)
        self._retry_refused(Ground.OWN_NODES, name)

    def _look_at_overlaps(self) -> None:
        """Look again who owns shared nodes: a Cluster came or went, and with it the older one."""
        for name in self._virtual_clusters:
            for node, _ in self._stores.membership.overlaps(name):
                self._queues.nodes.add(node)
                self._told.escapes.look_at_node(node)
                self._nodes_of_cluster_changed(name)

    # --- namespaces ---------------------------------------------------------------------

    def _namespace_changed(self, old: Object | None, new: Object | None) -> None:
        self._follow(old, new)
        before, after = (claim_of(obj) if obj else None for obj in (old, new))
        for claim in dict.fromkeys((before, after)):
            if claim is None or claim.cluster not in self._virtual_clusters:
                continue
            self._queues.namespaces.add((claim.cluster, claim.namespace))
            self._queues.quotas.add_after(claim.cluster, QUOTA_SETTLES_S)
            self._queues.service_names.add_after(SERVICE_NAMES_KEY, NODE_CHANGE_SETTLES_S)
            if new is None:
                self._retry_cluster(claim.cluster)
            if before != after:
                self._claim_changed(claim)
                self._retry_refused(Ground.OWN_NAMESPACES, claim.cluster)
        if before is not None and self._stores.claims.is_empty():
            self._queues.guard.add(EVERYTHING)  # nothing may be left that needs policies
        if before != after and new is not None:
            self._namespace_claimed(new["metadata"]["name"], is_new=old is None)
        namespace = new or old
        if namespace is not None and (old is None or new is None or _marks(old) != _marks(new)):
            self._retry_refused(Ground.HOST_NAMESPACE, namespace["metadata"]["name"])

    def _claim_changed(self, claim: Claim) -> None:
        if self._told.endpoint_slices is not None:
            self._told.endpoint_slices.namespace_changed(claim)
        # Its Work, if there is one, takes over what was claimed on demand.
        work = work_name("Namespace", claim.namespace, "")
        self._queues.works.add((claim.cluster, work))
        for resting in self._told.manifests.depending_on_claims(claim.cluster):
            self.enqueue_id(resting)

    def _namespace_claimed(self, name: str, *, is_new: bool) -> None:
        if self._told.guard.is_undecided():
            self._queues.guard.add(EVERYTHING)
        if not is_new:
            self._told.escapes.look_at_namespace(name)

    # --- again --------------------------------------------------------------------------

    def look_at_everything(self) -> None:
        """Look at all there is: an API server went back in time, and nothing is as it was told."""
        queues = self._queues
        for name in self._virtual_clusters:
            for queue in (queues.registration, queues.status, queues.quotas, queues.taints):
                queue.add(name)
            for namespace in (DEFAULT_NAMESPACE, *self._stores.claims.of(name)):
                queues.namespaces.add((name, namespace))
            for work in self._told.watches.works.names(name):
                queues.works.add((name, work))
        for node in self._stores.nodes:
            queues.nodes.add(node.metadata.name)
        queues.service_names.add(SERVICE_NAMES_KEY)
        queues.admin_role.add(ADMIN_ROLE)
        queues.guard.add(EVERYTHING)
        self._told.escapes.look_at_all()

    def _retry_cluster(self, name: str) -> None:
        self._queues.works.retry_now(lambda key: key[0] == name)
        self._queues.services.retry_now(lambda key: key[0] == name)

    def _retry_refused(self, ground: Ground, about: str | None) -> None:
        for key in self._told.execution.depending_on(ground, about):
            self._queues.works.add(key)


def _labelled_cluster(obj: Object) -> str:
    return labels_of(obj).get(CLUSTER_LABEL, "")


def _cluster_of_work(obj: Object) -> str:
    owner = owning_work(obj)
    return owner[0] if owner else ""


def _ready_status(cluster: Object | None) -> str | None:
    for condition in dig(cluster, "status", "conditions") or ():
        if condition["type"] == "Ready":
            return str(condition["status"])
    return None


def _marks(obj: Object) -> tuple[Object, Object]:
    return labels_of(obj), annotations_of(obj)
