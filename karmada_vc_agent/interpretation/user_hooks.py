"""Hooks of users: scripts, errors, and circuit breakers (contract 7.1, 7.6)."""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cachetools import LRUCache

from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig, gvk_of

Operation = Literal["Retain", "InterpretStatus", "InterpretHealth"]

RETAIN: Operation = "Retain"
INTERPRET_STATUS: Operation = "InterpretStatus"
INTERPRET_HEALTH: Operation = "InterpretHealth"


class InterpretationError(Exception):
    """A level had a hook for the object and the hook failed; no other level is tried.

    level: `declarative`, `webhook`, `third-party` or `native`.
    operation: `Retain`, `InterpretStatus` or `InterpretHealth`.
    hook: key of an unavailable hook; None if the failure is specific to the object.
    """

    def __init__(
        self, level: str, operation: str, message: str, hook: Hashable | None = None
    ) -> None:
        super().__init__(message)
        self.level = level
        self.operation = operation
        self.message = message
        self.hook = hook


class HookError(Exception):
    """A script or a webhook failed; `str()` says how, the interpreter adds where."""


class UnavailableError(HookError):
    """A script or webhook is unreachable or too slow; the next call likely fails, too."""


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


class Breakers:
    """Circuit breakers: a hook that failed several times in a row is not called for a while.

    Each overrun blocks a worker for the whole deadline. After the pause one call tries the hook;
    others fail fast until it succeeds. now: monotonic clock, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._failures: LRUCache[Hashable, tuple[int, float, str]] = LRUCache(REMEMBERED)

    def problem(self, key: Hashable) -> str:
        """Return why a hook must not be called now; "": this call tries it."""
        count, until, problem = self._failures.get(key, (0, 0.0, ""))
        if count < FAILURES_BEFORE_REST:
            return ""
        if self._now() < until:
            return problem
        self._failures[key] = count, self._now() + REST_S, problem
        return ""

    def failed(self, key: Hashable, problem: str) -> None:
        """Count a failure; after a pause one suffices."""
        count, *_ = self._failures.get(key, (0,))
        self._failures[key] = count + 1, self._now() + REST_S, problem

    def ended(self, key: Hashable) -> None:
        """Reset: the hook answered."""
        self._failures.pop(key, None)


RunScript = Callable[[Hashable, str, Operation, Sequence[Object]], Awaitable[Any]]
"""(virtual cluster, script, operation, objects) -> the result of the script."""

# The others (replicas, dependencies, …) run in the control plane.
_FIELDS: dict[Operation, str] = {
    RETAIN: "retention",
    INTERPRET_STATUS: "statusReflection",
    INTERPRET_HEALTH: "healthInterpretation",
}


Scripts = dict[tuple[GroupVersionKind, Operation], tuple[str, str]]
"""Kind and operation -> the name of the customization, and its script."""


def index_scripts(customizations: Iterable[Object]) -> Scripts:
    """Return the script of each kind and operation: the first non-empty one, sorted by name."""
    scripts: Scripts = {}
    for customization in sorted(customizations, key=lambda obj: str(obj["metadata"]["name"])):
        kind = gvk_of(dig(customization, "spec", "target"))
        for operation, field in _FIELDS.items():
            text = dig(customization, "spec", "customizations", field, "luaScript")
            if text and isinstance(text, str):
                scripts.setdefault((kind, operation), (customization["metadata"]["name"], text))
    return scripts


def changed_kinds(before: Scripts, after: Scripts) -> frozenset[GroupVersionKind]:
    """Return the kinds whose scripts differ."""
    texts = ({(key, text) for key, (_, text) in each.items()} for each in (before, after))
    return frozenset(key[0] for key, _ in set.symmetric_difference(*texts))


class DeclarativeLevel:
    """Interprets objects with scripts; `scripts` are the current ones."""

    name = "declarative"

    def __init__(self, run: RunScript) -> None:
        self._run = run
        self.scripts: Scripts = {}

    def hook(self, kind: GroupVersionKind, operation: Operation) -> Hook | None:
        """Return the hook for a kind and operation, if there is one."""
        if (kind, operation) not in self.scripts:
            return None
        customization, script = self.scripts[kind, operation]

        async def call(cluster: str, objects: Sequence[Object]) -> Any:
            return await self._run(cluster, script, operation, objects)

        return Hook(script, f'ResourceInterpreterCustomization "{customization}"', call)
