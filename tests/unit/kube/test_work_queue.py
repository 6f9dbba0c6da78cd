"""WorkQueue: each key once, delays, back-off, fair turns, end."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.kube.controller import TICK_S, ControllerInstrument, WorkQueue
from karmada_vc_agent.kube.flows import TokenBucket
from tests.fakes.virtual_time import VirtualTimeLoop, let_others_run
from tests.unit.kube.queue_steps import take, work_off


def new_queue(base_delay_s: float = 1.0, max_delay_s: float = 10.0) -> WorkQueue[str]:
    """Return a queue whose keys are grouped by their first letter."""
    return WorkQueue(lambda key: key[0], base_delay_s, max_delay_s)


def elapsed_s() -> float:
    return asyncio.get_running_loop().time() - 1000.0


async def test_key_added_twice_is_given_out_once() -> None:
    queue = new_queue()
    queue.add("a")
    queue.add("a")
    assert await work_off(queue) == ["a"]


async def test_keys_of_a_group_keep_their_order() -> None:
    queue = new_queue()
    for key in ("a2", "a1", "a3", "a1"):
        queue.add(key)
    assert await work_off(queue) == ["a2", "a1", "a3"]


async def test_key_added_while_it_is_worked_on_waits_for_its_worker() -> None:
    queue = new_queue()
    queue.add("a")
    key = await take(queue)
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert await work_off(queue) == ["a"]


async def test_keys_that_wait_for_long_are_due_together_and_none_early() -> None:
    queue = new_queue()
    waits_s = {f"{group}{number}": 10 + number / 100 for group in "ab" for number in range(50)}
    for key, wait_s in waits_s.items():
        queue.add_after(key, wait_s)
    due_s: dict[str, float] = {}
    while len(due_s) < len(waits_s):
        key = await take(queue)
        due_s[key] = elapsed_s()
        queue.done(key)
    assert all(0 <= due_s[key] - wait_s <= TICK_S for key, wait_s in waits_s.items())
    assert len(set(due_s.values())) <= 0.5 / TICK_S + 1


async def test_short_delay_ends_when_it_says() -> None:
    queue = new_queue()
    queue.add_after("a", 1.01)
    await take(queue)
    assert elapsed_s() == pytest.approx(1.01)


async def test_key_added_often_while_in_progress_returns_once() -> None:
    queue = new_queue()
    queue.add("a")
    key = await take(queue)
    for _ in range(3):
        queue.add("a")
    queue.done(key)
    assert await work_off(queue) == ["a"]


async def test_delay_that_ends_while_the_key_is_worked_on_brings_it_again() -> None:
    queue = new_queue()
    queue.add("a")
    key = await take(queue)
    queue.add_after("a", 1.0)
    await asyncio.sleep(2.0)
    assert len(queue) == 0
    queue.done(key)
    assert await work_off(queue) == ["a"]


async def test_taker_waits_for_a_key() -> None:
    queue = new_queue()
    taker = asyncio.ensure_future(queue.take())
    await let_others_run()
    assert not taker.done()
    queue.add("a")
    assert await taker == "a"


async def test_delayed_key_returns_when_its_time_is_up() -> None:
    queue = new_queue()
    queue.add_after("a", 5.0)
    assert await take(queue) == "a"
    assert elapsed_s() == pytest.approx(5.0)


async def test_no_delay_is_now() -> None:
    queue = new_queue()
    queue.add_after("a", 0.0)
    assert len(queue) == 1


@pytest.mark.parametrize("delays", [(2.0, 8.0), (8.0, 2.0)])
async def test_shortest_delay_of_a_key_counts(delays: tuple[float, float]) -> None:
    queue = new_queue()
    for delay_s in delays:
        queue.add_after("a", delay_s)
    queue.done(await take(queue))
    assert elapsed_s() == pytest.approx(2.0)
    await asyncio.sleep(20.0)
    assert len(queue) == 0


async def test_adding_a_delayed_key_now_cancels_its_delay() -> None:
    queue = new_queue()
    queue.add_after("a", 5.0)
    queue.add("a")
    queue.done(await take(queue))
    await asyncio.sleep(20.0)
    assert len(queue) == 0


async def test_delayed_keys_come_in_order_of_their_times() -> None:
    queue = new_queue()
    for key, delay_s in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        queue.add_after(key, delay_s)
    taken = []
    for _ in range(3):
        key = await take(queue)
        queue.done(key)
        taken.append((key, round(elapsed_s())))
    assert taken == [("b", 1), ("c", 2), ("a", 3)]


async def test_back_off_doubles_up_to_its_limit() -> None:
    queue = new_queue(base_delay_s=1.0, max_delay_s=10.0)
    pauses = []
    before = elapsed_s()
    for _ in range(6):
        queue.add_rate_limited("a")
        queue.done(await take(queue))
        pauses.append(round(elapsed_s() - before, 3))
        before = elapsed_s()
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


async def test_back_off_of_thousands_of_failures_does_not_overflow() -> None:
    queue = new_queue(base_delay_s=0.005, max_delay_s=10.0)
    for _ in range(2000):
        queue.add_rate_limited("a")
        queue.done(await take(queue))
    assert elapsed_s() < 2000 * 10.1


async def test_forgotten_key_starts_its_back_off_afresh() -> None:
    queue = new_queue()
    for _ in range(3):
        queue.add_rate_limited("a")
        queue.done(await take(queue))
    queue.forget("a")
    before = elapsed_s()
    queue.add_rate_limited("a")
    await take(queue)
    assert elapsed_s() - before == pytest.approx(1.0)


async def test_back_off_of_one_key_is_not_that_of_another() -> None:
    queue = new_queue()
    for _ in range(3):
        queue.add_rate_limited("a")
        queue.done(await take(queue))
    before = elapsed_s()
    queue.add_rate_limited("b")
    await take(queue)
    assert elapsed_s() - before == pytest.approx(1.0)


async def test_retry_failed_leaves_what_is_only_due() -> None:
    queue = new_queue()
    queue.add_after("periodic", 100.0)
    queue.add_rate_limited("failed")
    queue.add("waits for a cause")
    queue.wait_for(await take(queue), ["a cause"])
    queue.done("waits for a cause")
    queue.add_rate_limited("fared well again")
    queue.forget("fared well again")
    queue.add_after("fared well again", 100.0)
    queue.retry_failed()
    assert sorted(await work_off(queue)) == ["failed", "waits for a cause"]


async def test_retry_failed_starts_the_back_off_afresh() -> None:
    queue = new_queue()
    for _ in range(4):
        queue.add_rate_limited("a")
        queue.done(await take(queue))
    queue.add_rate_limited("a")
    queue.retry_failed()
    await work_off(queue)
    before = elapsed_s()
    queue.add_rate_limited("a")
    await take(queue)
    assert elapsed_s() - before == pytest.approx(1.0)


async def test_groups_share_fairly() -> None:
    queue = new_queue()
    for key in ("a1", "a2", "a3", "b1", "c1", "b2"):
        queue.add(key)
    assert await work_off(queue) == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_late_group_does_not_wait_for_a_burst() -> None:
    queue = new_queue()
    for number in range(100):
        queue.add(f"a{number}")
    queue.done(await take(queue))
    queue.add("b")
    assert "b" in [await take(queue), await take(queue)]


async def test_closed_queue_wakes_its_taker() -> None:
    queue = new_queue()
    taker = asyncio.ensure_future(queue.take())
    await let_others_run()
    queue.close()
    assert await taker is None


async def test_closed_queue_gives_out_nothing_though_keys_wait() -> None:
    queue = new_queue()
    queue.add("a")
    queue.close()
    assert await queue.take() is None


async def test_cancelled_taker_loses_no_key() -> None:
    queue = new_queue()
    taker = asyncio.ensure_future(queue.take())
    await let_others_run()
    queue.add("a")
    taker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taker
    assert await asyncio.wait_for(take(queue), 5.0) == "a"


KEYS = st.sampled_from(["a1", "a2", "b1", "b2", "c1"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS),
        st.tuples(st.just("after"), KEYS, st.integers(1, 9)),
        st.tuples(st.just("fail"), KEYS),
        st.tuples(st.just("retry")),
        st.tuples(st.just("take")),
        st.tuples(st.just("done")),
        st.tuples(st.just("sleep"), st.integers(1, 5)),
    ),
    max_size=40,
)


class Model:
    """A queue beside what is known of its keys: a wanted one must come, a delayed one may."""

    def __init__(self) -> None:
        self.queue = new_queue()
        self.wanted: set[str] = set()
        self.delayed: set[str] = set()
        self.working: list[str] = []

    async def play(self, step: tuple[Any, ...]) -> None:
        kind, arguments = step[0], step[1:]
        if kind in ("add", "after", "fail"):
            self.add(kind, *arguments)
        elif kind == "retry":
            self.queue.retry_failed()
        elif kind == "take" and len(self.queue):
            self.started(await take(self.queue))
        elif kind == "done" and self.working:
            self.queue.done(self.working.pop(0))
        elif kind == "sleep":
            await asyncio.sleep(arguments[0])

    def add(self, kind: str, key: str, seconds: int = 0) -> None:
        self.wanted.add(key)
        if kind == "add":
            self.queue.add(key)
            return
        self.delayed.add(key)
        if kind == "after":
            self.queue.add_after(key, seconds)
        else:
            self.queue.add_rate_limited(key)

    def started(self, key: str) -> None:
        assert key in self.wanted | self.delayed
        assert key not in self.working
        self.wanted.discard(key)
        self.working.append(key)


@given(STEPS)
def test_no_key_is_lost_or_worked_on_twice_at_once(steps: list[tuple[Any, ...]]) -> None:
    async def play() -> None:
        model = Model()
        for step in steps:
            await model.play(step)
        for key in model.working:
            model.queue.done(key)
        await asyncio.sleep(1000.0)
        left = set(await work_off(model.queue))
        assert model.wanted <= left <= model.wanted | model.delayed

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(play())


def listener(heard: list[str]) -> ControllerInstrument:
    """Return an instrument that writes down what it hears."""
    return ControllerInstrument(
        lambda: heard.append("added"),
        lambda: heard.append("retried"),
        lambda waited_s: heard.append(f"taken after {waited_s:g}"),
        lambda worked_s: heard.append(f"done in {worked_s:g}"),
    )


async def test_queue_reports_what_happens_to_its_keys() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda key: key, clock=asyncio.get_running_loop().time)
    heard: list[str] = []
    queue.instrument = listener(heard)
    queue.add("a")
    queue.add("a")
    await asyncio.sleep(2.0)
    key = await take(queue)
    assert (queue.waiting(), queue.working_s()) == ({}, [0.0])
    await asyncio.sleep(3.0)
    assert queue.working_s() == [3.0]
    queue.add_rate_limited(key)
    queue.done(key)
    assert heard == ["added", "taken after 2", "retried", "done in 3"]
    assert queue.working_s() == []


async def test_queue_reports_how_long_each_group_has_been_waiting() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda key: key[0], clock=asyncio.get_running_loop().time)
    assert queue.waiting() == {}
    queue.add("a1")
    await asyncio.sleep(5.0)
    queue.add("a2")
    queue.add("b1")
    await asyncio.sleep(1.0)
    assert queue.waiting() == {"a": (2, 6.0), "b": (1, 1.0)}


async def test_retries_of_a_group_share_a_limit_and_take_none_of_others() -> None:
    loop = asyncio.get_running_loop()
    queue: WorkQueue[str] = WorkQueue(
        lambda key: key[0], 0.001, 10.0, lambda: TokenBucket(1.0, 2, loop.time)
    )
    for key in ("a1", "a2", "a3", "a4", "b1"):
        queue.add_rate_limited(key)
    taken = []
    for _ in range(5):
        key = await take(queue)
        queue.done(key)
        taken.append((key, round(elapsed_s(), 1)))
    assert taken == [("a1", 0.0), ("b1", 0.0), ("a2", 0.0), ("a3", 1.0), ("a4", 2.0)]


async def test_change_that_many_keys_wait_for_takes_no_retries_from_the_limit() -> None:
    clock = asyncio.get_running_loop().time
    queue: WorkQueue[str] = WorkQueue(
        lambda key: key[0], 1.0, 10.0, lambda: TokenBucket(1.0, 5, clock)
    )
    keys = [f"a{number}" for number in range(100)]
    for key in keys:
        queue.wait_for(key, ["a"])
    queue.changed({"a"})
    assert await work_off(queue) == keys
    queue.add_rate_limited("a0")
    assert await take(queue) == "a0"
    assert elapsed_s() == 1.0


async def test_keys_of_a_recovered_dependency_take_one_retry_each() -> None:
    clock = asyncio.get_running_loop().time
    queue: WorkQueue[str] = WorkQueue(
        lambda key: key[0], 1.0, 10.0, lambda: TokenBucket(0.1, 60, clock)
    )
    for number in range(50):
        queue.wait_for(f"a{number}", ["a"])
    for _ in range(50):
        key = await take(queue)
        queue.forget(key)
        queue.done(key)
    queue.add_rate_limited("a0")
    assert await take(queue) == "a0"
    assert elapsed_s() == 2.0


async def test_additions_that_are_no_retries_are_not_limited() -> None:
    clock = asyncio.get_running_loop().time
    queue: WorkQueue[str] = WorkQueue(
        lambda key: key, 0.001, 10.0, lambda: TokenBucket(1.0, 1, clock)
    )
    for key in "abcd":
        queue.add(key)
    assert await work_off(queue) == ["a", "b", "c", "d"]


async def test_group_is_worked_on_by_so_many_at_most() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda key: key[0], at_once=2)
    for key in ("a1", "a2", "a3", "b1"):
        queue.add(key)
    taken = [await take(queue) for _ in range(3)]
    assert taken == ["a1", "b1", "a2"]
    waiting = asyncio.ensure_future(queue.take())
    await let_others_run()
    assert not waiting.done()
    queue.done("a1")
    assert await waiting == "a3"


async def test_group_at_its_bound_continues_when_it_is_given_more_keys() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda key: key[0], at_once=1)
    queue.add("a1")
    await take(queue)
    queue.add("a1")
    waiting = asyncio.ensure_future(queue.take())
    await let_others_run()
    queue.done("a1")
    assert await waiting == "a1"


async def test_keys_of_one_dependency_share_one_back_off() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda key: key[0], 1.0, 1000.0)
    keys = [f"a{number}" for number in range(200)]
    for key in keys:
        queue.wait_for(key, ["no such kind"])
    looked: list[tuple[str, float]] = []
    while elapsed_s() < 60:
        key = await take(queue)
        looked.append((key, elapsed_s()))
        queue.wait_for(key, ["no such kind"])
        queue.done(key)
    assert [at for _, at in looked] == [1, 3, 7, 15, 25, 35, 45, 55, 65]
    assert len({key for key, _ in looked}) >= len(looked) - 1


async def test_dependency_that_does_not_answer_is_checked_by_one_key_at_a_time() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda key: key[0], 0.005, 1000.0)
    for number in range(100):
        queue.wait_for(f"a{number}", ["webhook"])
    key = await take(queue)
    await asyncio.sleep(30.0)
    assert not len(queue)
    queue.wait_for(key, ["webhook"])
    queue.done(key)
    assert await take(queue) != key
    assert elapsed_s() <= 41


async def test_change_brings_all_keys_that_wait_for_it_at_once() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda key: key[0], 1.0, 1000.0)
    for key in ("a1", "a2", "a3"):
        queue.wait_for(key, ["kind"])
    queue.wait_for("b1", ["webhook"])
    queue.changed({"kind"})
    assert await work_off(queue) == ["a1", "a2", "a3"]
    assert elapsed_s() == 0


async def test_key_that_succeeds_brings_the_others_at_once() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda key: key[0], 1.0, 1000.0)
    for number in range(100):
        queue.wait_for(f"a{number}", ["right"])
    taken = []
    for _ in range(100):
        key = await take(queue)
        taken.append(key)
        queue.forget(key)
        queue.done(key)
    assert len(set(taken)) == 100
    assert elapsed_s() == 1


async def test_key_that_succeeds_while_its_dependency_lacks_brings_few_others() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda key: key[0], 1.0, 1000.0)
    for number in range(100):
        queue.wait_for(f"a{number}", ["right"])
    queue.forget("a50")
    taken = 0
    while elapsed_s() < 0.5:
        key = await take(queue)
        taken += elapsed_s() < 0.5
        queue.wait_for(key, ["right"])
        queue.done(key)
    assert taken == 2


async def test_deleted_keys_of_a_dependency_delay_no_retries_of_their_group() -> None:
    clock = asyncio.get_running_loop().time
    queue: WorkQueue[str] = WorkQueue(
        lambda key: key[0], 1.0, 10.0, lambda: TokenBucket(1.0, 10, clock)
    )
    for number in range(1000):
        queue.wait_for(f"a{number}", ["right"])
    queue.forget("a500")
    queue.add_rate_limited("another")
    while (key := await take(queue)) != "another":
        queue.wait_for(key, ["right"])
        queue.done(key)
    assert elapsed_s() == 1.0


async def test_retry_failed_brings_keys_that_wait_for_a_dependency() -> None:
    queue = new_queue()
    for key in ("a1", "a2", "b1"):
        queue.wait_for(key, ["kind"])
    queue.retry_failed()
    assert sorted(await work_off(queue)) == ["a1", "a2", "b1"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("blame", "forget", "changed", "retry", "turn")),
            st.sampled_from(("a1", "a2", "b1", "b2")),
            st.lists(st.sampled_from("xyz"), max_size=2),
        ),
        max_size=40,
    )
)
def test_no_key_that_has_a_dependency_is_ever_lost(steps: list[tuple[str, str, list[str]]]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(_no_key_is_lost(steps))


async def _no_key_is_lost(steps: list[tuple[str, str, list[str]]]) -> None:
    queue: WorkQueue[str] = WorkQueue(lambda key: key[0], 1.0, 8.0, at_once=1)
    owed: set[str] = set()
    for what, key, causes in steps:
        match what:
            case "blame" if causes:
                queue.wait_for(key, causes)
                owed.add(key)
            case "forget":
                queue.forget(key)
                owed.discard(key)
            case "changed":
                queue.changed(causes)
            case "retry":
                queue.retry_failed()
            case _:
                await asyncio.sleep(0.7)
    came: set[str] = set()
    while owed - came:
        key = await asyncio.wait_for(take(queue), 100)
        queue.forget(key)
        queue.done(key)
        came.add(key)


async def test_resting_key_returns_only_when_its_group_or_dependency_changes() -> None:
    queue = new_queue()
    queue.rest("a1", ["namespace", "kind"])
    queue.rest("b1", ["kind"])
    await asyncio.sleep(10_000)
    queue.retry_failed()
    queue.changed({"another namespace", "c"})
    assert len(queue) == 0
    queue.changed({"namespace"})
    assert await work_off(queue) == ["a1"]
    queue.rest("a1", [])
    queue.changed(["kind", "a"])
    assert await work_off(queue) == ["b1", "a1"]
    queue.changed(["kind", "a"])
    assert len(queue) == 0


async def test_key_that_fared_well_rests_no_more() -> None:
    queue = new_queue()
    queue.rest("a1", ["namespace"])
    queue.forget("a1")
    queue.changed({"namespace", "a"})
    assert len(queue) == 0


async def test_change_while_a_key_is_worked_on_lets_it_back_off_instead_of_rest() -> None:
    queue = new_queue()
    queue.add("a1")
    for back_off_s in (0.0, 1.0, 2.0, 4.0):
        started = elapsed_s()
        key = await take(queue)
        assert elapsed_s() - started == back_off_s
        queue.changed({"namespace"})
        queue.rest(key, ["namespace"])
        queue.done(key)
    key = await take(queue)
    queue.changed({"another namespace"})
    queue.rest(key, ["namespace"])
    queue.done(key)
    await asyncio.sleep(10_000)
    assert len(queue) == 0


async def test_key_that_counts_as_of_another_group_by_now_frees_the_place_it_took() -> None:
    groups = {"a": "one", "b": "one"}
    queue: WorkQueue[str] = WorkQueue(lambda key: groups[key], at_once=1)
    queue.add("a")
    key = await take(queue)
    groups["a"] = "two"
    queue.done(key)
    for key in ("b", "a"):
        queue.add(key)
    assert {await asyncio.wait_for(take(queue), 1) for _ in range(2)} == {"a", "b"}


async def test_key_that_counts_as_of_another_group_while_it_waits_is_given_out_once() -> None:
    groups = {"wanderer": "a", "of a": "a"}
    queue: WorkQueue[str] = WorkQueue(lambda key: groups[key], at_once=1)
    queue.add("wanderer")
    groups["wanderer"] = "b"
    queue.add("wanderer")
    assert len(queue) == 1
    queue.done(await take(queue))
    queue.add("of a")
    async with asyncio.timeout(1.0):
        assert await take(queue) == "of a", "its group has lost a place for good"


async def test_a_reason_counts_for_a_key_that_waits_for_nothing_else() -> None:
    queue = new_queue()
    queue.add_after("a", 0.0, "first")
    queue.add_after("a", 0.0, "last")
    assert queue.reasons == {"a": "last"}
    queue.add("a")
    queue.add_after("a", 0.0, "later")
    assert not queue.reasons
    assert await work_off(queue) == ["a"]


async def test_a_reason_does_not_count_for_a_key_that_is_processed_due_or_failed() -> None:
    queue = new_queue()
    queue.add("a")
    key = await take(queue)
    queue.add_after(key, 0.0, "while it is processed")
    queue.done(key)
    queue.add_after("b", 5.0)
    queue.add_after("b", 0.0, "while it is due")
    queue.add_rate_limited("c")
    queue.add_after("c", 0.0, "while it backs off")
    queue.wait_for("d", ["host"])
    queue.add_after("d", 0.0, "while it waits for the host")
    assert not queue.reasons
