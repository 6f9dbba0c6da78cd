"""Loop time: what flows compute is measured, and one that exceeds its share waits for others."""

import asyncio
from collections.abc import Hashable

import pytest

from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.controller import HELD_CHECK_S, WorkQueue
from karmada_vc_agent.kube.flows import DECAY_S, REPORTED_EVERY_S, LoopTime, measure_with, measured

SHARE = 0.25
Key = tuple[str, int]


class Clock:
    """A clock that moves only where something computes."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class World:
    """A queue whose groups have a share of the loop; a group in `unbounded` has no bound."""

    def __init__(self) -> None:
        self.clock, self.cpu = Clock(), Clock()
        self.reported: list[Hashable] = []
        self.shares: dict[Hashable, float] = {"a": SHARE, "b": SHARE, "free": 0.0}
        self.time = LoopTime(self.shares.get, self.reported.append, self.clock, self.cpu)
        self.queue: WorkQueue[Key] = WorkQueue(lambda key: key[0], loop_time=self.time)

    def compute(self, seconds: float) -> None:
        self.clock.now += seconds
        self.cpu.now += seconds


@pytest.fixture
def world() -> World:
    return World()


async def test_only_what_a_flow_computes_counts_not_what_it_waits_for(world: World) -> None:
    async def work() -> str:
        world.compute(0.1)
        await asyncio.sleep(5.0)
        world.compute(0.2)
        return "done"

    measure_with(world.time)
    with flows.of("a"):
        assert await measured(work()) == "done"

    assert world.time.used == {"a": pytest.approx(0.3)}


@pytest.mark.parametrize(
    ("took_s", "counts_s"), [(0.01, 0.01), (0.04, 0.04), (3.0, flows.SLOWED * 0.01)]
)
async def test_a_step_that_a_busy_machine_stops_counts_by_its_cpu(
    world: World, took_s: float, counts_s: float
) -> None:
    async def work() -> None:
        world.compute(0.01)
        world.clock.now += took_s - 0.01

    await world.time.measured("a", work())
    assert world.time.used == {"a": pytest.approx(counts_s)}


async def test_brief_steps_count_without_a_system_call_for_each(world: World) -> None:
    brief_s, reads = flows.BRIEF_S / 10, 0

    def cpu() -> float:
        nonlocal reads
        reads += 1
        return world.cpu.now

    async def work() -> None:
        for _ in range(100):
            world.compute(brief_s)
            await asyncio.sleep(0)
        world.clock.now += 3.0  # a busy machine stops it

    world.time.cpu = cpu
    measure_with(world.time)
    with flows.of("a"):
        await measured(work())
    assert reads <= 100 * brief_s / flows.BRIEF_S + 2
    used_s = world.time.used["a"] - 100 * brief_s
    assert used_s == pytest.approx(0.0, abs=flows.SLOWED * flows.BRIEF_S * 1.1)


async def test_a_flow_is_not_charged_for_what_others_computed_before(world: World) -> None:
    async def brief() -> None:
        world.compute(0.75 * flows.BRIEF_S)

    async def stopped() -> None:
        world.compute(0.25 * flows.BRIEF_S)
        world.clock.now += 0.005

    for _ in range(100):
        await world.time.measured("b", brief())
        await world.time.measured("a", stopped())
    assert world.time.used["a"] <= 100 * flows.SLOWED * 0.25 * flows.BRIEF_S * 1.001


async def test_a_step_that_measures_another_inside_counts_in_full(world: World) -> None:
    async def inner() -> None:
        world.compute(flows.BRIEF_S)

    async def outer() -> None:
        world.compute(1.0)
        await world.time.measured("b", inner())

    await world.time.measured("a", outer())
    assert world.time.used["a"] >= 1.0


async def test_work_that_fails_or_is_cancelled_counts_and_raises_as_without(world: World) -> None:
    async def fails() -> None:
        world.compute(0.1)
        raise ValueError("as without")

    async def waits() -> None:
        world.compute(0.1)
        await asyncio.Event().wait()

    with pytest.raises(ValueError, match="as without"):
        await world.time.measured("a", fails())
    task = asyncio.ensure_future(_run(world.time, waits()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.time.used["a"] == pytest.approx(0.2)


async def test_nothing_is_measured_where_nothing_measures() -> None:
    async def work() -> int:
        return 1

    assert await measured(work()) == 1


async def test_what_was_used_counts_less_and_less(world: World) -> None:
    world.time.spend("a", SHARE * 2)
    assert world.time.is_over("a")

    world.clock.now += DECAY_S

    assert not world.time.is_over("a")
    assert world.time.used["a"] == SHARE * 2


async def test_group_over_its_share_waits_while_another_one_has_a_key(world: World) -> None:
    world.time.spend("a", 10.0)
    for number in range(3):
        world.queue.add(("a", number))
    world.queue.add(("b", 0))

    assert await world.queue.take() == ("b", 0)
    taker = asyncio.ensure_future(world.queue.take())
    await asyncio.sleep(HELD_CHECK_S * 3)
    assert not taker.done()  # b is in progress
    world.queue.done(("b", 0))

    assert await taker == ("a", 0)
    assert world.reported == ["a"]


async def test_group_alone_takes_what_it_needs(world: World) -> None:
    world.time.spend("a", 10.0)
    world.queue.add(("a", 0))

    assert await world.queue.take() == ("a", 0)
    assert world.reported == []


async def test_groups_that_all_exceed_their_share_do_not_wait_for_one_another(world: World) -> None:
    for group in ("a", "b"):
        world.time.spend(group, 10.0)
        world.queue.add((group, 0))

    assert {await world.queue.take(), await world.queue.take()} == {("a", 0), ("b", 0)}


async def test_held_group_continues_by_its_share_while_the_other_waits(
    world: World,
) -> None:
    world.time.spend("a", SHARE * 2)
    world.queue.add(("b", 0))
    assert await world.queue.take() == ("b", 0)
    world.queue.add(("a", 0))
    taker = asyncio.ensure_future(world.queue.take())
    await asyncio.sleep(HELD_CHECK_S * 2)
    assert not taker.done()

    world.clock.now += DECAY_S  # b is still in progress

    assert await taker == ("a", 0)


async def test_bound_of_zero_and_flows_that_are_not_counted_never_wait(world: World) -> None:
    for flow in ("free", "unknown"):
        world.time.spend(flow, 100.0)
        assert not world.time.is_over(flow)

    assert "unknown" not in world.time.used


async def test_held_group_is_reported_once_in_a_while(world: World) -> None:
    for _ in range(3):
        world.time.held("a")
    world.clock.now += REPORTED_EVERY_S
    world.time.held("a")

    assert world.reported == ["a", "a"]


async def test_flow_that_ended_leaves_nothing(world: World) -> None:
    world.time.spend("a", 1.0)
    world.time.held("a")
    del world.shares["a"]

    world.time.forget("a")
    world.time.spend("a", 1.0)  # of a task that ends late

    assert (world.time.used, world.time._recent, world.time._reported_at) == ({}, {}, {})


async def _run(time: LoopTime, work: object) -> None:
    await time.measured("a", work)  # type: ignore[arg-type]  # a coroutine
