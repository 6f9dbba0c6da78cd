"""EventRecorder: what is written, counted, dropped."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from karmada_vc_agent.kube import events as module
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.events import (
    OF_NORMAL,
    PER_REASON,
    QUEUE_LENGTH,
    QUEUE_OF_ONE,
    WRITERS,
    EventRecorder,
    Series,
)
from karmada_vc_agent.model.objects import Object
from tests.fakes.api_server import FakeApiServer
from tests.fakes.virtual_time import Clock

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
EVENTS = "/api/v1/namespaces/edge/events"


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
def recorder(host: FakeApiServer, client: ApiClient, clock: Clock) -> EventRecorder:
    for name in ("edge", "default"):
        host.seed({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return EventRecorder(client, wall_clock=clock, monotonic=clock)


def thing(name: str = "web", namespace: str = "edge", uid: str = "u1") -> Object:
    metadata = {"name": name, "uid": uid} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}


@asynccontextmanager
async def running(recorder: EventRecorder) -> AsyncIterator[None]:
    task = asyncio.ensure_future(recorder.run())
    yield
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(100):
        if condition():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it did not come about")


async def test_event_says_who_what_and_when(host: FakeApiServer, recorder: EventRecorder) -> None:
    recorder.record("a-controller", thing(), "Warning", "SyncFailed", "it failed")
    await recorder.drain(5.0)
    (event,) = host.listed(EVENTS)
    assert event["metadata"]["name"].startswith("web.")
    assert event["involvedObject"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "namespace": "edge",
        "name": "web",
        "uid": "u1",
    }
    said = {key: event[key] for key in ("type", "reason", "message", "source", "count")}
    assert said == {
        "type": "Warning",
        "reason": "SyncFailed",
        "message": "it failed",
        "source": {"component": "a-controller"},
        "count": 1,
    }
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:00Z"


async def test_event_on_a_cluster_scoped_object_is_in_default(
    host: FakeApiServer, recorder: EventRecorder
) -> None:
    recorder.record("a", thing(namespace=""), "Normal", "Synced", "done")
    await recorder.drain(5.0)
    (event,) = host.listed("/api/v1/namespaces/default/events")
    assert "namespace" not in event["involvedObject"]


async def test_equal_events_are_counted_in_one(
    host: FakeApiServer, recorder: EventRecorder, clock: Clock
) -> None:
    for _ in range(3):
        recorder.record("a", thing(), "Normal", "Synced", "done")
        await recorder.drain(5.0)
        clock.advance(10.0)
    (event,) = host.listed(EVENTS)
    assert event["count"] == 3
    assert event["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert event["lastTimestamp"] == "2026-01-01T00:00:20Z"


async def test_events_that_differ_are_separate(
    host: FakeApiServer, recorder: EventRecorder
) -> None:
    for message in ("one", "two"):
        recorder.record("a", thing(), "Normal", "Synced", message)
    recorder.record("a", thing(uid="u2"), "Normal", "Synced", "one")
    await recorder.drain(5.0)
    assert len(host.listed(EVENTS)) == 3


async def test_counted_event_that_expired_is_written_again(
    host: FakeApiServer, recorder: EventRecorder
) -> None:
    recorder.record("a", thing(), "Normal", "Synced", "done")
    await recorder.drain(5.0)
    host.remove(f"{EVENTS}/{host.listed(EVENTS)[0]['metadata']['name']}")
    recorder.record("a", thing(), "Normal", "Synced", "done")
    await recorder.drain(5.0)
    (event,) = host.listed(EVENTS)
    assert event["count"] == 1


async def test_object_has_a_budget_that_fills_up_slowly(
    host: FakeApiServer, recorder: EventRecorder, clock: Clock
) -> None:
    for number in range(40):
        recorder.record("a", thing(), "Normal", "Synced", f"message {number}")
    await recorder.drain(5.0)
    assert len(host.listed(EVENTS)) == module.PER_OBJECT[0]
    assert recorder.dropped == 40 - module.PER_OBJECT[0]
    clock.advance(301.0)
    for _ in range(2):
        recorder.record("a", thing(), "Normal", "Synced", "later")
    await recorder.drain(5.0)
    assert [e["count"] for e in host.listed(EVENTS) if e["message"] == "later"] == [1]


async def test_budget_of_one_object_is_not_that_of_another(
    host: FakeApiServer, recorder: EventRecorder
) -> None:
    for number in range(40):
        recorder.record("a", thing(), "Normal", "Synced", f"message {number}")
    recorder.record("a", thing("other", uid="u2"), "Warning", "Failed", "heard")
    recorder.record("b", thing(), "Normal", "Synced", "heard")
    await recorder.drain(5.0)
    assert len([e for e in host.listed(EVENTS) if e["message"] == "heard"]) == 2


async def test_full_queue_drops_and_does_not_wait(recorder: EventRecorder) -> None:
    for number in range(module.QUEUE_LENGTH + 7):
        web = thing(f"web{number}", f"n{number % 2}", f"u{number}")
        recorder.record("a", web, "Normal", f"Synced{number}", "done")
    assert recorder.dropped == 7


async def test_long_message_is_cut(host: FakeApiServer, recorder: EventRecorder) -> None:
    recorder.record("a", thing(), "Normal", "Synced", "x" * 5000)
    await recorder.drain(5.0)
    assert len(host.listed(EVENTS)[0]["message"]) == 1024


async def test_long_name_gives_an_event_name_that_fits(
    host: FakeApiServer, recorder: EventRecorder
) -> None:
    recorder.record("a", thing("x" * 253), "Normal", "Synced", "done")
    await recorder.drain(5.0)
    assert len(host.listed(EVENTS)[0]["metadata"]["name"]) <= 253


async def test_event_that_the_server_refuses_is_dropped_and_the_next_is_written(
    host: FakeApiServer, recorder: EventRecorder
) -> None:
    host.fail(403, "Forbidden", method="POST")
    recorder.record("a", thing(), "Normal", "Synced", "refused")
    recorder.record("a", thing(), "Normal", "Synced", "written")
    async with running(recorder):
        await until(lambda: bool(host.listed(EVENTS)))
    assert [event["message"] for event in host.listed(EVENTS)] == ["written"]
    assert recorder.dropped == 1


async def test_drain_ends_in_time_when_the_server_does_not_answer(
    host: FakeApiServer, recorder: EventRecorder
) -> None:
    released = host.hold("POST", EVENTS)
    recorder.record("a", thing(), "Normal", "Synced", "done")
    before = asyncio.get_running_loop().time()
    await recorder.drain(0.5)
    assert asyncio.get_running_loop().time() - before == pytest.approx(0.5, abs=0.1)
    released.set()


async def test_who_has_many_events_waits_for_the_others(hub: FakeApiServer) -> None:
    recorder = neighbours(hub)
    for number in range(50):
        recorder.record("x", about(f"w-{number}", "noisy"), "Normal", f"Said{number}", "text")
    recorder.record("x", about("w", "quiet"), "Normal", "Said", "text")
    await recorder.drain(10.0)
    written = [request.path for request in hub.requests]
    assert written.index("/api/v1/namespaces/quiet/events") == 1


async def test_slots_whose_events_hang_delay_no_other_slot(hub: FakeApiServer) -> None:
    recorder = neighbours(hub)
    paths = [f"/api/v1/namespaces/slow-{number}/events" for number in range(WRITERS - 1)]
    released = [hub.hold("POST", path, 100) for path in paths]
    for number in range(20):
        for slow in range(WRITERS - 1):
            recorder.record("x", about(f"w-{number}", f"slow-{slow}"), "Normal", "Said", "text")
        recorder.record("x", about(f"w-{number}", "quiet"), "Normal", "Said", "text")
    async with running(recorder):
        await until(lambda: len(hub.asked("POST", "/api/v1/namespaces/quiet/events")) == 20)
        assert [len(hub.asked("POST", path)) for path in paths] == [1] * len(paths)
    for each in released:
        each.set()


async def test_no_one_fills_the_queue(hub: FakeApiServer) -> None:
    recorder = neighbours(hub)
    for number in range(QUEUE_LENGTH):
        recorder.record("x", about(f"w-{number}", "noisy"), "Normal", f"Said{number}", "text")
    assert recorder.dropped == QUEUE_LENGTH - QUEUE_OF_ONE
    recorder.record("x", about("w", "quiet"), "Normal", "Said", "text")
    assert recorder.dropped == QUEUE_LENGTH - QUEUE_OF_ONE


async def test_normal_events_at_a_moderate_rate_are_all_written(hub: FakeApiServer) -> None:
    """As the comparison with karmada-agent does: hundreds in a few minutes."""
    clock = Clock()
    recorder = neighbours(hub, monotonic=clock)
    for number in range(300):
        recorder.record("e", about(f"w-{number}", "noisy"), "Normal", "SyncSucceed", "well")
        clock.advance(1 / OF_NORMAL[1])
    await recorder.drain(60.0)
    found = hub.listed("/api/v1/namespaces/noisy/events")
    assert [event["message"] for event in found] == ["well"] * 300


@pytest.mark.parametrize("a_second", [20, 200])
async def test_thousand_new_works_make_few_events(hub: FakeApiServer, a_second: int) -> None:
    """Two of them are SyncSucceed: of the Work, and of its template in the same flow."""
    clock = Clock()
    recorder, written = neighbours(hub, monotonic=clock), 0
    reasons = ["WorkDispatching", "ReflectStatusSucceed", "InterpretHealthSucceed"]
    for number in range(1000):
        for reason in (*reasons, "SyncSucceed", "SyncSucceed"):
            written += recorder.record("e", about(f"w-{number}", "noisy"), "Normal", reason, "well")
        clock.advance(1 / a_second)
    assert written <= 200


@pytest.mark.parametrize(
    ("kind", "burst", "qps"),
    [("Normal", *OF_NORMAL), ("Warning", *PER_REASON)],
)
async def test_events_of_one_reason_are_dropped_after_a_burst_and_the_next_says_how_many(
    hub: FakeApiServer, kind: str, burst: int, qps: float
) -> None:
    clock = Clock()
    recorder = neighbours(hub, monotonic=clock)
    for number in range(burst):
        assert recorder.record("x", about(f"w-{number}", "noisy"), kind, "Said", "text")
    await recorder.drain(60.0)
    for number in range(80):
        assert not recorder.record("x", about(f"v-{number}", "noisy"), kind, "Said", "text")
    assert recorder.record("x", about("other-reason", "noisy"), kind, "Other", "text")
    assert recorder.record("x", about("other-flow", "quiet"), kind, "Said", "text")
    clock.advance(30.0 if kind == "Normal" else 1 / qps)
    assert recorder.record("x", about("next", "noisy"), kind, "Said", "text")
    await recorder.drain(60.0)
    events = {e["involvedObject"]["name"]: e["message"] for e in hub.listed("/api/v1/events")}
    assert len(events) == burst + 3
    assert events["next"] == "text (and 80 more with this reason, which were dropped)"
    assert events["other-reason"] == events["other-flow"] == "text"
    assert recorder.dropped == 80


def about(name: str, namespace: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "uid": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def neighbours(
    hub: FakeApiServer, monotonic: Callable[[], float] = time.monotonic
) -> EventRecorder:
    for name in ("noisy", "quiet"):
        hub.seed({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return EventRecorder(hub.client("hub"), monotonic=monotonic)


async def test_namespace_that_a_tenant_chose_is_one_part_of_the_path(
    recorder: EventRecorder, host: FakeApiServer
) -> None:
    recorder.record("agent", thing(namespace="edge/configmaps?x="), "Warning", "Failed", "text")
    await recorder.drain(10.0)
    assert host.asked("POST", "/api/v1/namespaces/edge/configmaps") == []


def counted(count: int, message: str = "again") -> tuple[str, Series]:
    return message, Series("abc", count, "2026-01-01T00:00:00Z", f"2026-01-01T00:0{count}:00Z")


def record_series(recorder: EventRecorder, count: int, message: str = "again") -> bool:
    text, series = counted(count, message)
    return recorder.record("s", thing(), "Warning", "Failed", text, series=series)


async def test_series_is_one_event_with_the_count_of_its_counter(
    host: FakeApiServer, recorder: EventRecorder
) -> None:
    for count in (3, 5):
        assert record_series(recorder, count, f"at {count}")
        await recorder.drain(5.0)
    (event,) = host.listed(EVENTS)
    assert event["metadata"]["name"] == "web.abc"
    told = [event[key] for key in ("count", "message", "firstTimestamp", "lastTimestamp")]
    assert told == [5, "at 5", "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"]


async def test_series_of_an_earlier_process_continues(
    host: FakeApiServer, client: ApiClient, recorder: EventRecorder
) -> None:
    record_series(recorder, 3)
    await recorder.drain(5.0)
    another = EventRecorder(client)
    record_series(another, 4)
    await another.drain(5.0)
    assert [event["count"] for event in host.listed(EVENTS)] == [4]


async def test_series_whose_event_is_deleted_gets_another_one(
    host: FakeApiServer, recorder: EventRecorder
) -> None:
    record_series(recorder, 3)
    await recorder.drain(5.0)
    host.remove(f"{EVENTS}/web.abc")
    record_series(recorder, 4)
    await recorder.drain(5.0)
    assert [event["count"] for event in host.listed(EVENTS)] == [4]


async def test_it_says_what_will_not_be_written(recorder: EventRecorder) -> None:
    assert [record_series(recorder, 3) for _ in range(26)] == [True] * 25 + [False]


async def test_only_warnings_are_written_if_requested(
    host: FakeApiServer, client: ApiClient, recorder: EventRecorder
) -> None:
    terse = EventRecorder(client, only_warnings=True)
    assert not terse.record("a-controller", thing(), "Normal", "SyncSucceed", "well")
    assert terse.record("a-controller", thing(), "Warning", "SyncFailed", "it failed")
    await terse.drain(5.0)
    assert [event["reason"] for event in host.listed(EVENTS)] == ["SyncFailed"]
    assert (terse.dropped, recorder.dropped) == (0, 0)
