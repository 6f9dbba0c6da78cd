"""An event loop whose clock jumps to the next timer as soon as nothing else can happen.

Sockets are real: where some are open, a jump waits a moment for bytes that are under way
between two ends of this process.
"""

import asyncio
import selectors
from selectors import SelectorKey

BYTES_ARRIVE_S = 0.01
"""How long a quiet loop with sockets waits, in real time, before its clock jumps."""


class _Selector(selectors.DefaultSelector):
    """Turns waiting for a timer into a jump of the clock."""

    jumped_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:
            return super().select(None)
        has_sockets = len(self.get_map()) > 1  # one is the loop's own
        ready = super().select(BYTES_ARRIVE_S) if has_sockets else []
        if not ready:
            self.jumped_s += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`loop.time()` starts at 1000 and moves only when everybody waits for it."""

    def __init__(self) -> None:
        self._jumps = _Selector()
        super().__init__(self._jumps)

    def time(self) -> float:
        return 1000.0 + self._jumps.jumped_s


class Clock:
    """A clock that a test moves by hand."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


async def let_others_run(rounds: int = 20) -> None:
    """Give every task that can go on now its turn, without moving the clock."""
    for _ in range(rounds):
        await asyncio.sleep(0)
