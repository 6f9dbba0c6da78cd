"""Controller: what becomes of a key after each way a reconcile can end."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

import pytest

from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.controller import (
    RELIEVED_AFTER_S,
    Controller,
    ControllerInstrument,
    ControllerSpec,
    NotReadyError,
    Requeue,
    RetryError,
    WorkQueue,
)
from karmada_vc_agent.kube.errors import ConflictError, ForbiddenError, UnreachableError
from tests.fakes.api_server import FakeApiServer
from tests.fakes.objects import namespace
from tests.fakes.virtual_time import let_others_run

Reconcile = Callable[[str], Coroutine[Any, Any, Requeue | None]]


class Script:
    """A reconcile that notes when it was called, and ends as told; afterwards well."""

    def __init__(self, *ends: Exception | Requeue | None) -> None:
        self.calls: list[tuple[str, float]] = []
        self._ends = list(ends)

    async def __call__(self, key: str) -> Requeue | None:
        self.calls.append((key, round(asyncio.get_running_loop().time() - 1000.0, 3)))
        end = self._ends.pop(0) if self._ends else None
        if isinstance(end, Exception):
            raise end
        return end


async def run_for(seconds: float, reconcile: Reconcile, *keys: str, workers: int = 1) -> None:
    queue: WorkQueue[str] = WorkQueue(lambda key: key, 1.0, 100.0)
    controller = Controller(ControllerSpec("test", queue, reconcile, workers))
    for key in keys:
        queue.add(key)
    task = asyncio.ensure_future(controller.run())
    await asyncio.sleep(seconds)
    queue.close()
    await task


async def test_key_that_is_done_rests() -> None:
    script = Script(None)
    await run_for(1000.0, script, "a")
    assert script.calls == [("a", 0.0)]


async def test_requeue_brings_the_key_again_after_its_time() -> None:
    script = Script(Requeue(30.0))
    await run_for(1000.0, script, "a")
    assert script.calls == [("a", 0.0), ("a", 30.0)]


@pytest.mark.parametrize(
    "error",
    [
        ConflictError(409, "Conflict", "newer"),
        UnreachableError("away"),
        NotReadyError("cluster(a) not ready"),
        ForbiddenError(403, "Forbidden", "no"),
        RetryError("not yet"),
        KeyError("a bug"),
    ],
)
async def test_key_that_failed_backs_off(error: Exception) -> None:
    script = Script(error, error, error)
    await run_for(1000.0, script, "a")
    assert script.calls == [("a", 0.0), ("a", 1.0), ("a", 3.0), ("a", 7.0)]


async def test_success_ends_the_back_off() -> None:
    script = Script(RetryError("1"), RetryError("2"), Requeue(10.0), RetryError("3"))
    await run_for(1000.0, script, "a")
    assert [at for _, at in script.calls] == [0.0, 1.0, 3.0, 13.0, 14.0]


async def test_bug_in_one_key_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    async def reconcile(key: str) -> None:
        if key == "bad":
            raise ZeroDivisionError("a bug")
        done.append(key)

    await run_for(1.5, reconcile, "bad", "good", "better")
    assert done == ["good", "better"]
    failures = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.message for record in failures] == ["Failed to reconcile"]
    assert all(record.exc_info for record in failures)


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (ConflictError(409, "Conflict", "newer"), "DEBUG"),
        (UnreachableError("away"), "DEBUG"),
        (NotReadyError("not ready"), "DEBUG"),
        (RetryError("not yet"), "INFO"),
        (ForbiddenError(403, "Forbidden", "no"), "INFO"),
    ],
)
async def test_failure_is_logged_once_where_it_says_something(
    caplog: pytest.LogCaptureFixture, error: Exception, level: str
) -> None:
    caplog.set_level("DEBUG", "karmada_vc_agent")
    await run_for(0.5, Script(error), "a")
    records = [r for r in caplog.records if r.name.startswith("karmada_vc_agent")]
    assert [(r.levelname, r.message) for r in records] == [(level, "Backing off")]


async def test_workers_work_at_the_same_time() -> None:
    async def reconcile(_: str) -> None:
        await asyncio.sleep(10.0)

    loop = asyncio.get_running_loop()
    before = loop.time()
    queue: WorkQueue[str] = WorkQueue(lambda key: key)
    task = asyncio.ensure_future(Controller(ControllerSpec("test", queue, reconcile, 4)).run())
    for key in "abcd":
        queue.add(key)
    await asyncio.sleep(9.9)
    queue.close()
    await task
    assert loop.time() - before < 10.5


async def test_key_under_way_ends_when_the_queue_is_closed() -> None:
    ended: list[str] = []

    async def reconcile(key: str) -> None:
        await asyncio.sleep(5.0)
        ended.append(key)

    queue: WorkQueue[str] = WorkQueue(lambda _: "one group")
    task = asyncio.ensure_future(Controller(ControllerSpec("test", queue, reconcile, 1)).run())
    queue.add("under way")
    queue.add("waiting")
    await let_others_run()
    queue.close()
    await task
    assert ended == ["under way"]


async def test_cancelling_the_controller_cancels_its_reconciles() -> None:
    cancelled: list[str] = []

    async def reconcile(key: str) -> None:
        try:
            await asyncio.sleep(1000.0)
        except asyncio.CancelledError:
            cancelled.append(key)
            raise

    queue: WorkQueue[str] = WorkQueue(lambda key: key)
    task = asyncio.ensure_future(Controller(ControllerSpec("test", queue, reconcile, 2)).run())
    queue.add("a")
    queue.add("b")
    await let_others_run()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(cancelled) == ["a", "b"]


async def test_no_worker_is_relieved_while_the_controller_is_being_cancelled() -> None:
    async def reconcile(key: str) -> None:
        worked_at.append(key)
        try:
            await asyncio.sleep(1000.0)
        finally:
            await asyncio.sleep(5 * RELIEVED_AFTER_S)

    worked_at: list[str] = []
    failures: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: failures.append(told))
    queue: WorkQueue[str] = WorkQueue(lambda key: key, at_once=2)
    task = asyncio.ensure_future(Controller(ControllerSpec("test", queue, reconcile, 1)).run())
    queue.add("a")
    queue.add("b")
    await asyncio.sleep(RELIEVED_AFTER_S / 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (worked_at, failures) == (["a"], [])


@pytest.mark.parametrize(
    ("end", "result"),
    [
        (None, "success"),
        (Requeue(60.0), "requeue_after"),
        (UnreachableError("away"), "error"),
        (RetryError("not yet"), "error"),
        (KeyError("a bug"), "panic"),
    ],
)
async def test_controller_reports_how_each_reconcile_ended(
    end: Exception | Requeue | None, result: str
) -> None:
    heard: list[str] = []

    def ended(result: str, took_s: float) -> None:
        assert took_s >= 0
        heard.append(result)

    queue: WorkQueue[str] = WorkQueue(lambda key: key, 10.0)
    controller = Controller(ControllerSpec("test", queue, Script(end), 1))
    controller.instrument = ControllerInstrument(ended=ended)
    queue.add("a")
    task = asyncio.ensure_future(controller.run())
    await asyncio.sleep(1.0)
    queue.close()
    await task
    assert heard == [result]


async def neighbours_latency(slow_groups: str, workers: int, at_once: int) -> float:
    """Return how long a key of another group waits while all keys of some take 10 s each."""
    waited: list[float] = []
    loop = asyncio.get_running_loop()

    async def reconcile(key: str) -> None:
        if key.startswith("quick"):
            waited.append(loop.time() - added)
        else:
            await asyncio.sleep(10.0)

    queue: WorkQueue[str] = WorkQueue(lambda key: key[0], 1.0, 100.0, at_once=at_once)
    controller = Controller(ControllerSpec("test", queue, reconcile, workers))
    for number in range(200):
        for group in slow_groups:
            queue.add(f"{group}{number}")
    task = asyncio.ensure_future(controller.run())
    await asyncio.sleep(3.5)
    for number in range(20):
        added = loop.time()
        queue.add(f"quick{number}")
        await asyncio.sleep(1.7)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(waited) == 20
    return max(waited)


async def test_slow_keys_of_one_group_do_not_hold_up_another() -> None:
    assert await neighbours_latency("s", workers=32, at_once=16) == 0


async def test_not_even_slow_keys_of_many_groups_hold_up_another_for_long() -> None:
    latency_s = await neighbours_latency("stuvwxyz", workers=4, at_once=2)
    assert latency_s <= 2 * RELIEVED_AFTER_S


@pytest.mark.parametrize(("by_cluster", "expected"), [(True, "branch-a"), (False, flows.OWN)])
async def test_a_key_is_reconciled_in_the_flow_of_its_virtual_cluster(
    by_cluster: bool,
    expected: str,
) -> None:
    seen: list[Hashable] = []

    async def reconcile(_: str) -> None:
        seen.append(flows.current())

    queue: WorkQueue[str] = WorkQueue(lambda key: key.partition("/")[0])
    spec = ControllerSpec("test", queue, reconcile, by_cluster=by_cluster)
    queue.add("branch-a/web")
    task = asyncio.ensure_future(Controller(spec).run())
    await let_others_run()
    queue.close()
    await task
    assert seen == [expected]
    assert flows.current() == flows.OWN


async def test_workers_that_were_relieved_end() -> None:
    working: list[int] = []
    at_work = 0

    async def reconcile(_: str) -> None:
        nonlocal at_work
        at_work += 1
        working.append(at_work)
        await asyncio.sleep(0.5 if quick else 5.0)
        at_work -= 1

    quick = False
    queue: WorkQueue[str] = WorkQueue(lambda key: key, at_once=1)
    task = asyncio.ensure_future(Controller(ControllerSpec("test", queue, reconcile, 2)).run())
    for key in "abcdefgh":
        queue.add(key)
    await asyncio.sleep(20.0)
    assert max(working) > 2
    quick = True
    working.clear()
    for key in "abcdefgh":
        queue.add(key)
    await asyncio.sleep(20.0)
    queue.close()
    await task
    assert len(working) == 8
    assert max(working) == 2


async def test_keys_that_fail_for_one_reason_share_a_back_off() -> None:
    calls = 0

    async def reconcile(key: str) -> None:
        nonlocal calls
        calls += 1
        if not healed:
            raise RetryError("no such kind", [("cluster", "kind")])

    healed = False
    queue: WorkQueue[str] = WorkQueue(lambda key: key[0], 1.0, 1000.0)
    task = asyncio.ensure_future(Controller(ControllerSpec("test", queue, reconcile, 4)).run())
    for number in range(200):
        queue.add(f"k{number}")
    await asyncio.sleep(64.0)
    assert calls == 200 + 8
    healed = True
    queue.changed({("cluster", "kind")})
    await asyncio.sleep(0.1)
    assert calls == 200 + 8 + 200
    queue.close()
    await task


async def test_key_with_a_reason_of_its_own_backs_off_by_itself_too() -> None:
    script = Script(*[RetryError("both", ["kind"], is_own=True)] * 3)
    await run_for(1000.0, script, "a")
    assert [at for _, at in script.calls][:2] == [0.0, 1.0]
    assert len(script.calls) == 4


async def test_recovered_server_is_queried_only_for_what_failed(host: FakeApiServer) -> None:
    host.seed(namespace("edge"))
    client = host.client()
    queue: WorkQueue[str] = WorkQueue(lambda key: key, 50.0, 1000.0)
    client.history.recovered.subscribe(queue.retry_failed)

    async def reconcile(key: str) -> Requeue | None:
        await client.get("/api/v1/namespaces/edge", {"for": key})
        return Requeue(10_000.0)

    task = asyncio.ensure_future(Controller(ControllerSpec("test", queue, reconcile, 1)).run())
    for number in range(20):
        queue.add(f"periodic-{number}")
    await _until(lambda: len(host.requests) == 20)
    with host.down():
        queue.add("failed")
        await _until(lambda: not client.is_reachable)
    host.requests.clear()
    await client.get("/api/v1/namespaces/edge", {"for": "recovery"})
    await _until(lambda: len(host.requests) >= 2)
    await let_others_run()
    assert [request.query["for"] for request in host.requests] == ["recovery", "failed"]
    queue.close()
    await task


async def _until(is_so: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came")


@pytest.mark.parametrize(
    "otherwise", [RetryError("its own"), UnreachableError("away"), TypeError("a bug")]
)
async def test_probe_that_fails_for_itself_leaves_its_dependency_to_another_one(
    otherwise: Exception,
) -> None:
    calls: list[str] = []

    async def reconcile(key: str) -> None:
        calls.append(key)
        if key == "a" and calls.count("a") > 1:
            raise otherwise
        if calls.count(key) < 2:
            raise RetryError("no such kind", ["kind"])

    await run_for(100.0, reconcile, "a", "b", "c")
    assert calls.count("b") == calls.count("c") == 2
    assert calls.count("a") > 3


async def test_all_there_is_is_enqueued_once_what_is_under_way_had_time() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda key: key)
    controller = Controller(
        ControllerSpec("a", queue, _nothing, settles_s=1.0, resync_keys=lambda names: names)
    )
    controller.resync(("one", "two"))
    await asyncio.sleep(0.9)
    assert len(queue) == 0
    await asyncio.sleep(0.2)
    assert len(queue) == 2


async def _nothing(_: str) -> None:
    return


async def test_failure_of_its_own_backs_off_once_although_its_group_changed_meanwhile() -> None:
    calls: list[float] = []

    async def reconcile(key: str) -> None:
        calls.append(asyncio.get_running_loop().time())
        if len(calls) <= 3:
            queue.changed({key})
            raise RetryError("own")

    queue: WorkQueue[str] = WorkQueue(lambda key: key, 1.0, 100.0)
    task = asyncio.ensure_future(Controller(ControllerSpec("test", queue, reconcile)).run())
    queue.add("a")
    await asyncio.sleep(50.0)
    queue.close()
    await task
    assert [round(after - at) for at, after in itertools.pairwise(calls)] == [1, 2, 4]
