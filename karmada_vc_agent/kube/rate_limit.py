"""A token bucket: a rate of requests, and a burst."""

import asyncio
from collections.abc import Callable

from karmada_vc_agent.kube.flows import FairSlots


class TokenBucket:
    """Lets callers pass in order; qps <= 0 means no limit."""

    def __init__(self, qps: float, burst: int, clock: Callable[[], float]) -> None:
        self._qps = qps
        self._burst = max(burst, 1)
        self._clock = clock
        self._tokens = float(self._burst)
        self._updated = clock()

    def reserve(self) -> float:
        """Take one token and return the seconds to wait before using it."""
        if self._qps <= 0:
            return 0.0
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._updated) * self._qps)
        self._updated = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._qps)

    def try_take(self) -> bool:
        """Take one token if there is one now."""
        if self.reserve() <= 0:
            return True
        self.give_back()
        return False

    def give_back(self) -> None:
        """Return a token that was reserved and is not used."""
        self._tokens += 1.0

    def try_take_or_owe(self) -> bool:
        """Take one token, or owe it, up to a burst: a flow above the rate gets none at all."""
        if self.reserve() <= 0:
            return True
        self._tokens = max(self._tokens, -float(self._burst))
        return False

    async def wait(self) -> None:
        """Take one token and sleep until it may be used."""
        delay_s = self.reserve()
        if delay_s > 0:
            await asyncio.sleep(delay_s)


class FairRate:
    """A token bucket that flows share: waiters of each get its tokens in rotation."""

    def __init__(self, qps: float, burst: int, clock: Callable[[], float]) -> None:
        self._bucket = TokenBucket(qps, burst, clock) if qps > 0 else None
        self._next = FairSlots(1)

    async def wait(self) -> None:
        """Take one token and sleep until it may be used."""
        if self._bucket is not None:
            async with self._next.hold():
                await self._bucket.wait()
