"""SideBySide: how many at once, in which order they are told, and how failing ends."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from karmada_vc_agent.apply.side_by_side import MORE_AT_ONCE, SideBySide
from tests.fakes.virtual_time import let_others_run


class Calls:
    """Calls that wait until they are let go."""

    def __init__(self) -> None:
        self.under_way: set[int] = set()
        self.done: list[int] = []
        self.gates: dict[int, asyncio.Event] = {}

    def call(self, number: int, error: Exception | None = None) -> Callable[[], Awaitable[int]]:
        self.gates[number] = asyncio.Event()

        async def wait() -> int:
            self.under_way.add(number)
            try:
                await self.gates[number].wait()
            finally:
                self.under_way.remove(number)
            self.done.append(number)
            if error is not None:
                raise error
            return number

        return wait

    def finish(self, *numbers: int) -> None:
        for number in numbers or self.gates:
            self.gates[number].set()


@pytest.fixture
def calls() -> Calls:
    return Calls()


async def test_nothing_is_done_at_once() -> None:
    assert await SideBySide().run("a", []) == []


async def test_answers_come_in_the_order_of_the_calls(calls: Calls) -> None:
    running = asyncio.ensure_future(SideBySide().run("a", [calls.call(n) for n in range(3)]))
    for number in (2, 0, 1):
        await let_others_run()
        calls.finish(number)
    assert await running == [0, 1, 2]
    assert calls.done == [2, 0, 1]


async def test_a_virtual_cluster_has_so_many_beside_the_first_of_each_work(calls: Calls) -> None:
    side_by_side = SideBySide()
    numbers = range(20)
    first = asyncio.ensure_future(side_by_side.run("a", [calls.call(n) for n in numbers]))
    await let_others_run()
    assert len(calls.under_way) == 1 + MORE_AT_ONCE
    second = asyncio.ensure_future(side_by_side.run("a", [calls.call(n) for n in (20, 21)]))
    other = asyncio.ensure_future(side_by_side.run("b", [calls.call(n) for n in (30, 31)]))
    await let_others_run()
    assert calls.under_way >= {20, 30, 31}
    assert 21 not in calls.under_way
    calls.finish()
    assert await first == list(numbers)
    assert (await second, await other) == ([20, 21], [30, 31])
    again = asyncio.ensure_future(side_by_side.run("a", [calls.call(n) for n in numbers]))
    await let_others_run()
    assert len(calls.under_way) == 1 + MORE_AT_ONCE
    calls.finish()
    await again


async def test_first_error_is_raised_and_who_waits_is_left(calls: Calls) -> None:
    numbers = range(1 + MORE_AT_ONCE, 10)
    running = asyncio.ensure_future(
        SideBySide().run(
            "a",
            [
                calls.call(0),
                calls.call(1, ValueError("second")),
                calls.call(2, ValueError("third")),
                *(calls.call(n) for n in range(3, 10)),
            ],
        )
    )
    await let_others_run()
    calls.finish(2)
    await let_others_run()
    assert not running.done()
    calls.finish()
    with pytest.raises(ValueError, match="second"):
        await running
    assert sorted(calls.done) == list(range(1 + MORE_AT_ONCE))
    assert not set(numbers) & set(calls.done)


async def test_who_is_cancelled_leaves_nothing_behind(calls: Calls) -> None:
    side_by_side = SideBySide()
    running = asyncio.ensure_future(side_by_side.run("a", [calls.call(n) for n in range(8)]))
    await let_others_run()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert calls.under_way == set()
    assert side_by_side._busy == {}
