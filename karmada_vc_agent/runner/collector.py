"""The state of each virtual cluster, counted at each scrape.

Only for virtual clusters whose Cluster is on the hub and ours; the series of others end.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from karmada_vc_agent.cluster.cluster_index import CLUSTER_INDEX
from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.cluster.membership import Membership
from karmada_vc_agent.cluster.rules.cluster_numbers import cluster_numbers
from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.kube.controller import Controller
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.karmada import execution_namespace
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.telemetry.metrics import Metrics, Sample
from karmada_vc_agent.work.rules.work_status import applied_of, is_waiting
from karmada_vc_agent.work.works import Works, is_suspended

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


@dataclass(frozen=True, slots=True)
class Sources:
    """What the collector reads.

    host_objects: stores with CLUSTER_INDEX.
    refused: (virtual cluster, code) of each refused manifest.
    is_accepted: whether the hub accepts Lease and status of a virtual cluster.
    orphans: virtual cluster -> its host objects without a Work, once they were counted.
    not_served: source -> how much of what it found is not served.
    missing_rights: virtual cluster -> the rights that are missing for it.
    bounds_met: (virtual cluster, bound) of each bound that one exceeds.
    """

    clusters: HubClusters
    works: Works
    membership: Membership
    host_objects: Callable[[], Iterable[Store[Object]]]
    refused: Callable[[], Iterable[tuple[str, str]]]
    controllers: Callable[[], Iterable[Controller[Any]]]
    events_dropped: Callable[[], int]
    is_accepted: Callable[[str], bool] = lambda _: True
    orphans: Callable[[], Mapping[str, int]] = dict
    not_served: Callable[[], Mapping[str, int]] = dict
    missing_rights: Callable[[], Mapping[str, Collection[str]]] = dict
    bounds_met: Callable[[], Iterable[tuple[str, str]]] = tuple


class MetricsCollector:
    """A source of metrics; also stores last contacts and computed statuses."""

    def __init__(
        self,
        names: Collection[str],
        scopes: Scopes,
        counted: Sources,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._names = names
        self._c = counted
        self._wall_clock = wall_clock
        self._contacts: dict[tuple[str, str], float] = scopes.keep_by(itemgetter(0))
        self._numbers: dict[str, dict[str, float]] = scopes.keep()
        self._leases_ahead: dict[str, float] = scopes.keep()
        self._endpoints: dict[str, bool] = scopes.keep()

    def contact(self, name: str, server: str) -> None:
        """Record that hub or host answered for a virtual cluster just now."""
        self._contacts[name, server] = self._wall_clock()

    def status_computed(self, name: str, status: Object) -> None:
        """Record the numbers of the status just computed."""
        self._numbers[name] = cluster_numbers(status)

    def endpoint_probed(self, name: str, answered: bool) -> None:  # noqa: FBT001 - a handler
        """Record whether the endpoint of a virtual cluster answered."""
        self._endpoints[name] = answered

    def lease_ahead(self, name: str, seconds: float) -> None:
        """Record by how much the Lease of a virtual cluster was ahead of our clock."""
        self._leases_ahead[name] = seconds

    def samples(self) -> Iterator[Sample]:
        """Return all current samples."""
        served = [name for name in self._names if self._c.clusters.ours(name) is not None]
        for name in served:
            yield from self._of_cluster(name)
        orphans = self._c.orphans()
        for name in served:
            if name in orphans:
                yield Sample("orphaned_objects", (name,), orphans[name])
        missing = self._c.missing_rights()
        for name in served:
            yield Sample("virtual_cluster_missing_rights", (name,), len(missing.get(name, ())))
        yield from _by_code("virtual_cluster_refused_manifests", self._c.refused(), served)
        yield from _by_code("virtual_cluster_bounds_met", self._c.bounds_met(), served)
        for controller in self._c.controllers():
            yield from _of_queue(controller, served)
        for source, count in sorted(self._c.not_served().items()):
            yield Sample("found_not_served", (source,), count)
        yield Sample("events_dropped_total", (), self._c.events_dropped())

    def _of_cluster(self, name: str) -> Iterator[Sample]:
        for family, number in self._numbers.get(name, {}).items():
            yield Sample(family, (name,), number)
        states = Counter(self._work_states(name))
        for state in WORK_STATES:
            yield Sample("virtual_cluster_works", (name, state), states[state])
        membership = self._c.membership
        yield Sample("virtual_cluster_nodes", (name,), len(membership.nodes_of(name)))
        overlaps = len(membership.overlaps(name))
        yield Sample("virtual_cluster_node_overlaps", (name,), overlaps)
        objects = sum(len(store.by_index(CLUSTER_INDEX, name)) for store in self._c.host_objects())
        yield Sample("virtual_cluster_host_objects", (name,), objects)
        is_accepted = self._c.is_accepted(name)
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
        for work in self._c.works.store(name) or ():
            if work["metadata"].get("namespace") == namespace:
                yield work_state(work)


class StatusMeter:
    """A StatusInstrument (cluster/status.py)."""

    def __init__(self, metrics: Metrics, collector: MetricsCollector) -> None:
        self._metrics = metrics
        self._collector = collector

    def synced(self, name: str, took_s: float, status: Object, http_status: int | None) -> None:
        """Count a sync; the numbers of the Cluster are taken from its status."""
        self._metrics.status_synced(name, took_s)
        self._collector.status_computed(name, status)
        if http_status == 200:
            self._collector.contact(name, HOST)


def _of_queue(controller: Controller[Any], served: Iterable[str]) -> Iterator[Sample]:
    label = controller_label(controller)
    queue = controller.queue
    working = queue.working_s()
    yield Sample("controller_runtime_active_workers", (label,), len(working))
    yield Sample("controller_runtime_max_concurrent_reconciles", (label,), controller.workers)
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
    family: str, found: Iterable[tuple[str, str]], served: Container[str]
) -> Iterator[Sample]:
    """Yield how often each code was found of each virtual cluster that is served."""
    for (name, code), count in sorted(Counter(found).items()):
        if name in served:
            yield Sample(family, (name, code), count)
