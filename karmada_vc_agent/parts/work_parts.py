"""What carries Works from the hub to the host and their status back."""

from collections.abc import Awaitable, Callable, Hashable
from functools import partial

from karmada_vc_agent.apply.adoptions import Adoptions
from karmada_vc_agent.apply.affected_works import AffectedWorks
from karmada_vc_agent.apply.default_objects import DefaultObjects
from karmada_vc_agent.apply.ground_changes import GroundChanges
from karmada_vc_agent.apply.host_objects import HostObjects
from karmada_vc_agent.apply.hub_works import HubWorks
from karmada_vc_agent.apply.manifests import Manifests
from karmada_vc_agent.apply.namespace_rights import NamespaceRights
from karmada_vc_agent.apply.namespace_writer import NAMESPACES, NamespaceWriter
from karmada_vc_agent.apply.reflection import WorkStatus, owning_work
from karmada_vc_agent.apply.shared_names import NAME_INDEX, NameHolders, SharedNames
from karmada_vc_agent.apply.shared_objects import SharedObjects
from karmada_vc_agent.apply.work_events import WorkEvents
from karmada_vc_agent.apply.work_finalizer import WorkFinalizer
from karmada_vc_agent.apply.work_memory import WorkMemory
from karmada_vc_agent.interpretation.interpreter import Interpreter
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.events import EventRecorder
from karmada_vc_agent.kube.informers import IDLE_S, InformerSet
from karmada_vc_agent.kube.namespaced_watches import WatchScope
from karmada_vc_agent.kube.rate_limit import TokenBucket
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.work_queue import WorkQueue
from karmada_vc_agent.model import tenancy
from karmada_vc_agent.model.domain import CLUSTER_LABEL, SHARED_LABEL
from karmada_vc_agent.model.objects import Object, labels_of
from karmada_vc_agent.model.switches import (
    WORK_STATUS,
)
from karmada_vc_agent.model.tenancy import SHARED, Guard
from karmada_vc_agent.parts.common import Common
from karmada_vc_agent.parts.queues import first
from karmada_vc_agent.parts.stores import HOST_OBJECT_INDEXES
from karmada_vc_agent.parts.translation_contexts import TranslationContexts
from karmada_vc_agent.script_runner import ScriptRunner
from karmada_vc_agent.translation.host_wide_names import index_keys
from karmada_vc_agent.translation.kind_policy import Policy, policy_for
from karmada_vc_agent.views.hook_probes import HookProbes
from karmada_vc_agent.views.interpreter_rules import InterpreterRules
from karmada_vc_agent.views.kept_placements import KeptPlacements
from karmada_vc_agent.views.node_groups import NodeGroups
from karmada_vc_agent.views.registered_clusters import RegisteredClusters
from karmada_vc_agent.views.served_kinds import ServedKinds
from karmada_vc_agent.views.virtual_clusters import former_names
from karmada_vc_agent.views.work_bounds import WorkBounds
from karmada_vc_agent.views.work_watches import WorkWatches
from karmada_vc_agent.views.works import WorkKey

BUSY_WORKS = 16
"""Works waiting for a worker; events are held back while there are more."""


