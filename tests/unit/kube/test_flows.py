"""Flows: what one of them may hold, in advance and while others wait."""

import asyncio
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.flows import OWN, FairSlots, SharedLock
from tests.fakes.virtual_time import let_others_run

TOTALS = (2, 3, 4, 16, 32, 64)


def take_all(slots: FairSlots, flow: Hashable) -> int:
    """Take as many slots as a flow may have; return how many it holds."""
    while slots.try_take(flow):
        pass
    return slots.held[flow]


@pytest.mark.parametrize("total", TOTALS)
def test_one_flow_has_half_before_another_one_waits(total: int) -> None:
    slots = FairSlots(total)
    assert take_all(slots, "a") == (total + 1) // 2
    assert slots.free == total // 2


@pytest.mark.parametrize("total", [16, 32, 64])
def test_three_flows_that_hold_all_they_may_leave_some_to_a_fourth(total: int) -> None:
    slots = FairSlots(total)
    held = [take_all(slots, flow) for flow in ("a", "b", "c")]
    assert held == sorted(held, reverse=True)
    assert slots.free >= total // 8
    assert slots.try_take("d")


@given(total=st.integers(2, 64), calls=st.lists(st.sampled_from("abcde"), max_size=200))
def test_no_flow_has_more_than_half(total: int, calls: list[str]) -> None:
    slots = FairSlots(total)
    for flow in calls:
        slots.try_take(flow)
    assert max((slots.held[flow] for flow in "abcde"), default=0) <= (total + 1) // 2


@pytest.mark.parametrize("total", TOTALS)
def test_a_flow_that_is_alone_has_all_but_one(total: int) -> None:
    slots = FairSlots(total, is_shared=lambda: False)
    assert take_all(slots, "a") == total - 1
    assert slots.try_take(OWN)


@pytest.mark.parametrize("total", TOTALS)
def test_the_agent_itself_has_all_but_one(total: int) -> None:
    slots = FairSlots(total)
    assert take_all(slots, OWN) == total - 1
    assert slots.try_take("a")


@pytest.mark.parametrize("is_shared", [True, False])
def test_flows_leave_to_the_agent_itself_what_is_its_own(*, is_shared: bool) -> None:
    slots = FairSlots(16, lambda: is_shared, of_own=1)
    held = [take_all(slots, flow) for flow in "abcdefgh"]
    assert held == ([8, 4, 2, 1, 0, 0, 0, 0] if is_shared else [15, 0, 0, 0, 0, 0, 0, 0])
    assert slots.try_take(OWN)


@pytest.mark.parametrize("flow", ["a", OWN])
def test_one_slot_is_for_each_flow(flow: str) -> None:
    assert take_all(FairSlots(1), flow) == 1


async def test_waiting_flows_share_fairly() -> None:
    slots, order, gate = FairSlots(2), list[str](), asyncio.Event()

    async def hold(flow: str, name: str) -> None:
        async with slots.hold(flow):
            order.append(name)
            await gate.wait()

    names = [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1")]
    tasks = [asyncio.create_task(hold(flow, name)) for flow, name in names]
    await let_others_run()
    assert order == ["a1", "b1"]
    gate.set()
    await asyncio.gather(*tasks)
    assert order.index("c1") < order.index("a3")


class Holders:
    """Tasks that hold a slot until they are ended."""

    def __init__(self, slots: FairSlots) -> None:
        self._slots = slots
        self.holding: list[str] = []

    async def hold(self, flow: str, name: str) -> None:
        async with self._slots.hold(flow):
            self.holding.append(name)
            try:
                await asyncio.Event().wait()
            finally:
                self.holding.remove(name)

    async def start(self, flow: str, name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(self.hold(flow, name))
        await let_others_run()
        return task


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await let_others_run()


async def test_those_that_stop_waiting_take_no_slot() -> None:
    slots = FairSlots(1)
    holders = Holders(slots)
    first = await holders.start("a", "a1")
    waiting = [await holders.start("b", f"b{number}") for number in range(2)]
    await end(waiting[0])
    waiting.append(await holders.start("b", "b2"))
    await end(first)
    assert holders.holding == ["b1"]
    await end(waiting[1])
    assert holders.holding == ["b2"]
    await end(waiting[2])
    assert slots.free == 1


async def test_those_behind_one_that_stopped_waiting_are_admitted() -> None:
    slots = FairSlots(2)
    holders = Holders(slots)
    first = await holders.start("a", "a1")
    await end(await holders.start("a", "a2"))
    await end(first)
    task = await holders.start("a", "a3")
    assert holders.holding == ["a3"]
    await end(task)


async def test_a_slot_given_to_a_task_that_is_cancelled_is_free_again() -> None:
    slots = FairSlots(1)
    holders = Holders(slots)
    assert slots.try_take("a")
    waiting = await holders.start("b", "b1")
    slots.give_back("a")
    await end(waiting)
    assert (slots.free, holders.holding) == (1, [])


async def test_tasks_belong_to_the_flow_of_the_task_that_starts_them() -> None:
    async def current() -> Hashable:
        return flows.current()

    async def start() -> Hashable:
        return await asyncio.create_task(current())

    assert await flows.run("a", start) == "a"
    assert await start() == OWN
    with flows.of(None):
        assert await start() == OWN


class CountedFlow:
    """A flow that counts how often its slots are looked up."""

    lookups = 0

    def __hash__(self) -> int:
        CountedFlow.lookups += 1
        return id(self)


async def test_a_slot_is_handed_over_without_a_look_at_all_that_wait() -> None:
    slots, many = FairSlots(16, of_own=1), 1000

    async def hold() -> None:
        async with slots.hold(CountedFlow()):
            await asyncio.sleep(0)

    CountedFlow.lookups = 0
    await asyncio.gather(*(hold() for _ in range(many)))
    assert CountedFlow.lookups < 100 * many


async def test_who_has_a_shared_lock_is_the_agent_itself() -> None:
    lock, seen = SharedLock(), list[Hashable]()

    async def work() -> Hashable:
        async with lock:
            seen.append(flows.current())
            await asyncio.sleep(1.0)
        return flows.current()

    tasks = [asyncio.create_task(flows.run(flow, work)) for flow in ("a", "b", "c")]
    await let_others_run()
    tasks[0].cancel()
    tasks[1].cancel()
    assert (await asyncio.gather(*tasks, return_exceptions=True))[2] == "c"
    assert seen == [OWN, OWN]
    assert not lock.locked()
    assert flows.current() == OWN
