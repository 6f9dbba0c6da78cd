"""The status of a VirtualCluster object: conditions, counts, and when it is worth a write."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from karmada_vc_agent.cluster.rules.conditions import (
    Condition,
    ConditionType,
    Shown,
    find_condition,
    set_condition,
)
from karmada_vc_agent.cluster.rules.nodes_reachable import NodeCounts
from karmada_vc_agent.cluster.rules.readiness import READY
from karmada_vc_agent.model.objects import Object, maps_at
from karmada_vc_agent.model.texts import listed
from karmada_vc_agent.work.rules.work_status import applied_of

REGISTERED = ConditionType(
    "Registered",
    "The Cluster is on the hub and this agent's.",
    on_cluster=Shown.NEVER,
    on_object=Shown.ALWAYS,
)
HUB_REACHABLE = ConditionType(
    "HubReachable",
    "The hub accepts what the agent reports.",
    on_cluster=Shown.NEVER,
    on_object=Shown.ALWAYS,
)
WORKS_APPLIED = ConditionType(
    "WorksApplied", "All Works are applied.", on_cluster=Shown.NEVER, on_object=Shown.ALWAYS
)
OF_OBJECT_STATUS = (REGISTERED, HUB_REACHABLE, WORKS_APPLIED)
"""Types that only VirtualCluster objects have, since they are the state of those."""

APPLIED, FAILED, PENDING = "applied", "failed", "pending"
NAMED = 3
"""How many Works a message names."""


@dataclass(frozen=True, slots=True)
class WorkCounts:
    """Works of a virtual cluster by Applied: True, False, not said yet; failing: names."""

    applied: int = 0
    failed: int = 0
    pending: int = 0
    failing: tuple[str, ...] = ()


def compose_status(
    live: Object,
    *,
    generation: int,
    phase: str,
    nodes: NodeCounts,
    works: WorkCounts,
    conditions: Sequence[Condition],
    last_contact: str,
    now: str,
) -> Object:
    """Return the status to write; equal to `live` where nothing is worth it.

    A contact with the hub alone is not: HubReachable says that there is contact, and once there
    is none, that is a change. Conditions that are not observed any more are dropped. last_contact:
    RFC 3339, or "" where there was none.
    """
    new: list[Condition] = []
    old = [
        cast("Condition", c) for c in maps_at(live, "conditions") if {"type", "status"} <= c.keys()
    ]
    for condition in conditions:
        before = find_condition(old, condition["type"])
        new += set_condition([before] if before else [], condition, now)
    status: Object = {
        "observedGeneration": generation,
        "phase": phase,
        "nodes": {"total": nodes.total, "ready": nodes.ready},
        "works": {"applied": works.applied, "failed": works.failed, "pending": works.pending},
        "conditions": new,
    }
    shown = live.get("lastHubContact") or ""
    if shown:
        status["lastHubContact"] = shown
    if last_contact and status != live:
        status["lastHubContact"] = last_contact
    return status


def applied_state(work: Object) -> str:
    """Return APPLIED, FAILED or PENDING, as the hub has it of a Work."""
    applied = applied_of(work.get("status"))
    status = applied["status"] if applied is not None else ""
    return {"True": APPLIED, "False": FAILED}.get(status, PENDING)


def works_applied(counts: WorkCounts) -> Condition:
    """Return the condition WorksApplied."""
    if counts.failed:
        names = listed(counts.failing, NAMED, counts.failed)
        return WORKS_APPLIED.false("WorksFailed", f"not applied: {names}")
    if counts.pending:
        text = f"{counts.pending} {_works(counts.pending)} to be applied"
        return WORKS_APPLIED.false("WorksPending", text)
    if not counts.applied:
        return WORKS_APPLIED.true("NoWorks", "the virtual cluster has no Works")
    text = f"{counts.applied} {_works(counts.applied)} applied"
    return WORKS_APPLIED.true("AllApplied", text)


def hub_reachable(trouble: str | None, *, is_sent: bool) -> Condition:
    """Return the condition HubReachable; trouble: what the hub does not accept, None = all.

    is_sent: whether anything was sent to it yet.
    """
    if trouble is not None:
        return HUB_REACHABLE.false("NotAccepted", trouble)
    if not is_sent:
        return HUB_REACHABLE.unknown("NothingSent", "the agent has reported nothing to the hub yet")
    return HUB_REACHABLE.true("Accepted", "the hub accepts what the agent reports")


def ready(judged: Condition | None) -> Condition:
    """Return the condition Ready, as the Cluster on the hub has it."""
    if judged is None:
        return READY.unknown("NotJudged", "the agent has not checked the Cluster yet")
    return judged


def _works(count: int) -> str:
    return "Work is" if count == 1 else "Works are"
