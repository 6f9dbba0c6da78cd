"""Memory budget for what is large: one thing of each virtual cluster, and a few of all.

A gateway has 512 MiB. What is below LARGE_BYTES needs none: of it, a virtual cluster has as many
as it may have requests.

A reservation for a client that reads slowly is lent to others meanwhile, so that slow clients of
some virtual clusters keep no others out. What lent reservations hold is bounded, too: where it is
too much, the one whose client read nothing for the longest time is cut.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from karmada_vc_agent.features.gateway.server.statuses import RefusalError

LARGE_BYTES = 256 * 1024
LARGE_AT_ONCE = 3
"""Of all virtual clusters. Each has one that waits at most, so they alternate."""
WAIT_S = 20.0
"""How long to wait for memory, then 429."""
HELD_S = 60.0
"""How long to have it without any progress: an answer that a client does not read ends then."""
SLOW_S = 1.0
"""How long a client may keep others waiting."""
LENT_BYTES = 64 * 2**20
"""What those hold that lent their places."""
_PARTS = bytes(range(32)) + b"{[,:"
"""What begins a value in JSON or YAML, or is short in protobuf."""
_PART_BYTES = 80


def held_bytes(body: bytes) -> int:
    """Return about what a body takes once it is read; tiny maps take 30 times their JSON."""
    return len(body) + _PART_BYTES * (len(body) - len(body.translate(None, _PARTS)))


class Reservation:
    """Memory for one large thing. size: what it holds, in bytes.

    bound: when it ends.
    """

    def __init__(self, budget: "MemoryBudget", bound: asyncio.Timeout) -> None:
        self._budget = budget
        self._bound = bound
        self._is_lent = False
        self.size = LARGE_BYTES

    def extend(self) -> None:
        """Take note of progress: there is time for more."""
        until = asyncio.get_running_loop().time() + self._budget.held_s
        if self._bound.when() is not None and not self._bound.expired():
            self._bound.reschedule(until)

    def end(self) -> None:
        """Have it end at once."""
        if not self._bound.expired():
            self._bound.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def lent_if_slow(self) -> AsyncIterator[None]:
        """Wait for a client; others may have the place if that takes long.

        Raises RefusalError: 429 where it is not to be had again.
        """
        timer = asyncio.get_running_loop().call_later(self._budget.slow_s, self._lend)
        try:
            yield
        finally:
            timer.cancel()
        self.extend()
        if self._is_lent:
            await self._budget.take()
            self._is_lent = False
            self._budget.lent.remove(self)

    def leave(self) -> None:
        """Give it back."""
        if self._is_lent:
            self._budget.lent.remove(self)
        else:
            self._budget.give()

    def _lend(self) -> None:
        self._is_lent = True
        self._budget.lent.append(self)
        self._budget.give()
        self._budget.bound_lent()


class MemoryBudget:
    """Lets large things in, one after the other. lent: places that are lent, the oldest first."""

    def __init__(
        self,
        at_once: int = LARGE_AT_ONCE,
        wait_s: float = WAIT_S,
        held_s: float = HELD_S,
        slow_s: float = SLOW_S,
        lent_bytes: int = LENT_BYTES,
    ) -> None:
        self._wait_s = wait_s
        self.held_s = held_s
        self.slow_s = slow_s
        self._lent_bytes = lent_bytes
        self._of_all = asyncio.Semaphore(at_once)
        self._of_cluster: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.lent: list[Reservation] = []

    @asynccontextmanager
    async def reserved(self, cluster: str) -> AsyncIterator[Reservation]:
        """Reserve memory for one large thing. Raises RefusalError: 429; 504 if held too long."""
        own = self._of_cluster.setdefault(cluster, asyncio.Lock())
        await _patient(own, self._wait_s)
        try:
            await self.take()
            bound = asyncio.timeout(self.held_s)
            place = Reservation(self, bound)
            try:
                async with bound:
                    yield place
            except TimeoutError as error:
                text = "what is large was not sent or read in time"
                raise RefusalError(504, text, counted="large-late") from error
            finally:
                place.leave()
        finally:
            own.release()

    async def take(self) -> None:
        """Take one of the places of all. Raises RefusalError: 429."""
        await _patient(self._of_all, self._wait_s)

    def give(self) -> None:
        """Give one of the places of all back."""
        self._of_all.release()

    def bound_lent(self) -> None:
        """End those who lent their places for the longest time, if all hold too much."""
        held = sum(place.size for place in self.lent)
        for place in self.lent:
            if held <= self._lent_bytes:
                return
            place.end()
            held -= place.size


async def _patient(lock: asyncio.Lock | asyncio.Semaphore, wait_s: float) -> None:
    try:
        async with asyncio.timeout(wait_s):
            await lock.acquire()
    except TimeoutError as error:
        text = "too many large requests at once; try again"
        raise RefusalError(429, text, counted="too-many-large") from error
