"""Runs the interpreter levels on live objects, in Karmada's order.

The first level with a hook for the exact kind answers; its error ends the search (contract 7.1).
Levels 1 and 2 are scripts and webhooks of users, those below the built-in rules in `LEVELS`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from karmada_vc_agent.interpretation import native_rules, third_party
from karmada_vc_agent.interpretation.user_hooks import (
    INTERPRET_HEALTH,
    INTERPRET_STATUS,
    RETAIN,
    Breakers,
    Hook,
    HookError,
    InterpretationError,
    Operation,
    UnavailableError,
)
from karmada_vc_agent.interpretation.webhook import HookLevel
from karmada_vc_agent.model.objects import GroupVersionKind, Object, gvk_of

Health = Literal["Healthy", "Unhealthy"]


Rules = Mapping[Operation, Mapping[GroupVersionKind, Callable[..., Any]]]

LEVELS: Mapping[str, Rules] = {
    "third-party": {
        RETAIN: third_party.RETAIN_RULES,
        INTERPRET_STATUS: third_party.REFLECT_RULES,
        INTERPRET_HEALTH: third_party.HEALTH_RULES,
    },
    "native": {
        RETAIN: native_rules.RETAIN_RULES,
        INTERPRET_STATUS: native_rules.REFLECT_RULES,
        INTERPRET_HEALTH: native_rules.HEALTH_RULES,
    },
}
"""Level -> its rules by exact kind."""

# What a rule raises for an object of unexpected shape, such as a manifest whose spec is a text.
_SHAPE_ERRORS = (AttributeError, KeyError, TypeError, ValueError)


def retain(desired: Object, live: Object) -> Object:
    """Return the desired object with what the host owns (7.2). Raises InterpretationError."""
    retained: Object = _apply(RETAIN, lambda desired, _live: desired, desired, live)
    return retained


def reflect_status(live: Object) -> Object | None:
    """Return the status to report of a restored object, None if there is none (contract 7.3)."""
    status: Object | None = _apply(INTERPRET_STATUS, native_rules.reflect_whole_status, live)
    return status


def interprets_health(kind: GroupVersionKind) -> bool:
    """Return whether a level has a health hook for a kind; otherwise it counts as healthy."""
    return any(kind in rules[INTERPRET_HEALTH] for rules in LEVELS.values())


def interpret_health(live: Object) -> Health:
    """Return the health; a kind without a hook is healthy (contract 7.4)."""
    is_healthy = _apply(INTERPRET_HEALTH, lambda _live: True, live)
    return "Healthy" if is_healthy else "Unhealthy"


def _apply(operation: Operation, default: Callable[..., Any], *objects: Object) -> Any:
    """Apply the rule of the first level that has one for the kind."""
    kind = gvk_of(objects[0])
    for level, rules in LEVELS.items():
        if rule := rules[operation].get(kind):
            try:
                return rule(*objects)
            except _SHAPE_ERRORS as error:
                raise InterpretationError(level, operation, str(error)) from error
    return default(*objects)


class Interpreter:
    """All levels in their order; awaits nothing for kinds without hooks.

    levels: those with hooks of users. now: monotonic clock, in seconds.
    """

    def __init__(self, levels: Sequence[HookLevel], now: Callable[[], float]) -> None:
        self._levels = levels
        self._breakers = Breakers(now)

    async def retain(self, cluster: str, desired: Object, live: Object) -> Object:
        """Return the desired object with what the host owns. cluster: for fair queuing."""
        kept: Object = await self._interpret(cluster, RETAIN, retain, desired, live)
        return kept

    async def reflect_status(self, cluster: str, live: Object) -> Object | None:
        """Return the status to report, None where there is none. See `reflect_status`."""
        status: Object | None = await self._interpret(
            cluster, INTERPRET_STATUS, reflect_status, live
        )
        return status

    async def interpret_health(self, cluster: str, live: Object) -> Health:
        """Return `Healthy` or `Unhealthy`. See `interpret_health`."""
        health = await self._interpret(cluster, INTERPRET_HEALTH, interpret_health, live)
        return "Healthy" if health in (True, "Healthy") else "Unhealthy"

    def interprets_health(self, kind: GroupVersionKind) -> bool:
        """Return whether some level has a health hook for a kind. See `interprets_health`."""
        own = any(level.hook(kind, INTERPRET_HEALTH) for level in self._levels)
        return own or interprets_health(kind)

    async def _interpret(
        self, cluster: str, operation: Operation, rule: Callable[..., Any], *objects: Object
    ) -> Any:
        """Call the first hook for the kind; without one the rule answers immediately."""
        kind = gvk_of(objects[0])
        for level in self._levels:
            if hook := level.hook(kind, operation):
                return await self._call(level.name, hook, cluster, operation, objects)
        return rule(*objects)

    async def _call(
        self,
        level: str,
        hook: Hook,
        cluster: str,
        operation: Operation,
        objects: Sequence[Object],
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
        self._breakers.ended(key)
        return value


BUILT_IN = Interpreter((), lambda: 0.0)
"""The built-in rules alone; it calls no hook and so needs no clock."""
