"""Limits the number of open watches; beyond it, they take turns.

A watch whose turn ended resumes later from its last version, so no event is lost, only delayed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

TURN_S = 5.0
"""How long a watch may be open at least before it makes room for another one."""
LOOK_S = 1.0


class Turn:
    """One watch that is open or being opened."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.is_over = False
        self._close: Callable[[], None] = lambda: None

    def opened(self, close: Callable[[], None]) -> None:
        """Set how the watch is closed once its turn is over."""
        self._close = close
        if self.is_over:
            close()

    def end(self) -> None:
        """Close the watch, since others wait."""
        self.is_over = True
        self._close()


class WatchTurns:
    """Limits concurrent turns; ends the oldest ones while others wait."""

    def __init__(self, limit: int) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._open: dict[Turn, None] = {}
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def take(self) -> AsyncIterator[Turn]:
        """Wait for a turn, and hold it."""
        loop = asyncio.get_running_loop()
        self._waiting += 1
        self._set_timer()
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        turn = Turn(loop.time())
        self._open[turn] = None
        try:
            yield turn
        finally:
            del self._open[turn]
            self._slots.release()

    def _set_timer(self) -> None:
        if self._timer is None and self._slots.locked():
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._make_room)

    def _make_room(self) -> None:
        """End as many turns as others wait for, the oldest first, each after its minimum time."""
        self._timer = None
        loop = asyncio.get_running_loop()
        ending = sum(turn.is_over for turn in self._open)
        due = loop.time() - TURN_S
        old = [turn for turn in self._open if not turn.is_over and turn.since <= due]
        for turn in old[: max(0, self._waiting - ending)]:
            turn.end()
        if self._waiting:
            self._timer = loop.call_later(LOOK_S, self._make_room)
