"""The metrics of one agent: families, sources for gauges, instruments."""

import asyncio
import collections
import itertools
import logging
import platform
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Literal, NamedTuple

import msgspec
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

from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.controller import ControllerInstrument
from karmada_vc_agent.kube.flows import LogOnce
from karmada_vc_agent.kube.transport import ClientInstrument
from karmada_vc_agent.model import user_text

CLUSTER = "member_cluster"
OF_CORE = "telemetry/families.yaml"
_PACKAGE = Path(__file__).parents[1]


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """help: also of docs/metrics.md. sampled: a counter that is computed at each scrape."""

    type: Literal["gauge", "counter", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    sampled: bool = False


def declared_families(path: str) -> Mapping[str, Mapping[str, Family]]:
    """Return what a file of the package declares: what they are of -> name -> family."""
    content = user_text.load_yaml((_PACKAGE / path).read_bytes())
    return msgspec.convert(content, dict[str, dict[str, Family]])


_log = logging.getLogger(__name__)

INTERPRETER_POOL = "luavm"
NAMED = 20
RESOURCES = 300
"""Limit of resources in labels: tenants create kinds, and a series is never removed."""
OTHER = "other"


class Sample(NamedTuple):
    """A sample from a source: a sampled family, its label values in order, and the value."""

    family: str
    labels: tuple[str, ...]
    value: float


Source = Callable[[], Iterable[Sample]]


class _Readings(Collector):
    def __init__(self, sources: list[Source], sampled: Mapping[str, Family]) -> None:
        self._sources = sources
        self._sampled = sampled
        self._once = LogOnce(_log)

    def collect(self) -> Iterator[Metric]:
        families = {
            name: (CounterMetricFamily if each.sampled else GaugeMetricFamily)(
                name, each.help, labels=each.labels
            )
            for name, each in self._sampled.items()
        }
        for source in self._sources:
            try:
                samples = list(source())
            except Exception as error:  # noqa: BLE001 - a failing source must not affect the others
                name = getattr(source, "__qualname__", repr(source))
                self._once.bug("Failed to collect metrics", error, about=name, source=name)
                continue
            for name, labels, value in samples:
                families[name].add_metric(labels, value)
        yield from families.values()


class Metrics:
    """All families, in a separate registry. more: files with those of features.

    Counters and histograms are updated where things happen, with label values bound once. Gauges
    are computed at each scrape by sources, so the series of a virtual cluster end with it.
    """

    def __init__(self, more: Iterable[str] = ()) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # not annotated
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        PlatformCollector(registry=registry)
        self._sources: list[Source] = []
        self._text: Future[bytes] | None = None
        self.sampled: dict[str, Family] = {}
        self.counters: dict[str, Counter] = {}
        self.timers: dict[str, Histogram] = {}
        for path in filter(None, (OF_CORE, *more)):
            for families in declared_families(path).values():
                for name, each in families.items():
                    self._add(name, each)
        registry.register(_Readings(self._sources, self.sampled))
        self._unreadable: dict[tuple[str, str], tuple[str, Mapping[str, str]]] = {}
        self._resources: set[str] = set()
        self.add_source(self._count_unreadable)
        self._synced = {
            result: self.timers["work_sync_workload_duration_seconds"].labels(result)
            for result in ("success", "error")
        }

    def _add(self, name: str, each: Family) -> None:
        if each.type == "gauge" or each.sampled:
            self.sampled[name] = each
        elif each.type == "counter":
            self.counters[name] = Counter(name, each.help, each.labels, registry=self.registry)
        else:
            self.timers[name] = Histogram(
                name, each.help, each.labels, buckets=each.buckets, registry=self.registry
            )

    async def text(self) -> bytes:
        """Return all samples, written in one thread at a time: those of many take a second."""
        if self._text is None or self._text.done():
            read = SimpleNamespace(collect=partial(iter, list(self.registry.collect())))
            self._text = flows.in_daemon_thread(partial(generate_latest, read), "metrics")
        return await asyncio.wrap_future(self._text)

    def add_source(self, source: Source) -> None:
        self._sources.append(source)

    def part_restarted(self, part: str) -> None:
        self.counters["part_restarts_total"].labels(part).inc()

    def resource_label(self, path: str) -> str:
        """Return the resource of a path as a label: OTHER after RESOURCES different ones."""
        resource = path.rpartition("/")[2]
        if len(self._resources) < RESOURCES:
            self._resources.add(resource)
        return resource if resource in self._resources else OTHER

    def note_unreadable(
        self, server: str, resource: str, source: str, reasons: Mapping[str, str]
    ) -> None:
        """Record the objects that a reflector cannot read now; source: the reflector."""
        self._unreadable.pop((server, source), None)
        if reasons:
            self._unreadable[server, source] = (resource, reasons)

    def unreadable(self) -> list[str]:
        """Return a line for each unreadable object: where and why; NAMED at most."""
        lines = [
            f"{resource} {name} of the {server} ({reason})"
            for (server, _), (resource, reasons) in self._unreadable.items()
            for name, reason in itertools.islice(reasons.items(), NAMED)
        ]
        left = sum(len(reasons) for _, reasons in self._unreadable.values()) - len(lines[:NAMED])
        return [*lines[:NAMED], *([f"and {left} more"] if left else [])]

    def _count_unreadable(self) -> Iterator[Sample]:
        counts: collections.Counter[tuple[str, str]] = collections.Counter()
        for (server, _), (resource, reasons) in self._unreadable.items():
            counts[server, resource] += len(reasons)
        for labels, count in sorted(counts.items()):
            yield Sample("unreadable_objects", labels, count)

    def work_synced(self, result: str, took_s: float) -> None:
        """Count one synced Work; result: success or error."""
        self._synced[result].observe(took_s)

    def count_interpreter(self, operation: str, place: str) -> None:
        """Count a process of a script; operation: get or put, place: pool, new or destroyed."""
        self.counters[f"pool_{operation}_operation_total"].labels(INTERPRETER_POOL, place).inc()

    def status_synced(self, cluster: str, took_s: float) -> None:
        self.timers["cluster_sync_status_duration_seconds"].labels(cluster).observe(took_s)

    def forget(self, cluster: str) -> None:
        self.timers["cluster_sync_status_duration_seconds"].remove_by_labels({CLUSTER: cluster})


RECONCILE_RESULTS = ("success", "requeue_after", "error", "panic")


def controller_meter(metrics: Metrics, controller: str) -> ControllerInstrument:
    """Return what counts the reconciles of one controller, and the keys of its queue."""
    counters, timers, both = metrics.counters, metrics.timers, (controller, controller)
    results = {
        result: counters["controller_runtime_reconcile_total"].labels(
            controller, "error" if result == "panic" else result
        )
        for result in RECONCILE_RESULTS
    }
    errors = counters["controller_runtime_reconcile_errors_total"].labels(controller)
    panics = counters["controller_runtime_reconcile_panics_total"].labels(controller)
    failures = {"error": (errors,), "panic": (errors, panics)}
    times = timers["controller_runtime_reconcile_time_seconds"].labels(controller)

    def ended(result: str, took_s: float) -> None:
        results[result].inc()
        times.observe(took_s)
        for counter in failures.get(result, ()):
            counter.inc()

    return ControllerInstrument(
        counters["workqueue_adds_total"].labels(*both).inc,
        counters["workqueue_retries_total"].labels(*both).inc,
        timers["workqueue_queue_duration_seconds"].labels(*both).observe,
        timers["workqueue_work_duration_seconds"].labels(*both).observe,
        ended,
    )


class ClientMeter(ClientInstrument):
    """Counts requests. server: hub or host. host: its address, the label that client-go uses."""

    def __init__(self, metrics: Metrics, server: str, host: str) -> None:
        self._metrics = metrics
        self._counters = metrics.counters
        self._server = server
        self._host = host

    def answered(self, method: str, code: str, took_s: float) -> None:
        self._counters["rest_client_requests_total"].labels(code, method, self._host).inc()
        times = self._metrics.timers["rest_client_request_duration_seconds"]
        times.labels(method, self._host).observe(took_s)

    def failed(self, path: str, part: str) -> None:
        self._counters["object_faults_total"].labels(*self._resource(path), part).inc()

    def unreadable(self, source: str, path: str, reasons: Mapping[str, str]) -> None:
        self._metrics.note_unreadable(*self._resource(path), source, reasons)

    def listed(self, path: str) -> None:
        self._counters["watch_lists_total"].labels(*self._resource(path)).inc()

    def watched(self, path: str) -> None:
        self._counters["watch_starts_total"].labels(*self._resource(path)).inc()

    def _resource(self, path: str) -> tuple[str, str]:
        return self._server, self._metrics.resource_label(path)


def build_info() -> Iterator[Sample]:
    of = (metadata.version("karmada-vc-agent"), platform.python_version(), sysconfig.get_platform())
    yield Sample("karmada_vc_agent_build_info", of, 1)
