"""Metrics: what is told arrives, ends with its virtual cluster, and stands in the docs."""

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from prometheus_client import generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.telemetry.metrics import (
    OF_CORE,
    RESOURCES,
    ClientMeter,
    Metrics,
    Sample,
    controller_meter,
    declared_families,
)

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"
ROW = re.compile(r"\| `(\w+)` \| (\w+) \|([^|]*)\|")
Families = dict[str, tuple[str, tuple[str, ...]]]


def documented() -> Families:
    """Return name -> type and labels, of the table."""
    rows = ROW.finditer(DOCUMENT.read_text())
    return {
        name: (kind, tuple(re.findall(r"`(\w+)`", cells)))
        for name, kind, cells in (row.groups() for row in rows)
    }


def of_agent() -> Metrics:
    return Metrics(each.metrics for each in FEATURES)


def registered(metrics: Metrics) -> Families:
    """Return name -> type and labels, of every family that the registry can show."""
    found: Families = {}
    for collector in metrics.registry._collector_to_names:
        if isinstance(collector, MetricWrapperBase):
            suffix = "_total" if collector._type == "counter" else ""
            kind = str(collector._type)
            found[collector._name + suffix] = (kind, tuple(collector._labelnames))
            continue
        for family in collector.collect():
            kind = "counter" if family.type == "counter" else family.type
            name = f"{family.name}_total" if kind == "counter" else family.name
            labels = (
                metrics.sampled[name].labels
                if name in metrics.sampled
                else tuple(family.samples[0].labels)
            )
            found[name] = (kind, labels)
    return found


class Noted(float):
    """The number 7, which notes the threads that write it; gate: to wait for before."""

    def __new__(cls, threads: list[int], gate: threading.Event | None = None) -> Self:
        made = super().__new__(cls, 7.0)
        vars(made).update(threads=threads, gate=gate)
        return made

    def __float__(self) -> float:
        vars(self)["threads"].append(threading.get_ident())
        if (gate := vars(self)["gate"]) is not None:
            assert gate.wait(10.0)
        return 7.0


