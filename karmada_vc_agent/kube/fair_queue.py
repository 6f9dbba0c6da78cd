"""A queue that flows share fairly, each with one item at a time in progress."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items that wait, in order within their flow. most: of all flows; most_of_one: of each."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._waiting: OrderedDict[Hashable, deque[T]] = OrderedDict()
        self._busy: set[Hashable] = set()
        self._length = 0
        self._has_changed = asyncio.Event()

    def __len__(self) -> int:
        return self._length

    def try_add(self, flow: Hashable, item: T) -> bool:
        """Add an item unless there are too many already, in total or in this flow."""
        items = self._waiting.get(flow, ())
        if self._length >= self._most or len(items) >= self._most_of_one:
            return False
        self._waiting.setdefault(flow, deque()).append(item)
        self._length += 1
        self._has_changed.set()
        return True

    def pop(self) -> tuple[Hashable, T] | None:
        """Return the next item and its flow, None if there is none; `done` must follow."""
        flow = next((flow for flow in self._waiting if flow not in self._busy), None)
        if flow is None:
            return None
        items = self._waiting[flow]
        item = items.popleft()
        self._length -= 1
        self._busy.add(flow)
        if items:
            self._waiting.move_to_end(flow)
        else:
            del self._waiting[flow]
        return flow, item

    def done(self, flow: Hashable) -> None:
        """Let another item of a flow be returned."""
        self._busy.discard(flow)
        self._has_changed.set()

    async def wait(self) -> None:
        """Wait until `pop` returns an item."""
        while all(flow in self._busy for flow in self._waiting):
            self._has_changed.clear()
            await self._has_changed.wait()
