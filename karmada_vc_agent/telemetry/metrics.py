"""The metrics of one agent, all families in one place; docs/metrics.md describes each.

Counters and histograms are moved where things happen, through instruments whose label values
are bound once. Gauges are read when somebody asks: sources tell what is so then, hence the
series of a virtual cluster end with it, and nothing is paid while nobody looks. Labels hold
virtual clusters, controllers, kinds and codes, never Works.

Names, labels and buckets of Karmada: contract 9.6. Those of controllers, queues and clients:
controller-runtime and client-go, as a real karmada-agent shows them.
"""

import collections
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_log = logging.getLogger(__name__)

CLUSTER = "member_cluster"
INTERPRETER_POOL = "luavm"
NAMED = 20
RESOURCES = 300
"""Resources told apart in labels: tenants bring kinds, and a series once made stays for good."""
OTHER = "other"
_QUEUE = ("name", "controller")
_SYNC_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_WORKLOAD_BUCKETS = tuple(0.001 * 2**k for k in range(12))
_QUEUE_BUCKETS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000)
_RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8),
    *(0.9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40),
    *(50, 60),
)
_REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)


class Sample(NamedTuple):
    """What a source tells: a family of ASKED, its label values in order, and the value."""

    family: str
    labels: tuple[str, ...]
    value: float


class Asked(NamedTuple):
    """A family whose values are read when somebody asks."""

    help: str
    labels: tuple[str, ...] = ()
    is_counter: bool = False


ASKED: dict[str, Asked] = {
    # Karmada's, from the status last computed (status/cluster_numbers.py)
    "cluster_ready_state": Asked("State of the cluster (1 if ready, 0 otherwise).", (CLUSTER,)),
    "cluster_node_number": Asked("Number of nodes in the cluster.", (CLUSTER,)),
    "cluster_ready_node_number": Asked("Number of ready nodes in the cluster.", (CLUSTER,)),
    "cluster_memory_allocatable_bytes": Asked("Allocatable memory, bytes.", (CLUSTER,)),
    "cluster_cpu_allocatable_number": Asked("Allocatable CPU, cores.", (CLUSTER,)),
    "cluster_pod_allocatable_number": Asked("Allocatable pods.", (CLUSTER,)),
    "cluster_memory_allocated_bytes": Asked("Allocated memory, bytes.", (CLUSTER,)),
    "cluster_cpu_allocated_number": Asked("Allocated CPU, cores.", (CLUSTER,)),
    "cluster_pod_allocated_number": Asked("Allocated pods.", (CLUSTER,)),
    # the frameworks'
    "controller_runtime_active_workers": Asked("Workers of a controller in use.", ("controller",)),
    "controller_runtime_max_concurrent_reconciles": Asked(
        "Workers of a controller.", ("controller",)
    ),
    "workqueue_depth": Asked("Keys that wait in a queue.", (*_QUEUE, "priority")),
    "workqueue_unfinished_work_seconds": Asked(
        "How long all keys under way have been worked on, together.", _QUEUE
    ),
    "workqueue_longest_running_processor_seconds": Asked(
        "How long the key under way longest has been worked on.", _QUEUE
    ),
    "leader_election_master_status": Asked(
        "Whether this process leads (1) or stands by (0); name is the Lease.", ("name",)
    ),
    # ours, for each virtual cluster
    "virtual_cluster_works": Asked("Works by state.", (CLUSTER, "state")),
    "virtual_cluster_refused_manifests": Asked(
        "Manifests that a rule refuses now, by its code.", (CLUSTER, "code")
    ),
    "virtual_cluster_nodes": Asked("Nodes that count for the virtual cluster.", (CLUSTER,)),
    "virtual_cluster_node_overlaps": Asked(
        "Nodes of it that another virtual cluster selects too.", (CLUSTER,)
    ),
    "virtual_cluster_escaped_pods": Asked(
        "Pods of it that run on nodes outside of it.", (CLUSTER,)
    ),
    "virtual_cluster_host_objects": Asked(
        "Host objects made for it, of the kinds that are watched.", (CLUSTER,)
    ),
    "virtual_cluster_queue_depth": Asked("Keys of it that wait.", (CLUSTER, "controller")),
    "virtual_cluster_queue_oldest_seconds": Asked(
        "How long the first key of it has been waiting.", (CLUSTER, "controller")
    ),
    "virtual_cluster_last_contact_timestamp_seconds": Asked(
        "When its Lease was last renewed (hub), and its host last seen healthy (host).",
        (CLUSTER, "server"),
    ),
    "virtual_cluster_reports_accepted": Asked(
        "Whether the hub accepted its Lease and status within the time of a Lease.", (CLUSTER,)
    ),
    "virtual_cluster_quota_stalled": Asked(
        "Whether the division of its quota stands still.", (CLUSTER,)
    ),
    "virtual_cluster_lease_ahead_seconds": Asked(
        "How far its Lease was ahead of this machine's clock when it was taken over.", (CLUSTER,)
    ),
    "orphaned_objects": Asked("Host objects of it whose Work is gone.", (CLUSTER,)),
    # ours, for the agent
    "api_server_reachable": Asked("Whether hub and host answer.", ("server",)),
    "api_server_went_back_total": Asked(
        "How often it went back in time, as by a restore from a backup.",
        ("server",),
        is_counter=True,
    ),
    "unreadable_objects": Asked(
        "Watched objects that cannot be read, or not whole.", ("server", "resource")
    ),
    "events_dropped_total": Asked("Events that were not written.", is_counter=True),
    "karmada_vc_agent_build_info": Asked("Always 1.", ("version", "python_version", "platform")),
}

