"""Conditions: their types, and how one is set in a list.

The transition time of one moves only when its status changes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
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


class Shown(Enum):
    """The time for which a condition is in the status of an object.

    UNLESS_IDLE: not while it has the reason of its type for "nothing to report", except where it
    was reported before.
    """

    NEVER = auto()
    UNLESS_IDLE = auto()
    ALWAYS = auto()


@dataclass(frozen=True, slots=True)
class ConditionType:
    """A type of condition: what it says of a virtual cluster, and where it is shown.

    help: a sentence of docs/conditions.md. normal: its status while nothing is wrong. idle: the
    reason of UNLESS_IDLE. for_all: whether it is the same for all virtual clusters. warning: logged
    once for each reason while a Cluster's is not normal, "" = never. has_event: whether the Cluster
    gets an event for each reason, too, and once it is normal again.
    """

    name: str
    help: str
    normal: str = "True"
    idle: str = ""
    on_cluster: Shown = Shown.UNLESS_IDLE
    on_object: Shown = Shown.NEVER
    for_all: bool = False
    warning: str = ""
    has_event: bool = False

    def true(self, reason: str, message: str) -> Condition:
        """Return the condition with status True."""
        return Condition(type=self.name, status="True", reason=reason, message=message)

    def false(self, reason: str, message: str) -> Condition:
        """Return the condition with status False."""
        return Condition(type=self.name, status="False", reason=reason, message=message)

    def unknown(self, reason: str, message: str) -> Condition:
        """Return the condition with status Unknown."""
        return Condition(type=self.name, status="Unknown", reason=reason, message=message)

    def find(self, conditions: Iterable[Condition] | None) -> Condition | None:
        """Return the condition of this type, or None."""
        return find_condition(conditions, self.name)

    def is_normal(self, condition: Condition) -> bool:
        """Return True if nothing is wrong."""
        return condition["status"] == self.normal

    def is_news(self, before: Condition | None, condition: Condition) -> bool:
        """Return True if something is wrong that was not before, or is right again."""
        if self.is_normal(condition):
            return before is not None and not self.is_normal(before)
        return before is None or before["reason"] != condition["reason"]


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
