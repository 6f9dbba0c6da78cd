"""What carries Works from the hub to the host and their status back."""

from collections.abc import Awaitable, Callable

from karmada_vc_agent.kube.rate_limit import TokenBucket
from karmada_vc_agent.kube.work_queue import WorkQueue
from karmada_vc_agent.model.domain import CLUSTER_LABEL
from karmada_vc_agent.model.objects import Object, labels_of
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.interpreting import Interpreting
from karmada_vc_agent.runner.queues import first
from karmada_vc_agent.runner.work_readers import WorkReaders
from karmada_vc_agent.runner.work_writers import WorkWriters
from karmada_vc_agent.work.affected_works import AffectedWorks
from karmada_vc_agent.work.dependency_changes import DependencyChanges
from karmada_vc_agent.work.reflection import owning_work
from karmada_vc_agent.work.registered_clusters import RegisteredClusters
from karmada_vc_agent.work.work_memory import WorkMemory
from karmada_vc_agent.work.work_reports import WorkReports
from karmada_vc_agent.work.works import WorkKey

BUSY_WORKS = 16
"""Works that only a worker is missing for; events are held back while there are more."""


class WorkParts:
    """The path of a Work: readers, interpreter, writers, and who is told of what.

    queue: the Works that wait to be synced; events are held back while it is long. status_queue:
    those whose status waits to be written, by reports. Below them is what controllers use of the
    readers and writers.
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
        self.status_queue: WorkQueue[WorkKey] = common.queues.by_cluster(
            first, config.concurrent_work_syncs
        )
        self.memory = WorkMemory(common.scopes)
        self._readers = readers = WorkReaders(common)
        self.interpreting = Interpreting(common)
        self._writers = writers = WorkWriters(
            common, readers, self.interpreting.interpreter, lambda: self.queue.due() > BUSY_WORKS
        )
        self.reports = WorkReports(
            self.status_queue.add, common.clock.now, common.scopes, common.stores.kept.take_status
        )
        self.bounds, self.watches, self.scope = readers.bounds, readers.watches, readers.scope
        self.informers, self.group_informers = readers.informers, readers.group_informers
        self.contexts, self.store_of = readers.contexts, readers.store_of
        self.recorder, self.events = writers.recorder, writers.events
        self.manifests, self.finalizer = writers.manifests, writers.finalizer
        self.large_slots = writers.large_slots
        self.hub_works, self.work_status = writers.hub_works, writers.work_status
        self.shared_objects, self.shared_names = writers.shared_objects, writers.shared_names
        self.shared_informers, self.host_objects = writers.shared_informers, writers.host_objects
        self.namespace_writer = writers.namespace_writer
        self.on_cluster = writers.on_cluster
        self.kept, self.owned = writers.kept, writers.owned
        self.host_went_back = writers.host_went_back
        self.registered = RegisteredClusters(
            common.virtual_clusters,
            common.stores.clusters,
            common.stores.membership,
            readers.watches,
            common.scopes,
        )
        self.affected = AffectedWorks(
            common.virtual_clusters,
            readers.watches.works,
            common.stores.clusters,
            writers.manifests.depending_on_claims,
        )
        self._follow()

    def _follow(self) -> None:
        """Connect what is told with who makes something of it; the controllers come later."""
        common, signals = self._common, self._common.signals
        changes = DependencyChanges(common.virtual_clusters, signals.dependencies.emit)
        for changed in (
            *(self.registered.became, common.scopes.ended, common.judgements.changed),
            *(common.stores.membership.changed, signals.window),
        ):
            changed.subscribe(changes.cluster)
        common.stores.namespaces.add_handler(changes.namespace)
        signals.node_group.subscribe(changes.node_group)
        signals.served.subscribe(changes.served)
        signals.own_object.subscribe(changes.own_object)
        signals.work.subscribe(self.finalizer.work_changed)
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

    def runs(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return what reads and tells: name -> coroutine; nothing of it writes but events."""
        return {**self._readers.runs(), **self._writers.runs(), **self.interpreting.runs()}


def _labelled_cluster(obj: Object) -> str:
    return labels_of(obj).get(CLUSTER_LABEL, "")


def _cluster_of_work(obj: Object) -> str:
    owner = owning_work(obj)
    return owner[0] if owner else ""