Source = Callable[[], Iterable[Sample]]


class _Readings(Collector):
    """Asks the sources when it is asked."""

    def __init__(self, sources: list[Source]) -> None:
        self._sources = sources
        self._failed: set[str] = set()

    def _complain(self, source: Source) -> None:
        """Log a source that fails, once."""
        name = getattr(source, "__qualname__", repr(source))
        if name not in self._failed:
            self._failed.add(name)
            _log.exception("Failing to count", extra={"source": name})

    def describe(self) -> Iterable[Metric]:
        return list(_families().values())

    def collect(self) -> Iterator[Metric]:
        families = _families()
        for source in self._sources:
            try:
                told = list(source())
            except Exception:  # noqa: BLE001 - a source must not cost the others
                self._complain(source)
                continue
            for name, labels, value in told:
                families[name].add_metric(labels, value)
        yield from families.values()


def _families() -> dict[str, CounterMetricFamily | GaugeMetricFamily]:
    return {
        name: (CounterMetricFamily if asked.is_counter else GaugeMetricFamily)(
            name, asked.help, labels=asked.labels
        )
        for name, asked in ASKED.items()
    }


class Metrics:
    """All families, in a registry of their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # lacks its annotation
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        PlatformCollector(registry=registry)
        self._sources: list[Source] = []
        registry.register(_Readings(self._sources))
        self.cluster_sync = Histogram(
            "cluster_sync_status_duration_seconds",
            "Duration in seconds for syncing the status of the cluster once.",
            (CLUSTER,),
            buckets=_SYNC_BUCKETS,
            registry=registry,
        )
        self._workload_sync = Histogram(
            "work_sync_workload_duration_seconds",
            "Duration in seconds to sync the workload to a target cluster.",
            ("result",),
            buckets=_WORKLOAD_BUCKETS,
            registry=registry,
        )
        self._pool_get = _counter(
            registry, "pool_get_operation_total", "Interpreters taken.", "name", "from"
        )
        self._pool_put = _counter(
            registry, "pool_put_operation_total", "Interpreters given back.", "name", "to"
        )
        self.reconciles = _counter(
            registry,
            "controller_runtime_reconcile_total",
            "Reconciles by how they ended.",
            "controller",
            "result",
        )
        self.reconcile_errors = _counter(
            registry, "controller_runtime_reconcile_errors_total", "Failed ones.", "controller"
        )
        self.reconcile_panics = _counter(
            registry, "controller_runtime_reconcile_panics_total", "Bugs met.", "controller"
        )
        self.reconcile_time = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconcile took.",
            ("controller",),
            buckets=_RECONCILE_BUCKETS,
            registry=registry,
        )
        self.queue_adds = _counter(registry, "workqueue_adds_total", "Keys added.", *_QUEUE)
        self.queue_retries = _counter(
            registry, "workqueue_retries_total", "Keys that backed off.", *_QUEUE
        )
        self.queue_time = Histogram(
            "workqueue_queue_duration_seconds",
            "How long a key waited for a worker.",
            _QUEUE,
            buckets=_QUEUE_BUCKETS,
            registry=registry,
        )
        self.work_time = Histogram(
            "workqueue_work_duration_seconds",
            "How long a key was worked on.",
            _QUEUE,
            buckets=_QUEUE_BUCKETS,
            registry=registry,
        )
        self.requests = _counter(
            registry, "rest_client_requests_total", "HTTP requests.", "code", "method", "host"
        )
        self.request_time = Histogram(
            "rest_client_request_duration_seconds",
            "How long an answer took; of a watch, its beginning.",
            ("verb", "host"),
            buckets=_REQUEST_BUCKETS,
            registry=registry,
        )
        self.watch_lists = _counter(
            registry, "watch_lists_total", "Lists from the start.", "server", "resource"
        )
        self.watch_starts = _counter(
            registry, "watch_starts_total", "Watches opened.", "server", "resource"
        )
        self._faults = _counter(
            registry,
            "object_faults_total",
            "Faults of ours at one watched object.",
            "server",
            "resource",
            "part",
        )
        self._restarts = _counter(
            registry, "part_restarts_total", "Parts that failed and were started again.", "part"
        )
        self._unreadable: dict[tuple[str, str], tuple[str, Mapping[str, str]]] = {}
        self._resources: set[str] = set()
        self.add_source(self._count_unreadable)
        self._synced = {
            result: self._workload_sync.labels(result) for result in ("success", "error")
        }

    def text(self) -> bytes:
        """Return everything in the text format of Prometheus."""
        return generate_latest(self.registry)

    def add_source(self, source: Source) -> None:
        """Ask `source` too whenever somebody looks."""
        self._sources.append(source)

    def part_restarted(self, part: str) -> None:
        """Count a part that failed and is started again."""
        self._restarts.labels(part).inc()

    def resource_label(self, path: str) -> str:
        """Return the label of what lies at a path: its resource, OTHER after RESOURCES of them."""
        resource = path.rpartition("/")[2]
        if len(self._resources) < RESOURCES:
            self._resources.add(resource)
        return resource if resource in self._resources else OTHER

    def object_failed(self, server: str, resource: str, part: str) -> None:
        """Count a fault of ours at one object; part: watch, index, handler."""
        self._faults.labels(server, resource, part).inc()

    def note_unreadable(
        self, server: str, source: str, resource: str, found: Mapping[str, str]
    ) -> None:
        """Note which objects of one reflector cannot be read now; source: which reflector."""
        self._unreadable.pop((server, source), None)
        if found:
            self._unreadable[server, source] = (resource, found)

    def unreadable(self) -> list[str]:
        """Return a line for each object that cannot be read now, where and why; NAMED at most."""
        lines = [
            f"{resource} {name} of the {server} ({reason})"
            for (server, _), (resource, found) in self._unreadable.items()
            for name, reason in itertools.islice(found.items(), NAMED)
        ]
        left = sum(len(found) for _, found in self._unreadable.values()) - len(lines[:NAMED])
        return [*lines[:NAMED], *([f"and {left} more"] if left else [])]

    def _count_unreadable(self) -> Iterator[Sample]:
        counts: collections.Counter[tuple[str, str]] = collections.Counter()
        for (server, _), (resource, found) in self._unreadable.items():
            counts[server, resource] += len(found)
        for labels, count in sorted(counts.items()):
            yield Sample("unreadable_objects", labels, count)

    def work_synced(self, result: str, took_s: float) -> None:
        """Count one Work carried out; result: success or error."""
        self._synced[result].observe(took_s)

    def interpreter_taken(self, source: str) -> None:
        """Count one script about to run; source of its process: pool or new."""
        self._pool_get.labels(INTERPRETER_POOL, source).inc()

    def interpreter_given_back(self, target: str) -> None:
        """Count one script that ended; what became of its process: pool or destroyed."""
        self._pool_put.labels(INTERPRETER_POOL, target).inc()

    def status_synced(self, cluster: str, took_s: float) -> None:
        """Count one status computed and, where it differed, written."""
        self.cluster_sync.labels(cluster).observe(took_s)

    def forget(self, cluster: str) -> None:
        """Drop what was counted for a virtual cluster that is not served any more."""
        self.cluster_sync.remove_by_labels({CLUSTER: cluster})


def _counter(registry: CollectorRegistry, name: str, text: str, *labels: str) -> Counter:
    return Counter(name, text, labels, registry=registry)


class ControllerMeter:
    """A ControllerInstrument and the QueueInstrument of its queue (kube/instruments.py)."""

    RESULTS = ("success", "requeue_after", "error", "panic")

    def __init__(self, metrics: Metrics, controller: str) -> None:
        counted = {"panic": "error"}
        self._results = {
            result: metrics.reconciles.labels(controller, counted.get(result, result))
            for result in self.RESULTS
        }
        self._errors = metrics.reconcile_errors.labels(controller)
        self._panics = metrics.reconcile_panics.labels(controller)
        self._time = metrics.reconcile_time.labels(controller)
        self._adds = metrics.queue_adds.labels(controller, controller)
        self._retries = metrics.queue_retries.labels(controller, controller)
        self._queue_time = metrics.queue_time.labels(controller, controller)
        self._work_time = metrics.work_time.labels(controller, controller)

    def ended(self, result: str, took_s: float) -> None:
        """Count a reconcile."""
        self._results[result].inc()
        self._time.observe(took_s)
        if result in ("error", "panic"):
            self._errors.inc()
        if result == "panic":
            self._panics.inc()

    def added(self) -> None:
        """Count a key added."""
        self._adds.inc()

    def retried(self) -> None:
        """Count a key that backs off."""
        self._retries.inc()

    def taken(self, waited_s: float) -> None:
        """Note how long a key waited."""
        self._queue_time.observe(waited_s)

    def done(self, worked_s: float) -> None:
        """Note how long a key was worked on."""
        self._work_time.observe(worked_s)


class ClientMeter:
    """A ClientInstrument for one API server (kube/instruments.py).

    server: hub or host. host: its address, the label that client-go gives it.
    """

    def __init__(self, metrics: Metrics, server: str, host: str) -> None:
        self._metrics = metrics
        self._server = server
        self._host = host
        self._codes: dict[tuple[str, str], Counter] = {}
        self._times: dict[str, Histogram] = {}

    def answered(self, method: str, code: str, took_s: float) -> None:
        """Count a request by its answer."""
        counter = self._codes.get((method, code))
        if counter is None:
            counter = self._metrics.requests.labels(code, method, self._host)
            self._codes[method, code] = counter
        counter.inc()
        times = self._times.get(method)
        if times is None:
            times = self._times[method] = self._metrics.request_time.labels(method, self._host)
        times.observe(took_s)

    def failed(self, path: str, part: str) -> None:
        """Count a fault of ours at one object."""
        self._metrics.object_failed(self._server, self._metrics.resource_label(path), part)

    def unreadable(self, source: str, path: str, found: Mapping[str, str]) -> None:
        """Note which objects of one reflector cannot be read now."""
        self._metrics.note_unreadable(
            self._server, source, self._metrics.resource_label(path), found
        )

    def listed(self, path: str) -> None:
        """Count a list that begins."""
        self._metrics.watch_lists.labels(self._server, self._metrics.resource_label(path)).inc()

    def watched(self, path: str) -> None:
        """Count a watch that is opened."""
        self._metrics.watch_starts.labels(self._server, self._metrics.resource_label(path)).inc()
