"""What scripts and webhooks have in common: hooks, and circuit breakers for them."""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cachetools import LRUCache

from karmada_vc_agent.interpretation.operations import Operation
from karmada_vc_agent.model.objects import GroupVersionKind, Object

FAILURES_BEFORE_REST = 3
REST_S = 10.0
REMEMBERED = 4096
"""Maximum number of hooks with recorded failures; the least recently used is evicted."""

Call = Callable[[str, Sequence[Object]], Awaitable[Any]]
"""(virtual cluster, objects) -> object, status or health; raises HookError."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A script or a webhook for one kind and operation.

    key: identifies the hook in its current version. name: for messages. objects of `call`: desired
    and live for Retain, otherwise live.
    """

    key: Hashable
    name: str
    call: Call


class HookLevel(Protocol):
    """An interpreter level with hooks of users."""

    @property
    def name(self) -> str: ...

    def hook(self, kind: GroupVersionKind, operation: Operation) -> Hook | None: ...


@dataclass(slots=True)
class _Breaker:
    failures: int = 0
    until: float = 0.0
    problem: str = ""
    is_tried: bool = False


class Breakers:
    """Circuit breakers: hooks that failed several times in a row are not called for a while.

    Each overrun blocks a worker for the whole deadline; a hook that always overruns would block all
    workers of its virtual cluster again and again. After the pause one call tries the hook; other
    calls fail fast until it succeeds. now: monotonic clock, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._breakers: LRUCache[Hashable, _Breaker] = LRUCache(REMEMBERED)

    def problem(self, key: Hashable) -> str:
        """Return why a hook must not be called now; if it may, `ended` or `failed` must follow."""
        breaker = self._breakers.get(key)
        if breaker is None or breaker.failures < FAILURES_BEFORE_REST:
            return ""
        if breaker.is_tried or self._now() < breaker.until:
            return breaker.problem
        breaker.is_tried = True
        return ""

    def failed(self, key: Hashable, problem: str) -> None:
        """Count a failure; after a pause one suffices."""
        breaker = self._breakers.setdefault(key, _Breaker())
        breaker.failures += 1
        breaker.problem = problem
        breaker.is_tried = False
        if breaker.failures >= FAILURES_BEFORE_REST:
            breaker.until = self._now() + REST_S

    def ended(self, key: Hashable) -> None:
        """Reset: the hook answered."""
        self._breakers.pop(key, None)

    def abandoned(self, key: Hashable) -> None:
        """Let another call try a hook: this one was cancelled."""
        breaker = self._breakers.get(key)
        if breaker is not None:
            breaker.is_tried = False
