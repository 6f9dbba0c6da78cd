"""The state of each virtual cluster, counted at each scrape.

Only for virtual clusters whose Cluster is on the hub and ours; the series of others end.
"""

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from operator import itemgetter
from typing import Any

from karmada_vc_agent.cluster.lease import MissingRights
from karmada_vc_agent.cluster.rules.cluster_objects import cluster_numbers
from karmada_vc_agent.cluster.virtual_clusters import CLUSTER_INDEX
from karmada_vc_agent.kube.controller import Controller
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import LOOP_BOUND
from karmada_vc_agent.model.vocabulary import execution_namespace
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


class MetricsCollector:
    """A source of metrics; also stores last contacts and computed statuses.

    controllers: all that run.
    """

    def __init__(
        self,
        common: Common,
        works: WorkParts,
        orphaned: OrphanedObjects,
        missing_rights: MissingRights,
        controllers: Iterable[Controller[Any]],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._common = common
        self._works = works
        self._orphaned = orphaned
        self._missing_rights = missing_rights
        self._controllers = controllers
        self._wall_clock = wall_clock
        scopes = common.scopes
        self._contacts: dict[tuple[str, str], float] = scopes.keep_by(itemgetter(0))
        self._numbers: dict[str, dict[str, float]] = scopes.keep()
        self._leases_ahead: dict[str, float] = scopes.keep()
        self._endpoints: dict[str, bool] = scopes.keep()

    def contact(self, name: str, server: str) -> None:
        """Record that hub or host answered for a virtual cluster just now."""
        self._contacts[name, server] = self._wall_clock()

    def synced(self, name: str, took_s: float, status: Object, http_status: int | None) -> None:
        """Count a sync of a status, as a StatusInstrument (cluster/status.py)."""
        self._common.metrics.status_synced(name, took_s)
        self._numbers[name] = cluster_numbers(status)
        if http_status == 200:
            self.contact(name, HOST)

    def endpoint_probed(self, name: str, answered: bool) -> None:  # noqa: FBT001 - a handler
        """Record whether the endpoint of a virtual cluster answered."""
        self._endpoints[name] = answered

    def lease_ahead(self, name: str, seconds: float) -> None:
        """Record by how much the Lease of a virtual cluster was ahead of our clock."""
        self._leases_ahead[name] = seconds

    def samples(self) -> Iterator[Sample]:
        """Return all current samples."""
        common, works = self._common, self._works
        clusters, orphans = common.stores.clusters, self._orphaned.counts()
        missing = self._missing_rights.by_cluster()
        served = [name for name in common.virtual_clusters if clusters.ours(name) is not None]
        for name in served:
            yield from self._of_cluster(name)
            if name in orphans:
                yield Sample("orphaned_objects", (name,), orphans[name])
            yield Sample("virtual_cluster_missing_rights", (name,), len(missing.get(name, ())))
        yield from _by_code("virtual_cluster_refused_manifests", works.memory.refusals(), served)
        over = [(name, LOOP_BOUND) for name in served if common.loop_time.is_over(name)]
        bounds = (*works.bounds.met(), *common.stores.kept.met(), *over)
        yield from _by_code("virtual_cluster_bounds_met", bounds, served)
        for controller in self._controllers:
            yield from _of_queue(controller, served)
        for source, count in sorted(
            Counter(source for source, _ in common.origins.refused).items()
        ):
            yield Sample("found_not_served", (source,), count)
        yield Sample("events_dropped_total", (), works.recorder.dropped)

    def _of_cluster(self, name: str) -> Iterator[Sample]:
        for family, number in self._numbers.get(name, {}).items():
            yield Sample(family, (name,), number)
        states = Counter(self._work_states(name))
        for state in WORK_STATES:
            yield Sample("virtual_cluster_works", (name, state), states[state])
        loop_s = self._common.loop_time.used.get(name, 0.0)
        yield Sample("virtual_cluster_loop_seconds_total", (name,), loop_s)
        stores = self._common.stores
        yield Sample("virtual_cluster_nodes", (name,), len(stores.membership.nodes_of(name)))
        overlaps = len(stores.membership.overlaps(name))
        yield Sample("virtual_cluster_node_overlaps", (name,), overlaps)
        on_host = (stores.namespaces, *self._works.informers.stores().values())
        objects = sum(len(store.by_index(CLUSTER_INDEX, name)) for store in on_host)
        yield Sample("virtual_cluster_host_objects", (name,), objects)
        is_accepted = self._common.contact.is_accepted(name)
        yield Sample("virtual_cluster_reports_accepted", (name,), is_accepted)
        for server in (HUB, HOST):
            at = self._contacts.get((name, server))
            if at is not None:
                yield Sample("virtual_cluster_last_contact_timestamp_seconds", (name, server), at)
        if name in self._leases_ahead:
            yield Sample("virtual_cluster_lease_ahead_seconds", (name,), self._leases_ahead[name])
        if name in self._endpoints:
            yield Sample("virtual_cluster_endpoint_up", (name,), self._endpoints[name])

    def _work_states(self, name: str) -> Iterator[str]:
        namespace = execution_namespace(name)
        for work in self._works.watches.works.store(name) or ():
            if work["metadata"].get("namespace") == namespace:
                yield work_state(work)


def _of_queue(controller: Controller[Any], served: Iterable[str]) -> Iterator[Sample]:
    label = controller_label(controller)
    queue = controller.queue
    working = queue.working_s()
    yield Sample("controller_runtime_active_workers", (label,), len(working))
    yield Sample("controller_runtime_max_concurrent_reconciles", (label,), controller.spec.workers)
    yield Sample("workqueue_depth", (label, label, "0"), len(queue))
    yield Sample("workqueue_unfinished_work_seconds", (label, label), sum(working))
    longest = max(working, default=0.0)
    yield Sample("workqueue_longest_running_processor_seconds", (label, label), longest)
    waiting = queue.waiting()
    if not controller.spec.by_cluster:
        return
    for name in served:
        depth, oldest_s = waiting.get(name, (0, 0.0))
        yield Sample("virtual_cluster_queue_depth", (name, label), depth)
        yield Sample("virtual_cluster_queue_oldest_seconds", (name, label), oldest_s)


def _by_code(
    family: str, met: Iterable[tuple[str, str]], served: Container[str]
) -> Iterator[Sample]:
    """Yield how often each code is met by each virtual cluster that is served."""
    for (name, code), count in sorted(Counter(met).items()):
        if name in served:
            yield Sample(family, (name, code), count)
