"""Loop time: how long each flow computes in the event loop, and which exceed their share.

Whatever a flow requests, the loop computes one step at a time, and a step in progress delays all
others. So what counts is the time of steps, measured; nothing needs a list of what is expensive.
"""

import math
import time
import types
from collections.abc import Callable, Coroutine, Generator, Hashable
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from karmada_vc_agent.kube import flows

T = TypeVar("T")

DECAY_S = 1.0
"""After this time, what was used counts as 1/e of it."""
REPORTED_EVERY_S = 60.0


class LoopTime:
    """The time that flows compute in the event loop.

    share_of: flow -> seconds of each second that it may compute while others wait; 0 = no bound,
    None = a flow that is not counted.
    on_held: called with a flow that waits for others, at most once in REPORTED_EVERY_S.
    """

    def __init__(
        self,
        share_of: Callable[[Hashable], float | None],
        on_held: Callable[[Hashable], None] = lambda _: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._share_of = share_of
        self._on_held = on_held
        self._clock = clock
        self._recent: dict[Hashable, tuple[float, float]] = {}
        self._reported_at: dict[Hashable, float] = {}
        self.used: dict[Hashable, float] = {}

    def spend(self, flow: Hashable, seconds: float) -> None:
        """Add what a flow computed."""
        if self._share_of(flow) is None:
            return
        self.used[flow] = self.used.get(flow, 0.0) + seconds
        self._recent[flow] = self.recent(flow) + seconds, self._clock()

    def recent(self, flow: Hashable) -> float:
        """Return the seconds that a flow computed lately: the more recent, the more they count."""
        seconds, at = self._recent.get(flow) or (0.0, 0.0)
        return seconds * math.exp((at - self._clock()) / DECAY_S)

    def is_over(self, flow: Hashable) -> bool:
        """Whether a flow lately computed more than its share."""
        share = self._share_of(flow) or 0.0
        return share > 0 and self.recent(flow) > share * DECAY_S

    def held(self, flow: Hashable) -> None:
        """Report that a flow waits, because it exceeds its share and others are active."""
        now = self._clock()
        if now - self._reported_at.get(flow, -math.inf) >= REPORTED_EVERY_S:
            self._reported_at[flow] = now
            self._on_held(flow)

    def forget(self, flow: Hashable) -> None:
        """Drop a flow that ended."""
        for kept in (self.used, self._recent, self._reported_at):
            kept.pop(flow, None)

    @types.coroutine
    def measured(self, flow: Hashable, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Run work and count the time that it computes between its waits."""
        step: Callable[[], Any] = partial(work.send, None)
        while True:
            began = self._clock()
            try:
                waits_for = step()
            except StopIteration as ended:
                result: T = ended.value
                return result
            finally:
                self.spend(flow, self._clock() - began)
            try:
                step = partial(work.send, (yield waits_for))
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is meant for work
                step = partial(work.throw, error)


_meter: ContextVar[LoopTime | None] = ContextVar("loop_time", default=None)


def measure_with(meter: LoopTime) -> None:
    """Have this task, and those that it starts, measured from now on where they say so."""
    _meter.set(meter)


async def measured(work: Coroutine[Any, Any, T]) -> T:
    """Run work of the current flow; measured, unless nothing measures this task."""
    meter = _meter.get()
    if meter is None:
        return await work
    return await meter.measured(flows.current(), work)
