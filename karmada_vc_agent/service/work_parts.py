"""What carries Works from the hub to the host and their status back."""

import time
from collections.abc import Callable, Hashable

from karmada_vc_agent.apply import causes
from karmada_vc_agent.apply.affected_works import AffectedWorks
from karmada_vc_agent.apply.default_objects import DefaultObjects
from karmada_vc_agent.apply.host_objects import HostObjects
from karmada_vc_agent.apply.manifests import Manifests
from karmada_vc_agent.apply.namespace_rights import NamespaceRights
from karmada_vc_agent.apply.namespace_writer import NAMESPACES, NamespaceWriter
from karmada_vc_agent.apply.reflection import WorkStatus, owning_work
from karmada_vc_agent.apply.shared_names import NAME_INDEX, NameHolders, SharedNames
from karmada_vc_agent.apply.shared_objects import SharedObjects
from karmada_vc_agent.apply.work_events import WorkEvents
from karmada_vc_agent.apply.work_finalizer import WorkFinalizer
from karmada_vc_agent.controllers.endpoint_slices import Collaborators as SliceCollaborators
from karmada_vc_agent.controllers.endpoint_slices import EndpointSliceController
from karmada_vc_agent.controllers.execution import Collaborators, ExecutionController
from karmada_vc_agent.controllers.namespaces import NamespaceController
from karmada_vc_agent.interpretation.interpreter import Interpreter
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.events import EventRecorder
from karmada_vc_agent.kube.informers import IDLE_S, InformerSet
from karmada_vc_agent.kube.namespaced_watches import WatchScope
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import tenancy
from karmada_vc_agent.model.domain import CLUSTER_LABEL, SHARED_LABEL
from karmada_vc_agent.model.objects import Object, labels_of
from karmada_vc_agent.model.rbac_rule import NAMESPACE_ADMIN
from karmada_vc_agent.model.switches import (
    ENDPOINT_SLICE_COLLECT,
    MULTI_CLUSTER_SERVICE,
    SERVICE_EXPORT,
    WORK_STATUS,
)
from karmada_vc_agent.model.tenancy import SHARED, Guard
from karmada_vc_agent.script_runner import ScriptRunner
from karmada_vc_agent.service.common import Common, now
from karmada_vc_agent.service.stores import HOST_OBJECT_INDEXES
from karmada_vc_agent.service.translation_contexts import TranslationContexts
from karmada_vc_agent.status import endpoint_slice_work
from karmada_vc_agent.translation.host_wide_names import index_keys
from karmada_vc_agent.translation.kind_policy import Policy, policy_for
from karmada_vc_agent.views.hook_probes import HookProbes
from karmada_vc_agent.views.interpreter_rules import InterpreterRules
from karmada_vc_agent.views.node_groups import NodeGroups
from karmada_vc_agent.views.registered_clusters import RegisteredClusters
from karmada_vc_agent.views.served_kinds import ServedKinds
from karmada_vc_agent.views.work_bounds import WorkBounds
from karmada_vc_agent.views.work_watches import WorkWatches
from karmada_vc_agent.views.works import WorkKey

BUSY_WORKS = 16
"""Works waiting for a worker; events are held back while there are more."""


