"""Ask the interpreter levels what a live object means, in Karmada's order.

The first level with a hook for the exact kind answers; its error ends the search (contract
7.1). `_LEVELS` is that order; a further level is a row above them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from karmada_vc_agent.interpretation import health, reflect, third_party
from karmada_vc_agent.interpretation import retain as retention
from karmada_vc_agent.interpretation.errors import InterpretationError
from karmada_vc_agent.model.objects import GroupVersionKind, Object, gvk_of

Health = Literal["Healthy", "Unhealthy"]

RETAIN = "Retain"
INTERPRET_STATUS = "InterpretStatus"
INTERPRET_HEALTH = "InterpretHealth"


@dataclass(frozen=True, slots=True)
class Level:
    """The hooks of one interpreter level, by exact kind."""

    name: str
    retain: Mapping[GroupVersionKind, retention.RetainRule]
    reflect: Mapping[GroupVersionKind, reflect.ReflectRule]
    health: Mapping[GroupVersionKind, health.HealthRule]


_LEVELS = (
    Level(
        "third-party",
        third_party.RETAIN_RULES,
        third_party.REFLECT_RULES,
        third_party.HEALTH_RULES,
    ),
    Level("native", retention.RULES, reflect.RULES, health.RULES),
)

# What a rule meets in an object of unexpected shape, e.g. a manifest whose spec is a text.
_SHAPE_ERRORS = (AttributeError, KeyError, TypeError, ValueError)


def retain(desired: Object, live: Object) -> Object:
    """Return the desired object with the values that the host owns (contract 7.2).

    Raises InterpretationError.
    """
    kind = gvk_of(desired)
    for level in _LEVELS:
        if rule := level.retain.get(kind):
            try:
                return rule(desired, live)
            except _SHAPE_ERRORS as error:
                raise InterpretationError(level.name, RETAIN, str(error)) from error
    return desired


def reflect_status(live: Object) -> Object | None:
    """Return the status to report, None where there is none (contract 7.3).

    live: the restored object. The answer may share parts with it. Raises InterpretationError.
    """
    kind = gvk_of(live)
    for level in _LEVELS:
        if rule := level.reflect.get(kind):
            try:
                return rule(live)
            except _SHAPE_ERRORS as error:
                raise InterpretationError(level.name, INTERPRET_STATUS, str(error)) from error
    return reflect.reflect_whole_status(live)


def interprets_health(kind: GroupVersionKind) -> bool:
    """Whether a level has a hook for the health of a kind; without one it is healthy unasked."""
    return any(kind in level.health for level in _LEVELS)


def interpret_health(live: Object) -> Health:
    """Return `Healthy` or `Unhealthy`; a kind without a hook is healthy (contract 7.4).

    Raises InterpretationError, which the caller reports as `Unknown`.
    """
    kind = gvk_of(live)
    for level in _LEVELS:
        if rule := level.health.get(kind):
            try:
                return "Healthy" if rule(live) else "Unhealthy"
            except _SHAPE_ERRORS as error:
                raise InterpretationError(level.name, INTERPRET_HEALTH, str(error)) from error
    return "Healthy"
