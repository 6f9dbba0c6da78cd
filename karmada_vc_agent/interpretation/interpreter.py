"""Runs the interpreter levels on live objects, in Karmada's order.

The first level with a hook for the exact kind answers; its error ends the search (contract 7.1).
Levels 1 and 2 are scripts and webhooks of users: `Interpreter` calls them. The levels below are
built-in rules: `LEVELS` has their order, the functions of this module call them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from karmada_vc_agent.interpretation import native_health, reflect, third_party
from karmada_vc_agent.interpretation import retain as retention
from karmada_vc_agent.interpretation.hook_errors import (
    HookError,
    InterpretationError,
    UnavailableError,
)
from karmada_vc_agent.interpretation.hooks import Breakers, Hook, HookLevel
from karmada_vc_agent.interpretation.operations import (
    INTERPRET_HEALTH,
    INTERPRET_STATUS,
    RETAIN,
    Operation,
)
from karmada_vc_agent.model.objects import GroupVersionKind, Object, gvk_of

Health = Literal["Healthy", "Unhealthy"]


@dataclass(frozen=True, slots=True)
class Level:
    """The hooks of one interpreter level, by exact kind."""

    name: str
    retain: Mapping[GroupVersionKind, retention.RetainRule]
    reflect: Mapping[GroupVersionKind, reflect.ReflectRule]
    health: Mapping[GroupVersionKind, native_health.HealthRule]


LEVELS = (
    Level(
        "third-party",
        third_party.RETAIN_RULES,
        third_party.REFLECT_RULES,
        third_party.HEALTH_RULES,
    ),
    Level("native", retention.RULES, reflect.RULES, native_health.RULES),
)

# What a rule raises for an object of unexpected shape, such as a manifest whose spec is a text.
_SHAPE_ERRORS = (AttributeError, KeyError, TypeError, ValueError)


def retain(desired: Object, live: Object) -> Object:
    """Return the desired object with the values that the host owns (contract 7.2).

    Raises InterpretationError.
    """
    kind = gvk_of(desired)
    for level in LEVELS:
        if rule := level.retain.get(kind):
            try:
                return rule(desired, live)
            except _SHAPE_ERRORS as error:
                raise InterpretationError(level.name, RETAIN, str(error)) from error
    return desired


def reflect_status(live: Object) -> Object | None:
    """Return the status to report, None if there is none (contract 7.3).

    live: the restored object. The result may share parts with it. Raises InterpretationError.
    """
    kind = gvk_of(live)
    for level in LEVELS:
        if rule := level.reflect.get(kind):
            try:
                return rule(live)
            except _SHAPE_ERRORS as error:
                raise InterpretationError(level.name, INTERPRET_STATUS, str(error)) from error
    return reflect.reflect_whole_status(live)


def interprets_health(kind: GroupVersionKind) -> bool:
    """Whether a level has a health hook for a kind; otherwise it counts as healthy."""
    return any(kind in level.health for level in LEVELS)


def interpret_health(live: Object) -> Health:
    """Return `Healthy` or `Unhealthy`; a kind without a hook is healthy (contract 7.4).

    Raises InterpretationError, which the caller reports as `Unknown`.
    """
    kind = gvk_of(live)
    for level in LEVELS:
        if rule := level.health.get(kind):
            try:
                return "Healthy" if rule(live) else "Unhealthy"
            except _SHAPE_ERRORS as error:
                raise InterpretationError(level.name, INTERPRET_HEALTH, str(error)) from error
    return "Healthy"


class Interpreter:
    """All levels in their order.

    levels: those with hooks of users. now: monotonic clock, in seconds. For kinds without hooks
    nothing is awaited: the rules answer immediately.
    """

    def __init__(self, levels: Sequence[HookLevel], now: Callable[[], float]) -> None:
        self._levels = levels
        self._breakers = Breakers(now)

    async def retain(self, cluster: str, desired: Object, live: Object) -> Object:
        """Return the desired object with the values that the host owns.

        cluster: the virtual cluster, for turns. Raises InterpretationError.
        """
        answer = await self._ask(cluster, RETAIN, (desired, live))
        if answer is None:
            return retain(desired, live)
        kept: Object = answer.value
        return kept

    async def reflect_status(self, cluster: str, live: Object) -> Object | None:
        """Return the status to report, None where there is none. See `reflect_status`."""
        answer = await self._ask(cluster, INTERPRET_STATUS, (live,))
        if answer is None:
            return reflect_status(live)
        status: Object | None = answer.value
        return status

    async def interpret_health(self, cluster: str, live: Object) -> Health:
        """Return `Healthy` or `Unhealthy`. See `interpret_health`."""
        answer = await self._ask(cluster, INTERPRET_HEALTH, (live,))
        if answer is None:
            return interpret_health(live)
        return "Healthy" if answer.value else "Unhealthy"

    def interprets_health(self, kind: GroupVersionKind) -> bool:
        """Whether some level has a health hook for a kind. See `interprets_health`."""
        own = any(level.hook(kind, INTERPRET_HEALTH) for level in self._levels)
        return own or interprets_health(kind)

    async def _ask(
        self, cluster: str, operation: Operation, objects: Sequence[Object]
    ) -> "_Answer | None":
        """Call the first level with a hook; None if none has one."""
        kind = gvk_of(objects[0])
        for level in self._levels:
            hook = level.hook(kind, operation)
            if hook is None:
                continue
            return _Answer(await self._ask_hook(level, hook, cluster, operation, objects))
        return None

    async def _ask_hook(
        self,
        level: HookLevel,
        hook: Hook,
        cluster: str,
        operation: Operation,
        objects: Sequence[Object],
    ) -> Any:
        key = (cluster, hook.key)
        problem = self._breakers.problem(key)
        if problem:
            raise InterpretationError(level.name, operation, problem, hook.key)
        try:
            value = await hook.ask(cluster, objects)
        except UnavailableError as error:
            self._breakers.failed(key, str(error))
            raise InterpretationError(level.name, operation, str(error), hook.key) from error
        except HookError as error:
            self._breakers.ended(key)
            raise InterpretationError(level.name, operation, str(error)) from error
        except BaseException:
            self._breakers.abandoned(key)
            raise
        self._breakers.ended(key)
        return value


@dataclass(frozen=True, slots=True)
class _Answer:
    value: Any


BUILT_IN = Interpreter((), lambda: 0.0)
"""The built-in rules alone; it calls no hook and so needs no clock."""
