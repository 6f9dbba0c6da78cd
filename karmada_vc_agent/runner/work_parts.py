"""Makes and connects all that carries Works to the host, and their status back."""

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Concatenate, ParamSpec

from karmada_vc_agent.cluster.virtual_clusters import former_names
from karmada_vc_agent.config.loading import WARNINGS
from karmada_vc_agent.interpretation.interpreter import Interpreter
from karmada_vc_agent.interpretation.script_runner import ScriptRunner
from karmada_vc_agent.kube.controller import WorkQueue
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.events import EventRecorder
from karmada_vc_agent.kube.flows import FairSlots, TokenBucket, low_priority
from karmada_vc_agent.kube.https import WebhookClient
from karmada_vc_agent.kube.informers import IDLE_S, InformerSet, WatchScope
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import virtual_cluster
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import SHARED, STRICT, WORK_STATUS, Guard
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, SHARED_LABEL
from karmada_vc_agent.runner.common import (
    HOST_OBJECT_INDEXES,
    Common,
    TranslationContexts,
    cluster_of_key,
)
from karmada_vc_agent.translation.guards import shared_names
from karmada_vc_agent.translation.kind_policy import Policy, policy_for
from karmada_vc_agent.work import work_watches
from karmada_vc_agent.work.execution import LARGE_AT_ONCE, WorkStatuses
from karmada_vc_agent.work.host_objects import HostObjects, cluster_of
from karmada_vc_agent.work.manifests import Manifests, ReportedObjects
from karmada_vc_agent.work.memory_bounds import WorkBounds
from karmada_vc_agent.work.namespace_writer import (
    NAMESPACES,
    DefaultObjects,
    NamespaceRights,
    NamespaceWriter,
)
from karmada_vc_agent.work.removal import WorkFinalizer
from karmada_vc_agent.work.reporting import WorkEvents, owning_work, works_of_change
from karmada_vc_agent.work.served_kinds import InterpreterRules, ServedKinds
from karmada_vc_agent.work.shared_objects import NAME_INDEX, SharedNames, SharedObjects
from karmada_vc_agent.work.works import WorkKey, WorkMemory, binding_namespace, is_of_cluster

P = ParamSpec("P")


