"""What levels of the user's own have in common: a hook that is asked, and one that must rest."""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from karmada_vc_agent.interpretation.operations import Operation
from karmada_vc_agent.model.objects import GroupVersionKind, Object

OVERRUNS_BEFORE_REST = 3
REST_S = 10.0

Ask = Callable[[str, Sequence[Object]], Awaitable[Any]]
"""(virtual cluster, objects) -> object, status or health; raises HookError."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A script or a webhook for one kind and operation.

    key: what tells it from others. objects of `ask`: desired and live for Retain, else live.
    """

    key: Hashable
    ask: Ask


class HookLevel(Protocol):
    """A level that asks somebody else."""

    @property
    def name(self) -> str: ...

    def hook(self, kind: GroupVersionKind, operation: Operation) -> Hook | None: ...


class Rests:
    """Hooks that overran several times in a row are not asked for a while.

    Each overrun costs a worker its whole time; a hook that never ends would take all workers
    from the Works that need none. now: seconds of a clock that does not jump.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._overruns: dict[Hashable, int] = {}
        self._until: dict[Hashable, float] = {}

    def left_s(self, key: Hashable) -> float:
        """Return for how long a hook still rests, 0 where it does not."""
        until = self._until.get(key)
        if until is None:
            return 0.0
        left = until - self._now()
        if left <= 0:
            del self._until[key]
        return max(left, 0.0)

    def overran(self, key: Hashable) -> None:
        """Count an overrun; after a rest a single one is enough for the next."""
        count = self._overruns.get(key, 0) + 1
        self._overruns[key] = count
        if count >= OVERRUNS_BEFORE_REST:
            self._until[key] = self._now() + REST_S

    def ended(self, key: Hashable) -> None:
        """Forget what was: the hook ended in time."""
        self._overruns.pop(key, None)
