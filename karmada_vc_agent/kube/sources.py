"""Event sources of a controller: a store or signal, and a function from changes to keys.

The function reads what is known; it makes no request and enqueues nothing by itself.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from karmada_vc_agent.kube.work_queue import WorkQueue

K = TypeVar("K", bound=Hashable)

Subscribe = Callable[[Callable[..., None]], object]
"""Takes a handler: the `add_handler` of a store, the `subscribe` of a signal."""


class Source(Protocol[K]):
    """Maps changes to a queue."""

    def connect(self, queue: WorkQueue[K]) -> None: ...


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
class Heals(Generic[K]):
    """causes: maps a change to a predicate of the causes that it ends; None = none."""

    subscribe: Subscribe
    causes: Callable[..., Callable[[Hashable], bool] | None]

    def connect(self, queue: WorkQueue[K]) -> None:
        """Start to enqueue the keys that wait for such causes."""

        def changed(*change: object) -> None:
            concerns = self.causes(*change)
            if concerns is not None:
                queue.healed(concerns)

        self.subscribe(changed)


@dataclass(frozen=True, slots=True)
class Retries(Generic[K]):
    """groups: maps a change to the groups of the queue whose backed-off keys are retried now."""

    subscribe: Subscribe
    groups: Callable[..., Iterable[Hashable]]

    def connect(self, queue: WorkQueue[K]) -> None:
        """Start to retry."""

        def changed(*change: object) -> None:
            groups = frozenset(self.groups(*change))
            if groups:
                queue.retry_now(lambda key: queue.group_of(key) in groups)

        self.subscribe(changed)
