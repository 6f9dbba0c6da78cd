"""Limits the number of open watches; beyond it, they share slots in time.

A watch whose slot ended resumes later from its last version, so no event is lost, only delayed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

OPEN_AT_LEAST_S = 5.0
"""A watch is open for at least this long before another one may take its slot."""
CHECK_S = 1.0


class WatchSlot:
    """One watch that is open or being opened."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.is_over = False
        self._close: Callable[[], None] = lambda: None

    def opened(self, close: Callable[[], None]) -> None:
        """Set how the watch is closed once its slot ends."""
        self._close = close
        if self.is_over:
            close()

    def end(self) -> None:
        """Close the watch, since others wait."""
        self.is_over = True
        self._close()


class WatchSlots:
    """Limits open watches; ends the oldest ones while others wait."""

    def __init__(self, limit: int) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._open: dict[WatchSlot, None] = {}
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def take(self) -> AsyncIterator[WatchSlot]:
        """Wait for a slot, and hold it."""
        loop = asyncio.get_running_loop()
        self._waiting += 1
        self._set_timer()
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        slot = WatchSlot(loop.time())
        self._open[slot] = None
        try:
            yield slot
        finally:
            del self._open[slot]
            self._slots.release()

    def _set_timer(self) -> None:
        if self._timer is None and self._slots.locked():
            self._timer = asyncio.get_running_loop().call_later(CHECK_S, self._end_oldest)

    def _end_oldest(self) -> None:
        """End as many watches as others wait for, the oldest first, each after its minimum time."""
        self._timer = None
        loop = asyncio.get_running_loop()
        ending = sum(slot.is_over for slot in self._open)
        due = loop.time() - OPEN_AT_LEAST_S
        old = [slot for slot in self._open if not slot.is_over and slot.since <= due]
        for slot in old[: max(0, self._waiting - ending)]:
            slot.end()
        if self._waiting:
            self._timer = loop.call_later(CHECK_S, self._end_oldest)