def value(metrics: Metrics, name: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_the_table_of_the_docs_is_what_the_registry_shows() -> None:
    assert documented() == registered(of_agent())


def test_names_are_those_of_the_table_when_they_are_read_too() -> None:
    metrics = of_agent()
    text = generate_latest(metrics.registry).decode()
    families = {family.name for family in text_string_to_metric_families(text)}
    without_total = {name.removesuffix("_total") for name in documented()}
    assert families == without_total


def test_two_agents_in_one_process_do_not_share_numbers() -> None:
    first, second = Metrics(), Metrics()
    first.work_synced("success", 0.1)
    name = "work_sync_workload_duration_seconds_count"
    assert value(first, name, result="success") == 1
    assert value(second, name, result="success") == 0


def test_source_that_fails_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> Iterator[Sample]:
        yield Sample("virtual_cluster_nodes", ("a",), 1)
        raise KeyError("a bug")

    metrics = Metrics()
    metrics.add_source(fails)
    metrics.add_source(lambda: [Sample("api_server_reachable", ("hub",), 1)])
    generate_latest(metrics.registry)
    assert b'api_server_reachable{server="hub"} 1.0' in generate_latest(metrics.registry)
    assert [record.message for record in caplog.records] == ["Failed to collect metrics"]


def test_what_cannot_be_read_is_counted_until_it_can() -> None:
    metrics = Metrics()
    meter = ClientMeter(metrics, "hub", "hub:443")
    meter.unreadable("/works?", "/apis/work.karmada.io/v1alpha1/works", {"a/b": "odd", "c": "odd"})
    meter.failed("/apis/work.karmada.io/v1alpha1/works", "index")
    metrics.part_restarted("reflector")
    labels = {"server": "hub", "resource": "works"}
    assert value(metrics, "unreadable_objects", **labels) == 2
    assert value(metrics, "object_faults_total", part="index", **labels) == 1
    assert value(metrics, "part_restarts_total", part="reflector") == 1
    assert metrics.unreadable() == ["works a/b of the hub (odd)", "works c of the hub (odd)"]
    meter.unreadable("/pods?", "/api/v1/pods", {f"a/{n}": "odd" for n in range(30)})
    assert len(metrics.unreadable()) == 21
    assert metrics.unreadable()[-1] == "and 12 more"
    meter.unreadable("/pods?", "/api/v1/pods", {})
    meter.unreadable("/works?", "/apis/work.karmada.io/v1alpha1/works", {})
    assert value(metrics, "unreadable_objects", **labels) is None
    assert metrics.unreadable() == []


def test_kinds_that_tenants_bring_make_no_series_without_end() -> None:
    metrics = Metrics()
    meter = ClientMeter(metrics, "host", "host:443")
    for n in range(5000):
        meter.listed(f"/apis/example.com/v1/kind{n}")
        meter.watched(f"/apis/example.com/v1/kind{n}")
        meter.failed(f"/apis/example.com/v1/kind{n}", "index")
    labels = {"server": "host", "resource": "other"}
    assert value(metrics, "watch_lists_total", **labels) == 5000 - RESOURCES
    for family in (b"watch_lists_total{", b"watch_starts_total{", b"object_faults_total{"):
        assert generate_latest(metrics.registry).count(family) == RESOURCES + 1


def test_processes_of_scripts_are_counted_by_the_names_of_karmada() -> None:
    metrics = Metrics()
    metrics.count_interpreter("get", "new")
    metrics.count_interpreter("put", "destroyed")
    taken = {"name": "luavm", "from": "new"}
    assert value(metrics, "pool_get_operation_total", **taken) == 1
    given_back = {"name": "luavm", "to": "destroyed"}
    assert value(metrics, "pool_put_operation_total", **given_back) == 1


def test_sources_are_read_each_time() -> None:
    metrics = Metrics()
    told = [Sample("virtual_cluster_nodes", ("a",), 3)]
    metrics.add_source(lambda: told)
    assert value(metrics, "virtual_cluster_nodes", member_cluster="a") == 3
    told.clear()
    assert value(metrics, "virtual_cluster_nodes", member_cluster="a") is None


def test_several_sources_fill_one_family() -> None:
    metrics = Metrics()
    for server in ("hub", "host"):
        told = [Sample("api_server_reachable", (server,), 1)]
        metrics.add_source(told.copy)
    for server in ("hub", "host"):
        assert value(metrics, "api_server_reachable", server=server) == 1


async def test_the_loop_goes_on_while_a_scrape_is_written() -> None:
    metrics = Metrics()
    loop_thread, threads = threading.get_ident(), list[int]()

    def read() -> Iterator[Sample]:
        assert threading.get_ident() == loop_thread, "sources read what the loop changes"
        yield Sample("virtual_cluster_nodes", ("a",), Noted(threads))

    metrics.add_source(read)
    text = await metrics.text()
    assert b'virtual_cluster_nodes{member_cluster="a"} 7.0' in text
    assert threads
    assert loop_thread not in threads


async def test_scrapes_at_once_are_written_once() -> None:
    metrics, threads, gate = Metrics(), list[int](), threading.Event()
    metrics.add_source(lambda: [Sample("virtual_cluster_nodes", ("a",), Noted(threads, gate))])
    scrapes = [asyncio.create_task(metrics.text()) for _ in range(5)]
    await asyncio.sleep(0)
    scrapes[0].cancel()
    gate.set()
    texts = await asyncio.gather(*scrapes[1:])
    assert len({*texts}) == 1
    assert len(threads) == 1
    await metrics.text()
    assert len(threads) == 2, "a later one is of then"


def test_no_two_families_have_one_name() -> None:
    paths = (OF_CORE, *filter(None, (each.metrics for each in FEATURES)))
    names = [name for path in paths for of in declared_families(path).values() for name in of]
    assert len({*names}) == len(names)


def test_forgotten_virtual_cluster_has_no_series() -> None:
    metrics = Metrics()
    metrics.status_synced("a", 0.02)
    metrics.status_synced("b", 0.02)
    metrics.forget("a")
    metrics.forget("never seen")
    name = "cluster_sync_status_duration_seconds_count"
    assert value(metrics, name, member_cluster="a") is None
    assert value(metrics, name, member_cluster="b") == 1


def test_histograms_have_karmadas_buckets() -> None:
    metrics = Metrics()
    metrics.status_synced("a", 0.0)
    text = generate_latest(metrics.registry).decode()

    def bounds(name: str, label: str) -> list[float]:
        found = re.findall(rf'{name}_bucket{{{label},?[^}}]*le="([^"]+)"', text)
        if not found:
            found = re.findall(rf'{name}_bucket{{le="([^"]+)",{label}}}', text)
        return [float(bound) for bound in found[:-1]]

    sync = bounds("cluster_sync_status_duration_seconds", 'member_cluster="a"')
    assert sync == [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
    workload = bounds("work_sync_workload_duration_seconds", 'result="success"')
    assert workload == pytest.approx([0.001 * 2**k for k in range(12)])


@pytest.mark.parametrize(
    ("result", "counted", "errors", "panics"),
    [
        ("success", "success", 0, 0),
        ("requeue_after", "requeue_after", 0, 0),
        ("error", "error", 1, 0),
        ("panic", "error", 1, 1),
    ],
)
def test_reconcile_is_counted_by_its_result(
    result: str, counted: str, errors: int, panics: int
) -> None:
    metrics = Metrics()
    controller_meter(metrics, "execution-controller").ended(result, 0.2)
    name = "controller_runtime_reconcile"
    labels = {"controller": "execution-controller"}
    assert value(metrics, f"{name}_total", **labels, result=counted) == 1
    assert value(metrics, f"{name}_errors_total", **labels) == errors
    assert value(metrics, f"{name}_panics_total", **labels) == panics
    assert value(metrics, f"{name}_time_seconds_count", **labels) == 1


def test_queue_is_counted_under_the_name_of_its_controller() -> None:
    metrics = Metrics()
    meter = controller_meter(metrics, "x-controller")
    meter.added()
    meter.retried()
    meter.taken(0.5)
    meter.done(2.0)
    labels = {"name": "x-controller", "controller": "x-controller"}
    assert value(metrics, "workqueue_adds_total", **labels) == 1
    assert value(metrics, "workqueue_retries_total", **labels) == 1
    assert value(metrics, "workqueue_queue_duration_seconds_sum", **labels) == 0.5
    assert value(metrics, "workqueue_work_duration_seconds_sum", **labels) == 2.0


def test_requests_and_watches_are_counted_by_server() -> None:
    metrics = Metrics()
    meter = ClientMeter(metrics, "hub", "hub.example:6443")
    meter.answered("GET", "200", 0.1)
    meter.answered("GET", "200", 0.1)
    meter.answered("PUT", "<error>", 30.0)
    meter.listed("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-a/works")
    meter.watched("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-b/works")
    host = {"host": "hub.example:6443"}
    assert value(metrics, "rest_client_requests_total", code="200", method="GET", **host) == 2
    assert value(metrics, "rest_client_requests_total", code="<error>", method="PUT", **host) == 1
    assert value(metrics, "rest_client_request_duration_seconds_sum", verb="PUT", **host) == 30.0
    works = {"server": "hub", "resource": "works"}
    assert value(metrics, "watch_lists_total", **works) == 1
    assert value(metrics, "watch_starts_total", **works) == 1
