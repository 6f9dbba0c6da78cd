"""Lets others have their turn: what is long to compute is done in small parts.

Whatever a virtual cluster asks at once, it computes one thing in each round of the loop: what
others wait for is the number of virtual clusters, not that of requests.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

TURN_S = 0.005
"""How long one request may compute before others get their turn."""


class FairTurns:
    """Deals turns: one to each virtual cluster in each round of the loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._had: set[str] = set()
        self._is_dealing = False

    async def turn(self, cluster: str) -> None:
        """Wait for a turn; there is no waiting for the first one in a round."""
        if cluster not in self._had and cluster not in self._waiting:
            self._had.add(cluster)
            self._deal_soon()
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(cluster, deque()).append(waiter)
        self._deal_soon()
        await waiter

    def _deal_soon(self) -> None:
        if not self._is_dealing:
            self._is_dealing = True
            asyncio.get_running_loop().call_soon(self._deal)

    def _deal(self) -> None:
        self._is_dealing = False
        self._had.clear()
        for cluster, waiters in list(self._waiting.items()):
            while waiters:
                waiter = waiters.popleft()
                if not waiter.done():  # who waited may be gone
                    waiter.set_result(None)
                    self._had.add(cluster)
                    break
            if not waiters:
                del self._waiting[cluster]
        if self._had:
            self._deal_soon()


async def next_round() -> None:
    """Let all others run once."""
    await asyncio.sleep(0)


class Turns:
    """The turns of one request. turn: waits for one."""

    def __init__(self, turn: Callable[[], Awaitable[None]] = next_round) -> None:
        self._turn = turn
        self._since = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether it is the turn of others."""
        return time.monotonic() - self._since > TURN_S

    async def begin(self) -> None:
        """Wait for a turn, after waiting for something else."""
        await self._turn()
        self._since = time.monotonic()

    async def rest(self) -> None:
        """Let others run, if it is their turn."""
        if self.is_over:
            await self.begin()
