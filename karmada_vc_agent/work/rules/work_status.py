"""The status of a Work, from the results of its manifests (contract 5.4, 6.1)."""

from collections.abc import Sequence
from typing import cast

from karmada_vc_agent.cluster.rules.conditions import Condition, find_condition, set_condition
from karmada_vc_agent.model.objects import Object, maps_at
from karmada_vc_agent.work.rules import work_conditions
from karmada_vc_agent.work.rules.manifest_status import ManifestStatus, has_ordinal, merge_entries


def applied_condition(
    before: Condition | None,
    total: int,
    errors: Sequence[str],
    *,
    was_recreated: bool,
    is_new: bool,
) -> Condition:
    """Return Applied; the message of a recreation stays until the Work changes (contract 5.6).

    before: the current Applied. is_new: this generation of the Work was not applied yet.
    """
    if was_recreated and not is_new:
        return work_conditions.recreated(work_conditions.aggregate(errors) if errors else None)
    condition = work_conditions.applied(total, errors)
    if before is not None and not is_new and before["status"] == condition["status"] == "True":
        return before
    return condition


def compose_work_status(
    live_status: Object | None,
    conditions: Sequence[Condition],
    entries: Sequence[ManifestStatus],
    manifests: Sequence[Object],
    now: str,
) -> Object:
    """Return the whole status to PUT: the live one overlaid with conditions and entries.

    entries: what could be read now. Conditions of other controllers and unknown fields are kept.
    """
    status = dict(live_status) if isinstance(live_status, dict) else {}
    merged: Sequence[Condition] = _conditions_of(status)
    for condition in conditions:
        merged = set_condition(merged, condition, now)
    status["conditions"] = merged
    live_entries = [entry for entry in maps_at(status, "manifestStatuses") if has_ordinal(entry)]
    merged_entries = merge_entries(cast("list[ManifestStatus]", live_entries), entries, manifests)
    if merged_entries or "manifestStatuses" in status:
        status["manifestStatuses"] = merged_entries
    return status


def applied_of(status: Object | None) -> Condition | None:
    """Return the condition Applied of a Work's status."""
    return find_condition(_conditions_of(status), work_conditions.APPLIED)


def dispatching_of(status: Object | None) -> Condition | None:
    """Return the condition Dispatching of a Work's status."""
    return find_condition(_conditions_of(status), work_conditions.DISPATCHING)


def is_dispatched(work: Object) -> bool:
    """Return whether the hub has that nothing of this generation of a Work waits for a window."""
    condition = dispatching_of(work.get("status"))
    generation = work["metadata"].get("generation")
    if condition is None or condition["status"] != "True" or not generation:
        return False
    return bool(condition.get("observedGeneration") == generation)


def is_waiting(work: Object) -> bool:
    """Return whether the hub has that something of a Work waits for a window."""
    condition = dispatching_of(work.get("status"))
    return condition is not None and condition.get("reason") == work_conditions.OUTSIDE_WINDOW


def _conditions_of(status: Object | None) -> list[Condition]:
    """Return the well-formed conditions; the hub validates only their type and status."""
    well_formed = (c for c in maps_at(status, "conditions") if {"type", "status"} <= c.keys())
    return [cast("Condition", condition) for condition in well_formed]
