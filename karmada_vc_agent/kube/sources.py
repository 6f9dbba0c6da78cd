"""Event sources of a controller: a store or signal, and a function from changes to keys.

The function reads cached state; it makes no request and enqueues nothing by itself.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from karmada_vc_agent.kube.work_queue import WorkQueue

K = TypeVar("K", bound=Hashable)

RETRIES_EVERY_S = 0.5
"""Changes within that time are passed on as one, however often a tenant changes something."""

Subscribe = Callable[[Callable[..., None]], object]
"""Takes a handler: the `add_handler` of a store, the `subscribe` of a signal."""


@dataclass(frozen=True, slots=True)
class Enqueues(Generic[K]):
    """keys: maps a change to the keys to enqueue. after_s: delay, to let changes settle."""

    subscribe: Subscribe
    keys: Callable[..., Iterable[K]]
    after_s: float = 0.0

    def connect(self, queue: WorkQueue[K]) -> None:
        """Start to enqueue."""

        def changed(*change: object) -> None:
            for key in self.keys(*change):
                queue.add_after(key, self.after_s)

        self.subscribe(changed)


@dataclass(frozen=True, slots=True)
class Retries(Generic[K]):
    """Retries the keys that wait for what changed; subscribe: of a signal of such dependencies."""

    subscribe: Subscribe

    def connect(self, queue: WorkQueue[K]) -> None:
        """Start to retry."""
        collected: set[Hashable] = set()
        next_at = -math.inf

        def pass_on() -> None:
            nonlocal next_at
            next_at = asyncio.get_running_loop().time() + RETRIES_EVERY_S
            dependencies = collected.copy()
            collected.clear()
            queue.changed(dependencies)

        def changed(dependencies: Collection[Hashable]) -> None:
            is_scheduled = bool(collected)
            collected.update(dependencies)
            if collected and not is_scheduled:
                loop = asyncio.get_running_loop()
                if loop.time() < next_at:
                    loop.call_at(next_at, pass_on)
                else:
                    pass_on()

        self.subscribe(changed)


Source = Enqueues[K] | Retries[K]
"""Connects changes to a queue."""
