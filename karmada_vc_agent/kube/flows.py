"""Fair queuing: shares what is limited among flows; here, a flow is a virtual cluster.

The flow of a task is set where its work begins, such as by a controller for each key, and tasks
that it starts inherit it. So whatever is limited divides itself, and no caller computes a share.

A flow may hold no more than is free at that time: the first one gets half, the next one half of the
rest. What is held cannot be taken back, so this holds in advance, before another flow waits. Of 16
slots four slow flows hold 15; a fifth one waits, while the last slot is of the agent itself.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, Token
from typing import TypeVar

T = TypeVar("T")

OWN = ""
"""The flow of what the agent does for itself."""

_flow: ContextVar[Hashable] = ContextVar("flow", default=OWN)


def current() -> Hashable:
    """Return the flow of the running task."""
    return _flow.get()


@contextmanager
def of(flow: Hashable) -> Iterator[None]:
    """Have this task, and those that it starts, belong to a flow."""
    token = _flow.set(flow or OWN)
    try:
        yield
    finally:
        _flow.reset(token)


async def run(flow: Hashable, work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of work for a flow."""
    with of(flow):
        return await work()


class SharedLock(asyncio.Lock):
    """A lock of several flows. What is done under it is of the agent itself.

    Otherwise all that wait for the lock would wait for a slot of the one flow that holds it.
    """

    _token: Token[Hashable]

    async def __aenter__(self) -> None:
        await super().__aenter__()
        self._token = _flow.set(OWN)

    async def __aexit__(self, *exc: object) -> None:
        _flow.reset(self._token)
        self.release()


class FairSlots:
    """A semaphore that flows share: waiters of each in rotation, and the agent itself after any.

    is_shared: whether there are several virtual clusters. One that is alone may hold all slots but
    one, as the agent itself always may. of_own: slots that only the agent itself may take.
    """

    def __init__(
        self, total: int, is_shared: Callable[[], bool] = lambda: True, of_own: int = 0
    ) -> None:
        self._free = total
        self._is_shared = is_shared
        self._of_own = of_own
        self._held: Counter[Hashable] = Counter()
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def free(self) -> int:
        """Return the number of free slots."""
        return self._free

    @asynccontextmanager
    async def hold(self, flow: Hashable | None = None) -> AsyncIterator[None]:
        """Wait for a slot and hold it; flow: None = that of the running task."""
        flow = current() if flow is None else flow
        if flow in self._waiting or not self.try_take(flow):
            await self._wait(flow)
        try:
            yield
        finally:
            self.give_back(flow)

    def try_take(self, flow: Hashable) -> bool:
        """Take a slot if the flow may have one now; `give_back` must follow."""
        if not self._may_take(flow):
            return False
        self._free -= 1
        self._held[flow] += 1
        return True

    def give_back(self, flow: Hashable) -> None:
        """Give a slot back that `try_take` returned True for."""
        self._free += 1
        self._held[flow] -= 1
        if not self._held[flow]:
            del self._held[flow]
        self._admit()

    def _may_take(self, flow: Hashable) -> bool:
        held = self._held[flow]
        if flow == OWN:
            return self._free > min(held, 1)
        return self._free > max(held if self._is_shared() else min(held, 1), self._of_own)

    async def _wait(self, flow: Hashable) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(flow, deque()).append(future)
        self._admit()  # those in front may have been cancelled
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.give_back(flow)
            raise

    def _admit(self) -> None:
        """Admit waiters, one of each flow in rotation, and the agent itself after any of them."""
        while (flow := self._next()) is not None:
            futures = self._waiting[flow]
            future = futures.popleft()
            if futures:
                self._waiting.move_to_end(flow)
            else:
                del self._waiting[flow]
            if flow != OWN and OWN in self._waiting:
                self._waiting.move_to_end(OWN, last=False)
            if not future.cancelled() and self.try_take(flow):
                future.set_result(None)

    def _next(self) -> Hashable | None:
        """Return the next flow; there may be a thousand, of which none may take one."""
        is_left = self._free > self._of_own
        waiting = self._waiting if is_left else self._waiting.keys() & {OWN}
        return next(filter(self._may_take, waiting), None)
