"""A token bucket: a rate of requests, and a burst, that flows share."""

import asyncio
from collections.abc import Callable

from karmada_vc_agent.kube.flows import FairSlots


class TokenBucket:
    """Lets callers pass, those that wait of each flow in rotation; qps <= 0 means no limit."""

    def __init__(self, qps: float, burst: int, clock: Callable[[], float]) -> None:
        self._qps = qps
        self._burst = max(burst, 1)
        self._clock = clock
        self._tokens = float(self._burst)
        self._updated = clock()
        self._next: FairSlots | None = None

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
        if self._qps <= 0:
            return
        if self._next is None:  # few buckets are waited for
            self._next = FairSlots(1)
        async with self._next.hold():
            delay_s = self.reserve()
            if delay_s > 0:
                await asyncio.sleep(delay_s)
