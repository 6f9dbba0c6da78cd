"""What brings up keys of a controller: a store or signal, and a function of its changes.

The function is pure: it reads what is known and writes nothing.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from karmada_vc_agent.kube.work_queue import WorkQueue

K = TypeVar("K", bound=Hashable)

Subscribe = Callable[[Callable[..., None]], object]
"""Takes a handler: the `add_handler` of a store, the `subscribe` of a signal."""


class Source(Protocol[K]):
    """Connects changes with a queue."""

    def connect(self, queue: WorkQueue[K]) -> None: ...


@dataclass(frozen=True, slots=True)
class Enqueues(Generic[K]):
    """keys: what a change enqueues. after_s: how long changes settle."""

    subscribe: Subscribe
    keys: Callable[..., Iterable[K]]
    after_s: float = 0.0

    def connect(self, queue: WorkQueue[K]) -> None:
        """Enqueue from now on."""

        def changed(*change: object) -> None:
            for key in self.keys(*change):
                queue.add_after(key, self.after_s)

        self.subscribe(changed)


@dataclass(frozen=True, slots=True)
class Heals(Generic[K]):
    """causes: what a change is the end of, as a predicate of causes; None = of nothing."""

    subscribe: Subscribe
    causes: Callable[..., Callable[[Hashable], bool] | None]

    def connect(self, queue: WorkQueue[K]) -> None:
        """Enqueue the keys that wait for such causes from now on."""

        def changed(*change: object) -> None:
            concerns = self.causes(*change)
            if concerns is not None:
                queue.healed(concerns)

        self.subscribe(changed)


@dataclass(frozen=True, slots=True)
class Retries(Generic[K]):
    """groups: whose keys that back off a change brings forward, by the group of the queue."""

    subscribe: Subscribe
    groups: Callable[..., Iterable[Hashable]]

    def connect(self, queue: WorkQueue[K]) -> None:
        """Bring them forward from now on."""

        def changed(*change: object) -> None:
            groups = frozenset(self.groups(*change))
            if groups:
                queue.retry_now(lambda key: queue.group_of(key) in groups)

        self.subscribe(changed)
