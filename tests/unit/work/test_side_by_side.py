"""run_side_by_side: how many at once, in which order they are told, and how failing ends."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from karmada_vc_agent.work.execution import CONCURRENT_MANIFESTS, run_concurrently
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
    assert await run_concurrently([]) == []


async def test_answers_come_in_the_order_of_the_calls(calls: Calls) -> None:
    running = asyncio.ensure_future(run_concurrently([calls.call(n) for n in range(3)]))
    for number in (2, 0, 1):
        await let_others_run()
        calls.finish(number)
    assert await running == [0, 1, 2]
    assert calls.done == [2, 0, 1]


async def test_a_work_has_so_many_at_once(calls: Calls) -> None:
    numbers = range(20)
    running = asyncio.ensure_future(run_concurrently([calls.call(n) for n in numbers]))
    await let_others_run()
    assert len(calls.under_way) == CONCURRENT_MANIFESTS
    calls.finish()
    assert await running == list(numbers)


async def test_first_error_is_raised_and_who_waits_is_left(calls: Calls) -> None:
    numbers = range(CONCURRENT_MANIFESTS, 10)
    running = asyncio.ensure_future(
        run_concurrently(
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
    assert sorted(calls.done) == list(range(CONCURRENT_MANIFESTS))
    assert not set(numbers) & set(calls.done)


async def test_who_is_cancelled_leaves_nothing_behind(calls: Calls) -> None:
    running = asyncio.ensure_future(run_concurrently([calls.call(n) for n in range(8)]))
    await let_others_run()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert calls.under_way == set()
