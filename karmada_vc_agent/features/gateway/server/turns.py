"""Fair queuing of the loop: what is long to compute is done in small parts.

What a virtual cluster costs is measured: the time that its requests compute. The one with the least
of late is next, and one that used more than its share waits while another one, that did not, has a
request in progress that had a slot lately. A virtual cluster alone never waits, nor does one for a
request that waits for its client or for the host.
"""

import asyncio
import math
import time
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from functools import partial
from typing import Any, TypeVar

SLICE_S = 0.005
"""How long one request may compute before others get a slot."""
SHARE = 0.25
"""Of the loop's time: what a virtual cluster may use lately without waiting for others."""
LATELY_S = 1.0
"""After this time, what was used counts as 1/e of it."""
LEAST_S = 0.0001
"""What a slot costs at least."""
PAUSE_S = 0.005
"""How often it is looked whether those that used more than their share may go on."""

Out = TypeVar("Out")


class FairScheduler:
    """Grants slots, one in each round of the loop, by the time that virtual clusters used.

    active: those with a request in progress. used: virtual cluster -> seconds, ever.
    """

    def __init__(
        self,
        active: Callable[[], Iterable[str]] = tuple,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._active = active
        self._clock = clock
        self._last_slot: dict[str, float] = {}
        self.used: dict[str, float] = {}
        self._recent: dict[str, tuple[float, float]] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._is_granting = False
        self._again: asyncio.TimerHandle | None = None

    def spend(self, cluster: str, seconds: float) -> None:
        """Take note of what a virtual cluster used."""
        self.used[cluster] = self.used.get(cluster, 0.0) + seconds
        self._recent[cluster] = self._lately(cluster) + seconds, self._clock()

    def forget(self, cluster: str) -> None:
        """Let go of a virtual cluster that is no longer served."""
        self.used.pop(cluster, None)
        self._recent.pop(cluster, None)
        self._last_slot.pop(cluster, None)

    @types.coroutine
    def measured(self, cluster: str, request: Coroutine[Any, Any, Out]) -> Generator[Any, Any, Out]:
        """Run what answers a request, and count the time that it computes between its waits."""
        step: Callable[[], Any] = partial(request.send, None)
        while True:
            began = self._clock()
            try:
                waits_for = step()
            except StopIteration as ended:
                result: Out = ended.value
                return result
            finally:
                self.spend(cluster, self._clock() - began)
            try:
                step = partial(request.send, (yield waits_for))
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is the request's
                step = partial(request.throw, error)

    async def wait(self, cluster: str) -> None:
        """Wait for a slot; the first one in a round is free at once."""
        is_first = not (self._is_granting or self._waiting or self._is_held_back(cluster))
        self._grant_soon()
        if not is_first:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(cluster, deque()).append(waiter)
            await waiter
            self.spend(cluster, LEAST_S)
        self._last_slot[cluster] = self._clock()

    def _lately(self, cluster: str) -> float:
        amount, at = self._recent.get(cluster) or (0, 0)
        return amount * math.exp((at - self._clock()) / LATELY_S)

    def _is_held_back(self, cluster: str) -> bool:
        """Whether it used more than its share, and an active one that did not had a slot lately.

        Others that still wait for one, and used less, are next anyway.
        """
        share, since = SHARE * LATELY_S, self._clock() - LATELY_S
        return self._lately(cluster) > share and any(
            self._lately(other) <= share and self._last_slot.get(other, -math.inf) > since
            for other in self._active()
        )

    def _grant_soon(self) -> None:
        if not self._is_granting:
            self._is_granting = True
            asyncio.get_running_loop().call_soon(self._grant)

    def _grant(self) -> None:
        self._is_granting = False
        for cluster in sorted(self._waiting, key=self._lately):
            if self._is_held_back(cluster):  # as are all who used more
                self._look_again()
                return
            if self._give_slot(cluster):
                self._grant_soon()
                return

    def _give_slot(self, cluster: str) -> bool:
        """Give a slot to the request that waited longest; return whether it was granted."""
        waiters = self._waiting[cluster]
        is_given = False
        while waiters and not is_given:
            waiter = waiters.popleft()
            if not waiter.done():  # it may be cancelled
                waiter.set_result(None)
                is_given = True
        if not waiters:
            del self._waiting[cluster]
        return is_given

    def _look_again(self) -> None:
        if self._again is None:
            self._again = asyncio.get_running_loop().call_later(PAUSE_S, self._look)

    def _look(self) -> None:
        self._again = None
        self._grant_soon()


async def next_round() -> None:
    """Let all others run once."""
    await asyncio.sleep(0)


class TimeSlice:
    """The time that one request may compute at once. wait: waits for a slot."""

    def __init__(self, wait: Callable[[], Awaitable[None]] = next_round) -> None:
        self._wait = wait
        self._since = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether it is used up."""
        return time.monotonic() - self._since > SLICE_S

    async def begin(self) -> None:
        """Wait for a slot, after waiting for something else."""
        await self._wait()
        self._since = time.monotonic()

    async def rest(self) -> None:
        """Let others run, if it is used up."""
        if self.is_over:
            await self.begin()
