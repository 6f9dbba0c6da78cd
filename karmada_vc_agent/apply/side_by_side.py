"""Runs several tasks of one virtual cluster concurrently, with a limit."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

MORE_AT_ONCE = 4
"""Manifests that a virtual cluster applies concurrently to the first one of each of its Works.

With half of the default workers (3) that is 7 of the 16 connections to the host, so slow writes of
one virtual cluster leave the others their half (ADR 21).
"""


class SideBySide:
    """Limits the concurrency of each virtual cluster."""

    def __init__(self) -> None:
        self._busy: Counter[str] = Counter()

    async def run(self, cluster: str, calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
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

        more = max(0, min(len(calls) - 1, MORE_AT_ONCE - self._busy[cluster]))
        self._busy[cluster] += more
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(more):
                    group.create_task(work())
                await work()
        finally:
            self._busy[cluster] -= more
            self._busy += Counter()  # drops entries at zero
        if errors:
            raise errors[min(errors)]
        return [results[place] for place in range(len(calls))]