class WorkParts:
    """The path of a Work: watches, interpreter, informers of what was applied, writers.

    queue: the Works that wait to be synced; events are held back while it is long.
    """

    def __init__(self, common: Common) -> None:
        self._common = common
        config = common.config
        self.queue: WorkQueue[WorkKey] = common.queues.by_cluster(
            first,
            config.concurrent_work_syncs,
            config.rate_limiter_max_delay,
            lambda: TokenBucket(
                config.rate_limiter_qps, config.rate_limiter_bucket_size, common.clock.monotonic
            ),
        )
        self.memory = WorkMemory()
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
            signals.work_due.emit,
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
        common.stores.namespaces.add_handler(lambda *_: self.scope.changed())
        common.virtual_clusters.changed.subscribe(lambda *_: self.scope.changed())
        self.informers = InformerSet(
            host,
            {"labelSelector": CLUSTER_LABEL},
            signals.host_object.emit,
            {**HOST_OBJECT_INDEXES, NAME_INDEX: index_keys},
            common.supervisor,
            self.scope,
            IDLE_S,
            are_ours=True,
        )
        self.group_informers = InformerSet(
            host, {}, signals.node_group.emit, supervisor=common.supervisor
        )
        node_groups = NodeGroups(
            common.discoveries.known, self.group_informers.store, common.stores.membership
        )
        self.contexts = TranslationContexts(
            common.settings,
            common.stores,
            self.watches,
            common.discoveries.host,
            node_groups,
            signals.admin_rules.emit,
            common.virtual_clusters,
        )

    def _refuses_shared_hosts(self, cluster: str) -> bool:
        """Whether a virtual cluster may not have a host that another one has."""
        config, vc = self._common.config, self._common.virtual_clusters.get(cluster)
        profile = tenancy.STRICT if config.refuse_shared_hosts else config.tenancy
        return vc is not None and tenancy.refuses(profile, vc.allow, Guard.SHARED_HOSTS)

    def _write(self) -> None:
        """Make what writes: host objects, namespaces, the status and events of Works."""
        common, clients = self._common, self._common.clients
        affected = common.signals.work_affected.emit
        self.recorder = EventRecorder(clients.hub_events, lambda: len(self.queue) > BUSY_WORKS)
        self.events = WorkEvents(self.recorder)
        self.hook_probes = HookProbes(self._hook_answers)
        self.interpreter = interpreter = Interpreter(
            self.interpreter_rules.levels, common.clock.monotonic, self.hook_probes.probe
        )
        self.served_kinds = ServedKinds(
            clients.host,
            common.discoveries.host,
            common.signals.served.emit,
        )
        former = partial(former_names, common.virtual_clusters)
        self.kept = KeptPlacements()
        self._adoptions = Adoptions(
            clients.host,
            self.kept,
            lambda cluster, node: common.stores.membership.owner_of(node) == cluster,
        )
        self.shared_objects = SharedObjects(
            clients.host, self._shared_store_of, affected, interpreter, former
        )
        self.shared_informers = InformerSet(
            clients.host,
            {"labelSelector": SHARED_LABEL},
            self.shared_objects.follow,
            supervisor=common.supervisor,
        )
        self.host_objects = host_objects = HostObjects(
            clients.host,
            self.store_of,
            interpreter,
            is_strict=common.config.tenancy == tenancy.STRICT,
            former_names=former,
            adoptions=self._adoptions,
        )
        self.shared_names = SharedNames(
            NameHolders(self.informers, common.discoveries.host),
            affected,
            self._refuses_shared_hosts,
            former,
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
                clock=common.clock.monotonic,
            ),
            common.virtual_clusters,
        )
        self.manifests = Manifests(
            host_objects,
            self.shared_objects,
            self.namespace_writer,
            common.discoveries.find,
            self.contexts.context_for,
            common.stores.membership.lost_node,
            self.shared_names,
        )
        self.finalizer = WorkFinalizer(
            clients.hub,
            clients.host,
            common.stores.clusters,
            self.watches.works,
            self.manifests,
            common.signals.status_due.emit,
        )
        self.hub_works = HubWorks(
            clients.hub, self.watches.works, self.bounds, common.held_changes, common.clock.now
        )
        self.work_status = (
            WorkStatus(self._object_changed, self.events, interpreter)
            if WORK_STATUS in common.switches
            else None
        )

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
            self.manifests.depending_on_claims,
        )
        grounds = GroundChanges(common.virtual_clusters, signals.ground.emit)
        signals.ground.subscribe(self.memory.ground_changed)
        common.stores.namespaces.add_handler(grounds.namespace)
        common.stores.membership.changed.subscribe(grounds.nodes)
        signals.node_group.subscribe(grounds.node_group)
        signals.served.subscribe(grounds.served)
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
        self.interpreter.answers_again(cluster, hook)
        self._common.signals.hook_answers.emit(cluster, hook)

    def runs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what reads and tells: name -> coroutine; nothing of it writes but events."""
        return {
            "informers": self.informers.run,
            "informers of shared objects": self.shared_informers.run,
            "informers of node groups": self.group_informers.run,
            "work watches": self.watches.run,
            "events": self.recorder.run,
            "interpreter rules": self.interpreter_rules.run,
            "hook probes": self.hook_probes.run,
            "served kinds": self.served_kinds.run,
        }

    def host_went_back(self) -> None:
        """Forget what was known to be on the host; none of it may be there."""
        self.host_objects.forget_all()
        self.namespace_writer.forget_all()

    def _forgetting(self) -> tuple[Callable[[str], None], ...]:
        """Return what drops all that is remembered of a Cluster that is gone."""
        keepers = (
            self.memory,
            self.finalizer,
            self.host_objects,
            self.manifests,
            self.namespace_writer,
            self.shared_objects,
            self.shared_names,
            self._adoptions,
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
