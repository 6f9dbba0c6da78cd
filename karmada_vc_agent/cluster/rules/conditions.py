"""Conditions: set one in a list; its transition time moves only when the status changes."""

from collections.abc import Iterable, Sequence
from typing import NotRequired, TypedDict


class Condition(TypedDict):
    """A metav1.Condition as Karmada writes it, which is without observedGeneration.

    `set_condition` sets lastTransitionTime.
    """

    type: str
    status: str
    reason: str
    message: str
    observedGeneration: NotRequired[int]
    lastTransitionTime: NotRequired[str]


def find_condition(conditions: Iterable[Condition] | None, type_: str) -> Condition | None:
    """Return the condition of a type, or None."""
    return next((c for c in conditions or () if c.get("type") == type_), None)


def set_condition(
    conditions: Sequence[Condition] | None, condition: Condition, now: str
) -> list[Condition]:
    """Return the list with this condition replaced, or appended if it is new.

    now: RFC 3339 with seconds, `2026-01-01T00:00:00Z`. Conditions of other types are kept.
    """
    current = find_condition(conditions, condition["type"])
    since = now
    if current is not None and current.get("status") == condition["status"]:
        since = current.get("lastTransitionTime", now)
    updated = Condition(
        type=condition["type"],
        status=condition["status"],
        lastTransitionTime=since,
        reason=condition["reason"],
        message=condition["message"],
    )
    if "observedGeneration" in condition:
        updated["observedGeneration"] = condition["observedGeneration"]
    if current is None:
        return [*(conditions or ()), updated]
    return [updated if other is current else other for other in conditions or ()]
