"""A queue whose turns alternate, each with one item at a time in progress."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class TurnQueue(Generic[T]):
    """Items that wait, in order within their turn. most: of all turns; most_of_one: of each."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._waiting: OrderedDict[Hashable, deque[T]] = OrderedDict()
        self._busy: set[Hashable] = set()
        self._length = 0
        self._has_changed = asyncio.Event()

    def __len__(self) -> int:
        return self._length

    def try_add(self, turn: Hashable, item: T) -> bool:
        """Add an item unless there are too many already, in total or in this turn."""
        items = self._waiting.get(turn, ())
        if self._length >= self._most or len(items) >= self._most_of_one:
            return False
        self._waiting.setdefault(turn, deque()).append(item)
        self._length += 1
        self._has_changed.set()
        return True

    def pop(self) -> tuple[Hashable, T] | None:
        """Return the next item and its turn, None if there is none; `done` must follow."""
        turn = next((turn for turn in self._waiting if turn not in self._busy), None)
        if turn is None:
            return None
        items = self._waiting[turn]
        item = items.popleft()
        self._length -= 1
        self._busy.add(turn)
        if items:
            self._waiting.move_to_end(turn)
        else:
            del self._waiting[turn]
        return turn, item

    def done(self, turn: Hashable) -> None:
        """Let another item of a turn be returned."""
        self._busy.discard(turn)
        self._has_changed.set()

    async def wait(self) -> None:
        """Wait until `pop` returns an item."""
        while all(turn in self._busy for turn in self._waiting):
            self._has_changed.clear()
            await self._has_changed.wait()
