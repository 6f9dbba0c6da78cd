"""What levels of the user's own have in common: a hook that is asked, and one that must rest."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from karmada_vc_agent.interpretation.operations import Operation
from karmada_vc_agent.model.objects import GroupVersionKind, Object

FAILURES_BEFORE_REST = 3
REST_S = 10.0
REMEMBERED = 4096
"""Hooks of which failures are remembered; the oldest is forgotten first."""

Ask = Callable[[str, Sequence[Object]], Awaitable[Any]]
"""(virtual cluster, objects) -> object, status or health; raises HookError."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A script or a webhook for one kind and operation.

    key: what tells it from others, and from what it was before a change. objects of `ask`:
    desired and live for Retain, else live. is_remote: whether it may answer again by itself.
    """

    key: Hashable
    ask: Ask
    is_remote: bool = False


class HookLevel(Protocol):
    """A level that asks somebody else."""

    @property
    def name(self) -> str: ...

    def hook(self, kind: GroupVersionKind, operation: Operation) -> Hook | None: ...


@dataclass(frozen=True, slots=True)
class Dependency:
    """A hook that rests for a virtual cluster.

    ask_again: the last question that it did not answer. is_current: whether it still is what
    would be asked.
    """

    cluster: str
    hook: Hook
    ask_again: Callable[[], Awaitable[Any]]
    is_current: Callable[[], bool]


@dataclass(slots=True)
class _Breaker:
    failures: int = 0
    until: float = 0.0
    problem: str = ""
    is_tried: bool = False


class Breakers:
    """Hooks that were not there several times in a row are not asked for a while.

    Each overrun costs a worker its whole time; a hook that never ends would take all workers
    of its virtual cluster again and again. After its rest one question tries it, and the
    others go on without it until that one is answered. now: seconds of a clock that does not
    jump.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._breakers: OrderedDict[Hashable, _Breaker] = OrderedDict()

    def problem(self, key: Hashable) -> str:
        """Return why a hook must not be asked now; where it may be, `ended` or `failed` follow."""
        breaker = self._breakers.get(key)
        if breaker is None or breaker.failures < FAILURES_BEFORE_REST:
            return ""
        if breaker.is_tried or self._now() < breaker.until:
            return breaker.problem
        breaker.is_tried = True
        return ""

    def failed(self, key: Hashable, problem: str) -> bool:
        """Count a failure; after a rest a single one is enough. Return whether it rests now."""
        breaker = self._breakers.setdefault(key, _Breaker())
        breaker.failures += 1
        breaker.problem = problem
        breaker.is_tried = False
        if len(self._breakers) > REMEMBERED:
            self._breakers.popitem(last=False)
        if breaker.failures < FAILURES_BEFORE_REST:
            return False
        breaker.until = self._now() + REST_S
        return True

    def ended(self, key: Hashable) -> None:
        """Forget what was: the hook answered."""
        self._breakers.pop(key, None)

    def abandoned(self, key: Hashable) -> None:
        """Let another question try a hook: this one was given up before its end."""
        breaker = self._breakers.get(key)
        if breaker is not None:
            breaker.is_tried = False
