"""Runs several tasks of one Work concurrently, with a limit."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 5
"""Manifests of a Work that are applied concurrently.

It bounds tasks, not requests: those are divided among virtual clusters by kube/flows.py.
"""


async def run_side_by_side(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Return the results of calls in their order.

    If one fails, those not started are dropped, and those in progress are awaited: their writes
    must not be in doubt. Then the first error, in order, is raised.
    """
    if len(calls) == 1:  # the common case, without any task
        return [await calls[0]()]
    waiting = iter(enumerate(calls))
    results: dict[int, T] = {}
    errors: dict[int, Exception] = {}

    async def work() -> None:
        for place, call in waiting:
            try:
                results[place] = await call()
            except Exception as error:  # noqa: BLE001 - raised below
                errors[place] = error
            if errors:
                return

    async with asyncio.TaskGroup() as group:
        for _ in calls[1:AT_ONCE]:
            group.create_task(work())
        await work()
    if errors:
        raise errors[min(errors)]
    return [results[place] for place in range(len(calls))]
