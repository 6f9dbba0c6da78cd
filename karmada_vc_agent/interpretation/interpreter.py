"""Runs the interpreter levels on live objects, in Karmada's order.

The first level with a hook for the exact kind answers; its error ends the search (contract 7.1).
Levels 1 and 2 are scripts and webhooks of users: `Interpreter` calls them. The levels below are
built-in rules: `LEVELS` has their order, the functions of this module call them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from karmada_vc_agent.interpretation import native_rules, third_party
from karmada_vc_agent.interpretation.user_hooks import (
    INTERPRET_HEALTH,
    INTERPRET_STATUS,
    RETAIN,
    Breakers,
    Hook,
    HookError,
    HookLevel,
    InterpretationError,
    Operation,
    UnavailableError,
)
from karmada_vc_agent.model.objects import GroupVersionKind, Object, gvk_of

Health = Literal["Healthy", "Unhealthy"]


@dataclass(frozen=True, slots=True)
class Level:
    """The hooks of one interpreter level, by exact kind."""

    name: str
    retain: Mapping[GroupVersionKind, native_rules.RetainRule]
    reflect: Mapping[GroupVersionKind, native_rules.ReflectRule]
    health: Mapping[GroupVersionKind, native_rules.HealthRule]


LEVELS = (
    Level(
        "third-party",
        third_party.RETAIN_RULES,
        third_party.REFLECT_RULES,
        third_party.HEALTH_RULES,
    ),
    Level(
        "native", native_rules.RETAIN_RULES, native_rules.REFLECT_RULES, native_rules.HEALTH_RULES
    ),
)

# What a rule raises for an object of unexpected shape, such as a manifest whose spec is a text.
_SHAPE_ERRORS = (AttributeError, KeyError, TypeError, ValueError)


def retain(desired: Object, live: Object) -> Object:
    """Return the desired object with the values that the host owns (contract 7.2).

    Raises InterpretationError.
    """
    rules = ((level.name, level.retain) for level in LEVELS)
    retained: Object = _apply(RETAIN, rules, lambda desired, _live: desired, desired, live)
    return retained


def reflect_status(live: Object) -> Object | None:
    """Return the status to report, None if there is none (contract 7.3).

    live: the restored object. The result may share parts with it. Raises InterpretationError.
    """
    rules = ((level.name, level.reflect) for level in LEVELS)
    status: Object | None = _apply(INTERPRET_STATUS, rules, native_rules.reflect_whole_status, live)
    return status


def interprets_health(kind: GroupVersionKind) -> bool:
    """Return whether a level has a health hook for a kind; otherwise it counts as healthy."""
    return any(kind in level.health for level in LEVELS)


def interpret_health(live: Object) -> Health:
    """Return `Healthy` or `Unhealthy`; a kind without a hook is healthy (contract 7.4).

    Raises InterpretationError, which the caller reports as `Unknown`.
    """
    rules = ((level.name, level.health) for level in LEVELS)
    is_healthy = _apply(INTERPRET_HEALTH, rules, lambda _live: True, live)
    return "Healthy" if is_healthy else "Unhealthy"


def _apply(
    operation: Operation,
    rules: Iterable[tuple[str, Mapping[GroupVersionKind, Callable[..., Any]]]],
    default: Callable[..., Any],
    *objects: Object,
) -> Any:
    """Apply the rule of the first level that has one for the kind. rules: level -> kind -> rule."""
    kind = gvk_of(objects[0])
    for level, by_kind in rules:
        if rule := by_kind.get(kind):
            try:
                return rule(*objects)
            except _SHAPE_ERRORS as error:
                raise InterpretationError(level, operation, str(error)) from error
    return default(*objects)


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

        cluster: the virtual cluster, for fair queuing. Raises InterpretationError.
        """
        if call := self._hook(RETAIN, desired):
            kept: Object = await self._call(*call, cluster, RETAIN, desired, live)
            return kept
        return retain(desired, live)

    async def reflect_status(self, cluster: str, live: Object) -> Object | None:
        """Return the status to report, None where there is none. See `reflect_status`."""
        if call := self._hook(INTERPRET_STATUS, live):
            status: Object | None = await self._call(*call, cluster, INTERPRET_STATUS, live)
            return status
        return reflect_status(live)

    async def interpret_health(self, cluster: str, live: Object) -> Health:
        """Return `Healthy` or `Unhealthy`. See `interpret_health`."""
        if call := self._hook(INTERPRET_HEALTH, live):
            is_healthy = await self._call(*call, cluster, INTERPRET_HEALTH, live)
            return "Healthy" if is_healthy else "Unhealthy"
        return interpret_health(live)

    def interprets_health(self, kind: GroupVersionKind) -> bool:
        """Return whether some level has a health hook for a kind. See `interprets_health`."""
        own = any(level.hook(kind, INTERPRET_HEALTH) for level in self._levels)
        return own or interprets_health(kind)

    def _hook(self, operation: Operation, obj: Object) -> tuple[str, Hook] | None:
        """Return the first hook for an object, and the name of its level."""
        kind = gvk_of(obj)
        hooks = ((level.name, level.hook(kind, operation)) for level in self._levels)
        return next(((level, hook) for level, hook in hooks if hook is not None), None)

    async def _call(
        self, level: str, hook: Hook, cluster: str, operation: Operation, *objects: Object
    ) -> Any:
        key = (cluster, hook.key)
        problem = self._breakers.problem(key)
        if problem:
            raise InterpretationError(level, operation, problem, hook.key)
        try:
            value = await hook.call(cluster, objects)
        except UnavailableError as error:
            problem = f"{hook.name}: {error}"
            self._breakers.failed(key, problem)
            raise InterpretationError(level, operation, problem, hook.key) from error
        except HookError as error:
            self._breakers.ended(key)
            raise InterpretationError(level, operation, f"{hook.name}: {error}") from error
        except BaseException:
            self._breakers.abandoned(key)
            raise
        self._breakers.ended(key)
        return value


BUILT_IN = Interpreter((), lambda: 0.0)
"""The built-in rules alone; it calls no hook and so needs no clock."""
