"""The state of each virtual cluster, counted at each scrape.

Only for virtual clusters whose Cluster is on the hub and ours; the series of others end.
"""

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from karmada_vc_agent.cluster.lease import MissingRights
from karmada_vc_agent.cluster.rules.cluster_objects import cluster_numbers
from karmada_vc_agent.cluster.virtual_clusters import CLUSTER_INDEX
from karmada_vc_agent.kube.controller import Controller
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import LOOP_BOUND
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.work_parts import WorkParts
from karmada_vc_agent.telemetry.metrics import Sample
from karmada_vc_agent.work.removal import OrphanedObjects
from karmada_vc_agent.work.works import applied_of, is_suspended, is_waiting

HUB, HOST = "hub", "host"
WORK_STATES = ("applied", "failed", "pending", "waiting", "suspended", "deleting")


def work_state(work: Object) -> str:
    """Return the state of a Work, one of WORK_STATES; later ones in that list win."""
    if work["metadata"].get("deletionTimestamp"):
        return "deleting"
    if is_suspended(work):
        return "suspended"
    if is_waiting(work):
        return "waiting"
    applied = applied_of(work.get("status"))
    if applied is None:
        return "pending"
    return "applied" if applied["status"] == "True" else "failed"


def controller_label(controller: Controller[Any]) -> str:
    """Return the label of a controller in metrics: Karmada's name if Karmada has it."""
    return f"{controller.name}-controller"


@dataclass(eq=False)
class MetricsCollector:
    """A source of metrics; also stores last contacts and computed statuses.

    leases_ahead: by how much each Lease was ahead of our clock. endpoints: whether each answered.
    """

    common: Common
    works: WorkParts
    orphaned: OrphanedObjects
    missing_rights: MissingRights
    controllers: Iterable[Controller[Any]]
    wall_clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        scopes = self.common.scopes
        self._contacts: dict[tuple[str, str], float] = scopes.keep_by(itemgetter(0))
        self._numbers: dict[str, dict[str, float]] = scopes.keep()
        self.leases_ahead: dict[str, float] = scopes.keep()
        self.endpoints: dict[str, bool] = scopes.keep()

    def contact(self, name: str, server: str) -> None:
        self._contacts[name, server] = self.wall_clock()

    def synced(self, name: str, took_s: float, status: Object, http_status: int | None) -> None:
        """Count a sync of a status, as a StatusInstrument (cluster/status.py)."""
        self.common.metrics.status_synced(name, took_s)
        self._numbers[name] = cluster_numbers(status)
        if http_status == 200:
            self.contact(name, HOST)

    def samples(self) -> Iterator[Sample]:
        common, works = self.common, self.works
        clusters, orphans = common.stores.clusters, self.orphaned.counts()
        missing = self.missing_rights.by_cluster()
        served = [name for name in common.virtual_clusters if clusters.ours(name) is not None]
        states = Counter((name, work_state(work)) for name, work in works.watches.works.all())
        for name in served:
            for state in WORK_STATES:
                yield Sample("virtual_cluster_works", (name, state), states[name, state])
            yield from self._of_cluster(name)
            if name in orphans:
                yield Sample("orphaned_objects", (name,), orphans[name])
            yield Sample("virtual_cluster_missing_rights", (name,), len(missing.get(name, ())))
        yield from _by_code("virtual_cluster_refused_manifests", works.memory.refusals(), served)
        over = [(name, LOOP_BOUND) for name in served if common.loop_time.is_over(name)]
        bounds = (*works.bounds.met(), *common.stores.kept.met(), *over)
        yield from _by_code("virtual_cluster_bounds_met", bounds, served)
        for controller in self.controllers:
            yield from _of_queue(controller, served)
        refused = Counter(source for source, _ in common.origins.refused)
        for source, count in sorted(refused.items()):
            yield Sample("found_not_served", (source,), count)
        yield Sample("events_dropped_total", (), works.recorder.dropped)

    def _of_cluster(self, name: str) -> Iterator[Sample]:
        stores = self.common.stores
        on_host = (stores.namespaces, *self.works.informers.stores().values())
        numbers: dict[str, float | None] = {
            **self._numbers.get(name, {}),
            "virtual_cluster_loop_seconds_total": self.common.loop_time.used.get(name, 0.0),
            "virtual_cluster_nodes": len(stores.membership.nodes_of(name)),
            "virtual_cluster_node_overlaps": len(stores.membership.overlaps(name)),
            "virtual_cluster_host_objects": sum(
                len(store.by_index(CLUSTER_INDEX, name)) for store in on_host
            ),
            "virtual_cluster_reports_accepted": self.common.contact.is_accepted(name),
            "virtual_cluster_lease_ahead_seconds": self.leases_ahead.get(name),
            "virtual_cluster_endpoint_up": self.endpoints.get(name),
        }
        for family, number in numbers.items():
            if number is not None:
                yield Sample(family, (name,), number)
        for server in (HUB, HOST):
            if (at := self._contacts.get((name, server))) is not None:
                yield Sample("virtual_cluster_last_contact_timestamp_seconds", (name, server), at)


def _of_queue(controller: Controller[Any], served: Iterable[str]) -> Iterator[Sample]:
    label, queue = controller_label(controller), controller.queue
    working, waiting = queue.working_s(), queue.waiting()
    yield Sample("controller_runtime_active_workers", (label,), len(working))
    yield Sample("controller_runtime_max_concurrent_reconciles", (label,), controller.spec.workers)
    yield Sample("workqueue_depth", (label, label, "0"), len(queue))
    yield Sample("workqueue_unfinished_work_seconds", (label, label), sum(working))
    longest = max(working, default=0.0)
    yield Sample("workqueue_longest_running_processor_seconds", (label, label), longest)
    for name in filter(waiting.__contains__, served if controller.spec.by_cluster else ()):
        depth, oldest_s = waiting[name]
        yield Sample("virtual_cluster_queue_depth", (name, label), depth)
        yield Sample("virtual_cluster_queue_oldest_seconds", (name, label), oldest_s)


def _by_code(
    family: str, met: Iterable[tuple[str, str]], served: Container[str]
) -> Iterator[Sample]:
    for (name, code), count in sorted(Counter(met).items()):
        if name in served:
            yield Sample(family, (name, code), count)