class WorkParts:
    """The path of a Work: readers, interpreter, writers, and which signals they follow."""

    def __init__(self, common: Common) -> None:
        self._common = common
        config = common.config
        self.queue: WorkQueue[WorkKey] = common.queues.by_cluster(
            cluster_of_key,
            config.concurrent_work_syncs,
            config.rate_limiter_max_delay,
            lambda: TokenBucket(
                config.rate_limiter_qps, config.rate_limiter_bucket_size, common.clock.monotonic
            ),
        )
        self.status_queue: WorkQueue[WorkKey] = common.queues.by_cluster(
            cluster_of_key, config.concurrent_work_syncs
        )
        self.memory = WorkMemory(common.scopes)
        self._read()
        self._interpret()
        self._write()
        self.finalizer = WorkFinalizer(
            common.clients.hub,
            common.clients.host,
            common.stores.clusters,
            self.watches.works,
            self.manifests,
            common.scopes,
            common.signals.status_due.emit,
            common.signals.work_affected.emit,
            self.events.sync_failed,
        )
        self.statuses = WorkStatuses(
            common.clients.hub,
            self.watches.works,
            self.bounds,
            common.held_changes,
            self._report,
            common.clock.now,
            common.scopes,
            common.stores.kept.take_status,
        )
        self.registered = work_watches.RegisteredClusters(
            common.virtual_clusters,
            common.stores.clusters,
            common.stores.membership,
            self.watches,
            common.scopes,
        )
        self.affected = work_watches.AffectedWorks(
            common.virtual_clusters,
            self.watches.works,
            common.stores.clusters,
            self.manifests.depending_on_claims,
        )
        self._follow()

    def _read(self) -> None:
        """Make what watches Works, what they were made into, and what they depend on."""
        common, signals, host = self._common, self._common.signals, self._common.clients.host
        claims, vcs = common.stores.claims, common.virtual_clusters
        kinds = common.settings.cluster_scoped_kinds
        self.bounds = WorkBounds(
            common.virtual_clusters,
            lambda gvk: policy_for(gvk, namespaced=False, configured=kinds) is Policy.SHARE,
            signals.work_due.emit,
            signals.bound_met.emit,
            common.stores.kept.take_status,
        )
        self.watches = work_watches.WorkWatches(
            common.clients.hub,
            common.virtual_clusters,
            signals.work.emit,
            self.bounds,
            cluster_wide=common.config.works_cluster_wide,
            supervisor=common.supervisor,
        )
        self.scope = WatchScope(
            host, lambda: [str(n) for vc in vcs for n in claims.of(vc).values()]
        )
        common.stores.namespaces.add_handler(lambda *_: self.scope.changed())
        vcs.changed.subscribe(lambda *_: self.scope.changed())
        self.informers = InformerSet(
            host,
            {"labelSelector": CLUSTER_LABEL},
            signals.host_object.emit,
            {**HOST_OBJECT_INDEXES, NAME_INDEX: shared_names},
            common.supervisor,
            self.scope,
            IDLE_S,
            are_ours=True,
            codec=common.stores.kept,
        )
        self.group_informers = InformerSet(
            host, {}, signals.node_group.emit, supervisor=common.supervisor
        )
        self.served_kinds = ServedKinds(host, common.discoveries.host, signals.served.emit)
        works, clusters = self.watches.works, common.stores.clusters
        self.contexts = TranslationContexts(
            common.settings,
            common.stores.membership,
            common.stores.claims,
            common.stores.addresses,
            lambda cluster, work: is_of_cluster(works.by_id(work), clusters.ours(cluster)),
            lambda work: binding_namespace(works.by_id(work)),
            common.discoveries.host,
            self.group_informers.store,
            signals.admin_rules.emit,
            common.virtual_clusters.everywhere,
        )

    def _report(self, key: WorkKey) -> None:
        with low_priority(is_low=self.queue.is_low(key)):
            self.status_queue.add(key)

    def store_of(self, resource: Resource) -> Store[Object] | None:
        if resource.gvk == NAMESPACES.gvk:
            return self._common.stores.namespaces
        return self.informers.store(resource)

    def _interpret(self) -> None:
        common = self._common
        self.scripts = ScriptRunner(count=common.metrics.count_interpreter)
        self.rules = InterpreterRules(
            common.clients.hub,
            self.scripts.run,
            common.signals.meaning.emit,
            common.supervisor,
            WebhookClient(is_shared=common.virtual_clusters.are_several),
        )
        self.interpreter = Interpreter(self.rules.levels, common.clock.monotonic)
        self.recorder = EventRecorder(
            common.clients.hub_events, only_warnings=common.config.hub_events == WARNINGS
        )
        self.events = WorkEvents(self.recorder)
        common.signals.bound_met.subscribe(self.on_cluster(self.events.bound_met))
        common.stores.kept.over.subscribe(
            self.on_cluster(partial(self.events.bound_met, of_works=False))
        )
        common.stores.claims.hold_changed.subscribe(self.on_cluster(self.events.namespace_held))

    def on_cluster(
        self, report: Callable[Concatenate[Object, P], None]
    ) -> Callable[Concatenate[str, P], None]:
        """Return what reports on the Cluster of a virtual cluster, if it is there and ours."""

        def reported(name: str, /, *args: P.args, **kwargs: P.kwargs) -> None:
            cluster = self._common.stores.clusters.ours(name)
            if cluster is not None:
                report(cluster, *args, **kwargs)

        return reported

    def _write(self) -> None:
        common, clients = self._common, self._common.clients
        former = partial(former_names, common.virtual_clusters.everywhere)
        self.kept, self.owned = ReportedObjects(common.scopes), ReportedObjects(common.scopes)
        adoptions = common.hooks.placement_keeper(self.kept)
        self.shared_objects = SharedObjects(
            clients.host,
            lambda resource: self.shared_informers.store(resource),  # noqa: PLW0108 - made below
            common.signals.work_affected.emit,
            self.interpreter,
            former,
            scopes=common.scopes,
        )
        self.shared_informers = InformerSet(
            clients.host,
            {"labelSelector": SHARED_LABEL},
            self.shared_objects.follow,
            supervisor=common.supervisor,
        )
        self.host_objects = HostObjects(
            clients.host,
            self.store_of,
            self.interpreter,
            allow_of=self._allow_of,
            former_names=former,
            adoptions=adoptions,
            scopes=common.scopes,
        )
        self.shared_names = SharedNames(
            self.informers,
            common.discoveries.host,
            common.signals.dependencies.emit,
            self._refuses_shared_hosts,
            former,
        )
        self.namespace_writer = self._namespace_writer()
        self.manifests = Manifests(
            self.host_objects,
            self.shared_objects,
            self.namespace_writer,
            common.discoveries.find,
            common.discoveries.host,
            self.contexts.context_for,
            common.stores.membership.lost_node,
            self.shared_names,
            common.hooks.window_gate(self.host_objects, self.namespace_writer.may_hold),
            self.owned,
            common.scopes,
        )
        self.large_slots = FairSlots(LARGE_AT_ONCE, common.virtual_clusters.are_several)
        self.reflects = WORK_STATUS in common.switches

    def _namespace_writer(self) -> NamespaceWriter:
        common, host = self._common, self._common.clients.host
        return NamespaceWriter(
            host,
            common.stores.claims,
            self.host_objects,
            common.settings,
            DefaultObjects(host, self.store_of, common.settings, common.hooks.shares),
            NamespaceRights(
                host,
                self.store_of,
                common.config.agent_name,
                follows_kinds=common.config.tenancy == SHARED,
                clock=common.clock.monotonic,
            ),
            common.virtual_clusters.everywhere,
            common.scopes,
        )

    def _refuses_shared_hosts(self, cluster: str) -> bool:
        config, vc = self._common.config, self._common.virtual_clusters.get(cluster)
        profile = STRICT if config.refuse_shared_hosts else config.tenancy
        return vc is not None and virtual_cluster.refuses(profile, vc.allow, Guard.SHARED_HOSTS)

    def _allow_of(self, cluster: str) -> Collection[str] | None:
        """Return, in profile Strict, what the settings allow a virtual cluster."""
        if self._common.config.tenancy == SHARED:
            return None
        vc = self._common.virtual_clusters.get(cluster)
        return vc.allow if vc is not None else ()

    def host_reset(self) -> None:
        """Forget what was written to the host; none of it may be there."""
        self.host_objects.forget_all()
        self.namespace_writer.forget_all()

    def _follow(self) -> None:
        common, signals = self._common, self._common.signals
        changes = work_watches.DependencyChanges(common.virtual_clusters, signals.dependencies.emit)
        for changed in (
            self.registered.became,
            common.scopes.ended,
            common.judgements.changed,
            common.stores.membership.changed,
            signals.window,
        ):
            changed.subscribe(changes.cluster)
        common.stores.namespaces.add_handler(changes.namespace)
        signals.node_group.subscribe(changes.node_group)
        signals.served.subscribe(changes.served)
        signals.own_object.subscribe(changes.own_object)
        signals.dependencies.subscribe(common.held_changes.dependencies_changed)
        signals.work.subscribe(self.finalizer.work_changed)
        signals.work.subscribe(common.held_changes.work_changed)
        signals.host_object.subscribe(self._host_object_changed)
        common.stores.namespaces.add_handler(self._reflect)

    def _host_object_changed(self, old: Object | None, new: Object | None) -> None:
        self._reflect(old, new)
        old, new = (self._at_home(each, cluster_of) for each in (old, new))
        self._common.signals.own_object.emit(old, new)

    def _reflect(self, old: Object | None, new: Object | None) -> None:
        """Have the listed Work of a host object that changed synced: to reflect and repair it."""
        if self.reflects:
            old, new = (self._at_home(each, _cluster_of_work) for each in (old, new))
            for key in works_of_change(old, new):
                if self.watches.works.get(*key) or self.finalizer.taken(key):
                    self._common.held_changes.changed(key, new, old)

    def _at_home(self, obj: Object | None, named: Callable[[Object], str]) -> Object | None:
        """Return an object that is where the virtual cluster that it names may have it."""
        claims = self._common.stores.claims
        return obj if obj is not None and claims.may_speak_for(obj, named(obj)) else None

    def runs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what reads and notifies: name -> coroutine; none of it writes but events."""
        return {
            "informers": self.informers.run,
            "informers of node groups": self.group_informers.run,
            "work watches": self.watches.run,
            "served kinds": self.served_kinds.run,
            "informers of shared objects": self.shared_informers.run,
            "events": self.recorder.run,
            "interpreter rules": self.rules.run,
        }


def _cluster_of_work(obj: Object) -> str:
    owner = owning_work(obj)
    return owner[0] if owner is not None else ""