class WorkParts:
    """The path of a Work: watches, interpreter, informers of what was applied, execution."""

    def __init__(self, common: Common) -> None:
        self._common = common
        self._read()
        self._write()
        self._follow()

    def _read(self) -> None:
        """Make what follows Works, their objects and the rules that interpret these."""
        common, signals = self._common, self._common.signals
        hub, host = common.clients.hub, common.clients.host
        kinds = common.settings.cluster_scoped_kinds
        self.bounds = WorkBounds(
            common.virtual_clusters,
            lambda gvk: policy_for(gvk, namespaced=False, configured=kinds) is Policy.SHARE,
            common.queues.works.add,
            self._bound_met,
        )
        self.watches = WorkWatches(
            hub,
            common.virtual_clusters,
            signals.work.emit,
            cluster_wide=common.config.works_cluster_wide,
            bounds=self.bounds,
            supervisor=common.supervisor,
        )
        self.scripts = ScriptRunner(
            on_taken=common.metrics.interpreter_taken,
            on_given_back=common.metrics.interpreter_given_back,
        )
        self.interpreter_rules = InterpreterRules(
            hub, self.scripts.run, signals.meaning.emit, common.supervisor
        )
        self.scope = WatchScope(host, self._claimed)
        common.stores.namespaces.add_handler(lambda _old, _new: self.scope.changed())
        self.informers = InformerSet(
            host,
            {"labelSelector": CLUSTER_LABEL},
            signals.host_object.emit,
            {**HOST_OBJECT_INDEXES, NAME_INDEX: index_keys},
            common.supervisor,
            self.scope,
            IDLE_S,
        )
        self.group_informers = InformerSet(
            host, {}, signals.node_group.emit, supervisor=common.supervisor
        )
        node_groups = NodeGroups(
            common.discoveries.known, self.group_informers.store, common.stores.membership
        )
        self._contexts = TranslationContexts(
            common.settings,
            common.stores,
            self.watches,
            common.discoveries.host,
            node_groups,
            lambda: common.queues.admin_role.add(NAMESPACE_ADMIN),
        )

    def _refuses_shared_hosts(self, cluster: str) -> bool:
        """Whether a virtual cluster may not have a host that another one has."""
        config, vc = self._common.config, self._common.virtual_clusters[cluster]
        guard, profile = Guard.SHARED_HOSTS, config.tenancy
        return tenancy.refuses(
            tenancy.STRICT if config.refuse_shared_hosts else profile, vc.allow, guard
        )

    def _write(self) -> None:
        """Make what writes: host objects, namespaces, the status and events of Works."""
        common, clients, queues = self._common, self._common.clients, self._common.queues
        clusters, affected = common.stores.clusters, common.signals.work_affected.emit
        self.recorder = EventRecorder(clients.hub_events, lambda: len(queues.works) > BUSY_WORKS)
        self.events = WorkEvents(self.recorder)
        self.hook_probes = HookProbes(self._hook_answers)
        self._interpreter = interpreter = Interpreter(
            self.interpreter_rules.levels, time.monotonic, self.hook_probes.probe
        )
        self.served_kinds = ServedKinds(
            clients.host,
            common.discoveries.host,
            common.signals.served.emit,
        )
        self.shared_objects = SharedObjects(
            clients.host, self._shared_store_of, affected, interpreter
        )
        self.shared_informers = InformerSet(
            clients.host,
            {"labelSelector": SHARED_LABEL},
            self.shared_objects.follow,
            supervisor=common.supervisor,
        )
        self._host_objects = host_objects = HostObjects(
            clients.host,
            self.store_of,
            interpreter,
            is_strict=common.config.tenancy == tenancy.STRICT,
        )
        self.shared_names = SharedNames(
            NameHolders(self.informers, common.discoveries.host),
            affected,
            self._refuses_shared_hosts,
        )
        self.namespace_writer = NamespaceWriter(
            clients.host,
            common.stores.claims,
            host_objects,
            common.settings,
            DefaultObjects(clients.host, self.store_of, common.settings),
            NamespaceRights(
                clients.host,
                self.store_of,
                common.config.agent_name,
                follows_kinds=common.config.tenancy == SHARED,
            ),
        )
        self.namespaces = NamespaceController(
            self.namespace_writer,
            common.stores.claims,
            common.virtual_clusters,
            lambda name: clusters.ours(name) is not None and not clusters.is_deleting(name),
        )
        self.manifests = Manifests(
            host_objects,
            self.shared_objects,
            self.namespace_writer,
            common.discoveries.find,
            self._contexts.context_for,
            common.stores.membership.lost_node,
            self.shared_names,
        )
        self.finalizer = WorkFinalizer(
            clients.hub,
            clients.host,
            clusters,
            self.watches.works,
            self.manifests,
            queues.status.add,
        )
        self.work_status = (
            WorkStatus(self._object_changed, self.events, interpreter)
            if WORK_STATUS in common.switches
            else None
        )
        self.execution = ExecutionController(
            common.virtual_clusters,
            Collaborators(
                hub=clients.hub,
                clusters=clusters,
                works=self.watches.works,
                manifests=self.manifests,
                finalizer=self.finalizer,
                work_status=self.work_status,
                events=self.events,
                now=now,
                held_changes=common.held_changes,
                measure=common.metrics.work_synced,
                bounds=self.bounds,
            ),
        )
        self.endpoint_slices = self._endpoint_slice_controller()

    def _follow(self) -> None:
        """Connect what is told with who makes something of it; the controllers come later."""
        common, signals = self._common, self._common.signals
        self.registered = RegisteredClusters(
            common.virtual_clusters,
            common.stores.clusters,
            common.stores.membership,
            self.watches,
        )
        for forget in self._forgetting():
            self.registered.gone.subscribe(forget)
        self.affected = AffectedWorks(
            common.virtual_clusters,
            self.watches.works,
            common.stores.clusters,
            self.execution.depending_on,
            self.manifests.depending_on_claims,
        )
        signals.work.subscribe(common.held_changes.work_changed)
        signals.host_object.subscribe(self._host_object_changed)
        signals.own_object.subscribe(self.shared_names.follow)
        common.stores.namespaces.add_handler(self._reflect)

    def _host_object_changed(self, old: Object | None, new: Object | None) -> None:
        self._reflect(old, new)
        old, new = (self._at_home(each, _labelled_cluster) for each in (old, new))
        self._common.signals.own_object.emit(old, new)

    def _reflect(self, old: Object | None, new: Object | None) -> None:
        """Have the Work of a host object that changed synced: to reflect it, and repair drift."""
        if self.work_status is not None:
            old, new = (self._at_home(each, _cluster_of_work) for each in (old, new))
            self.work_status.follow(old, new)

    def _at_home(self, obj: Object | None, named: Callable[[Object], str]) -> Object | None:
        """Return an object that lies where the virtual cluster that it names may have it."""
        if obj is None or not self._common.stores.claims.may_speak_for(obj, named(obj)):
            return None
        return obj

    def _object_changed(self, key: WorkKey, obj: Object | None) -> None:
        if key[0] in self._common.virtual_clusters:
            self._common.held_changes.changed(key, obj)

    def _bound_met(self, cluster: str, text: str) -> None:
        """Tell of a virtual cluster that has more than it may have."""
        found = self._common.stores.clusters.ours(cluster)
        if found is not None:
            self.events.bound_met(found, text)

    def _hook_answers(self, cluster: str, hook: Hashable) -> None:
        """Have all Works look again that waited for a webhook."""
        self._interpreter.answers_again(cluster, hook)
        self._common.queues.works.healed(causes.answering(cluster, hook))

    def _endpoint_slice_controller(self) -> EndpointSliceController | None:
        common = self._common
        is_collecting = common.gates[MULTI_CLUSTER_SERVICE]
        switches = {
            SERVICE_EXPORT: (endpoint_slice_work.SERVICE_EXPORT, True),
            ENDPOINT_SLICE_COLLECT: (endpoint_slice_work.MULTI_CLUSTER_SERVICE, is_collecting),
        }
        reporters = [
            reporter
            for name, (reporter, is_open) in switches.items()
            if name in common.switches and is_open
        ]
        if not reporters:
            return None
        return EndpointSliceController(
            common.virtual_clusters,
            reporters,
            SliceCollaborators(
                hub=common.clients.hub,
                host=common.clients.host,
                clusters=common.stores.clusters,
                works=self.watches.works,
                claims=common.stores.claims,
                find_on_host=common.discoveries.host.find,
                context_for=self._contexts.context_for,
                enqueue=common.queues.services.add,
                scope=self.scope,
            ),
        )

    def host_went_back(self) -> None:
        """Forget what was known to be on the host; none of it may be there."""
        self._host_objects.forget_all()
        self.namespace_writer.forget_all()

    def _forgetting(self) -> tuple[Callable[[str], None], ...]:
        """Return what drops all that is remembered of a Cluster that is gone."""
        keepers = (
            self.execution,
            self._host_objects,
            self.manifests,
            self.namespace_writer,
            self.shared_objects,
            self.shared_names,
        )
        return tuple(keeper.forget_cluster for keeper in keepers)

    def _claimed(self) -> list[str]:
        """Return the host namespaces of all virtual clusters served."""
        claims = self._common.stores.claims
        return [str(n) for vc in self._common.virtual_clusters for n in claims.of(vc).values()]

    def store_of(self, resource: Resource) -> Store[Object] | None:
        """Return what is known of our labelled objects of a resource."""
        if resource.gvk == NAMESPACES.gvk:
            return self._common.stores.namespaces
        return self.informers.store(resource)

    def _shared_store_of(self, resource: Resource) -> Store[Object] | None:
        return self.shared_informers.store(resource)


def _labelled_cluster(obj: Object) -> str:
    return labels_of(obj).get(CLUSTER_LABEL, "")


def _cluster_of_work(obj: Object) -> str:
    owner = owning_work(obj)
    return owner[0] if owner else ""
