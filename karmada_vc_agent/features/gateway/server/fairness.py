"""Shares requests, memory and time among virtual clusters.

Memory: one large thing of each virtual cluster, and a few of all; below LARGE_BYTES none is
reserved. A reservation for a client that reads slowly is lent to others, so that slow clients keep
no others out; where lent ones hold too much, the oldest of the one with most is cut. Time: what is
long to compute is done in small parts. Who used least lately is next, and who used more than its
share waits while another one, that did not, has a request in progress (ADR 64).
"""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from weakref import WeakValueDictionary

from karmada_vc_agent.features.gateway.mapping.refusals import RefusalError
from karmada_vc_agent.kube import flows

SHORT_REQUESTS, LONG_REQUESTS = 200, 800
"""Requests at once; long: watches, logs that are followed, upgrades."""


class Limits:
    """Counts the requests in progress, which virtual clusters share. most_short, most_long: of all.

    files: the limit of open files. are_several: whether there are several virtual clusters.
    """

    def __init__(
        self,
        most_short: int = SHORT_REQUESTS,
        most_long: int = LONG_REQUESTS,
        files: int = flows.MOST_FILES,
        are_several: Callable[[], bool] = lambda: True,
    ) -> None:
        left = files - flows.RESERVED_FILES - flows.ENDPOINTS * flows.ENDPOINT_CONNECTIONS
        most = max(2, left // 2)  # a connection of the client, and one to the host, each
        short = min(most_short, most // 2)
        self._slots = {
            False: flows.FairSlots(short, are_several),
            True: flows.FairSlots(min(most_long, most - short), are_several),
        }

    @contextmanager
    def slot(self, cluster: str, *, is_long: bool) -> Iterator[None]:
        """Have a place while a request is in progress. Raises RefusalError."""
        if not self._slots[is_long].try_take(cluster):
            what = "watches and other long requests" if is_long else "requests"
            counted = "too-many-long" if is_long else "too-many"
            raise RefusalError(429, f"too many {what} at once; try again", counted=counted)
        try:
            yield
        finally:
            self._slots[is_long].give_back(cluster)

    def active(self) -> Iterator[str]:
        """Yield the virtual clusters that wait for an answer: watches wait for none."""
        return map(str, self._slots[False].held)

    def in_progress(self) -> dict[tuple[str, bool], int]:
        """Return (virtual cluster, whether long) -> requests now."""
        return {
            (str(cluster), is_long): count
            for is_long, slots in self._slots.items()
            for cluster, count in slots.held.items()
        }


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
    """Memory for one large thing. size: in bytes. bound: when it ends. is_ended: it was cut."""

    def __init__(self, budget: "MemoryBudget", cluster: str, bound: asyncio.Timeout) -> None:
        self._budget = budget
        self.cluster = cluster
        self._bound = bound
        self._is_lent = self.is_ended = False
        self.size = LARGE_BYTES

    def extend(self) -> None:
        """Take note of progress: there is time for more."""
        if self._bound.when() is not None and not self._bound.expired():
            self._bound.reschedule(asyncio.get_running_loop().time() + self._budget.held_s)
            self.is_ended = False

    def end(self) -> None:
        """Have it end at once."""
        if not self._bound.expired():
            self.is_ended = True
            self._bound.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def lent_if_slow(self, slow_s: float | None = None) -> AsyncIterator[None]:
        """Wait for a client, lending the place if that is slow. Raises RefusalError: 429."""
        timer = asyncio.get_running_loop().call_later(slow_s or self._budget.slow_s, self._lend)
        try:
            yield
        finally:
            timer.cancel()
        self.extend()
        if self._is_lent:
            await patient(self._budget.of_all, self._budget.wait_s)
            self._is_lent = False
            self._budget.lent.remove(self)

    def leave(self) -> None:
        """Give it back."""
        if self._is_lent:
            self._budget.lent.remove(self)
        else:
            self._budget.of_all.release()

    def _lend(self) -> None:
        self._is_lent = True
        self._budget.lent.append(self)
        self._budget.of_all.release()
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
        self.wait_s = wait_s
        self.held_s = held_s
        self.slow_s = slow_s
        self._lent_bytes = lent_bytes
        self.of_all = asyncio.Semaphore(at_once)
        self._of_cluster: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.lent: list[Reservation] = []

    @asynccontextmanager
    async def reserved(self, cluster: str, part: str = "") -> AsyncIterator[Reservation]:
        """Reserve memory. part: of many at once. Raises RefusalError: 429; 504 if held too long."""
        own = self._of_cluster.setdefault(part or cluster, asyncio.Lock())
        await patient(own, self.wait_s)
        try:
            await patient(self.of_all, self.wait_s)
            bound = asyncio.timeout(self.held_s)
            place = Reservation(self, cluster, bound)
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

    def bound_lent(self) -> None:
        """While all that lent their places hold too much, end the oldest of the largest."""
        left = [place for place in self.lent if not place.is_ended]
        while sum(place.size for place in left) > self._lent_bytes:
            held = Counter[str]()
            for place in left:
                held[place.cluster] += place.size
            (most, _), *_ = held.most_common(1)
            oldest = next(place for place in left if place.cluster == most)
            oldest.end()
            left.remove(oldest)


async def patient(lock: asyncio.Lock | asyncio.Semaphore, wait_s: float) -> None:
    """Wait for a place. Raises RefusalError: 429."""
    try:
        async with asyncio.timeout(wait_s):
            await lock.acquire()
    except TimeoutError as error:
        text = "too many large requests at once; try again"
        raise RefusalError(429, text, counted="too-many-large") from error


SLICE_S = 0.005
"""How long one request may compute before others get a slot."""
LEAST_S = 0.0001
"""What a slot costs at least."""
PAUSE_S = 0.005
"""How often it is checked whether those that used more than their share may go on."""


class FairScheduler:
    """Grants slots, one in each round of the loop, by the time that virtual clusters used.

    active: those with a request in progress. share_of: as LoopTime has it.
    """

    def __init__(
        self,
        active: Callable[[], Iterable[str]],
        share_of: Callable[[Hashable], float | None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._active = active
        self._clock = clock
        self.time = flows.LoopTime(share_of, clock=clock)
        self._last_slot: dict[str, float] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._is_granting = False
        self._again: asyncio.TimerHandle | None = None

    def forget(self, cluster: str) -> None:
        """Drop a virtual cluster that is no longer served."""
        self.time.forget(cluster)
        self._last_slot.pop(cluster, None)

    async def wait(self, cluster: str) -> None:
        """Wait for a slot; the first one in a round is free at once."""
        is_first = not (self._is_granting or self._waiting or self._is_held_back(cluster))
        self._grant_soon()
        if not is_first:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(cluster, deque()).append(waiter)
            await waiter
            self.time.spend(cluster, LEAST_S)
        self._last_slot[cluster] = self._clock()

    def _is_held_back(self, cluster: str) -> bool:
        """Whether it used more than its share, and an active one that did not had a slot lately.

        Others that still wait for one, and used less, are next anyway.
        """
        since = self._clock() - flows.DECAY_S
        return self.time.is_over(cluster) and any(
            not self.time.is_over(other) and self._last_slot.get(other, -math.inf) > since
            for other in self._active()
        )

    def _grant_soon(self) -> None:
        if not self._is_granting:
            self._is_granting = True
            asyncio.get_running_loop().call_soon(self._grant)

    def _check(self) -> None:
        self._again = None
        self._grant_soon()

    def _grant(self) -> None:
        self._is_granting = False
        for cluster in sorted(self._waiting, key=self.time.recent):
            if self._is_held_back(cluster):  # as are all who used more
                if self._again is None:
                    self._again = asyncio.get_running_loop().call_later(PAUSE_S, self._check)
                return
            waiters = self._waiting.pop(cluster)
            while waiters:
                waiter = waiters.popleft()
                if not waiter.done():  # it may be cancelled
                    waiter.set_result(None)
                    if waiters:
                        self._waiting[cluster] = waiters
                    self._grant_soon()
                    return


class TimeSlice:
    """The time that one request may compute at once. wait: waits for a slot, or one round."""

    def __init__(self, wait: Callable[[], Awaitable[None]] | None = None) -> None:
        self._wait = wait or partial(asyncio.sleep, 0)
        self._since = time.monotonic()

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self._since > SLICE_S

    async def begin(self) -> None:
        """Wait for a slot, after waiting for something else."""
        await self._wait()
        self._since = time.monotonic()

    async def rest(self) -> None:
        """Let others run, if it is used up."""
        if self.is_over:
            await self.begin()
