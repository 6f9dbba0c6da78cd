"""The status of VirtualCluster objects: composed, counted, and written."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import nsmallest
from typing import cast

from karmada_vc_agent.cluster.rules.conditions import (
    READY,
    Condition,
    ConditionType,
    Shown,
    count_nodes,
    find_condition,
    ready_with,
    set_condition,
)
from karmada_vc_agent.features.objects.definitions import PATH, Definition, Definitions, Phase
from karmada_vc_agent.kube.controller import Requeue
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.model.objects import Object, maps_at, merge_patch, timestamp
from karmada_vc_agent.model.user_text import listed
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.work.works import applied_of

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
    nodes: tuple[int, int],
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
        "nodes": {"total": nodes[0], "ready": nodes[1]},
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


def count_works(works: Iterable[Object]) -> WorkCounts:
    """Count the Works of a virtual cluster."""
    names: dict[str, list[str]] = {APPLIED: [], FAILED: [], PENDING: []}
    for work in works:
        names[applied_state(work)].append(work["metadata"]["name"])
    failing = tuple(nsmallest(NAMED, names[FAILED]))
    return WorkCounts(len(names[APPLIED]), len(names[FAILED]), len(names[PENDING]), failing)


def name_of_counted(cluster: str, old: Object | None, new: Object | None) -> Iterable[str]:
    """Return the virtual cluster whose counts a Work changes that was old and is new."""
    before, after = (applied_state(work) if work is not None else "" for work in (old, new))
    return (cluster,) if before != after else ()


PAUSE_S = 5.0
"""Between two writes of one object: what changes meanwhile is in the next."""
CHECK_S = 20.0
"""How often an object is checked for changes without an event, such as that the hub is away."""


class StatusWriter:
    """Writes the status of an object where it changed; sole writer of it.

    conditions: the declared ones, of a virtual cluster and the status that it has.
    """

    def __init__(
        self,
        parts: Parts,
        definitions: Definitions,
        conditions: Callable[[VirtualCluster, Object], Sequence[Condition]],
    ) -> None:
        common = parts.common
        self._definitions = definitions
        self._conditions = conditions
        self._host = common.clients.host
        self._clusters = common.stores.clusters
        self._membership = common.stores.membership
        self._works = parts.works.watches.works
        self._judgements = common.judgements
        self._reachable = parts.reachable
        self._contact = common.contact
        self._registrations = common.registrations
        self._clock = common.clock
        self._written: dict[str, float] = {}

    async def reconcile(self, name: str) -> Requeue | None:
        """Write the status of one object if it changed. Raises KubeError."""
        definition = self._definitions.of(name)
        if definition is None:
            self._written.pop(name, None)
            return None
        if self._definitions.is_to_be_taken(name):
            await self._definitions.take(name)  # it may be deleted meanwhile
            definition = self._definitions.of(name) or definition
        status = self.status(definition)
        if status == definition.status:
            return Requeue(CHECK_S)
        pause_s = self._written.get(name, float("-inf")) + PAUSE_S - self._clock.monotonic()
        if pause_s > 0:
            return Requeue(pause_s)
        patch = {"status": merge_patch(definition.status, status)}
        body = {"metadata": {"uid": definition.uid}, **patch}
        try:
            answer = await self._host.merge_patch(f"{PATH}/{name}/status", body)
        except NotFoundError:
            self._written.pop(name, None)
            self._definitions.forget(name)
            return None
        self._written[name] = self._clock.monotonic()
        self._definitions.observe(answer)
        return Requeue(CHECK_S)

    def status(self, definition: Definition) -> Object:
        """Return the status of an object; equal to its own where nothing is worth a write."""
        name = definition.name
        is_served = self._is_served(name)
        registered = self._registered(definition)
        nodes = self._membership.nodes_of(name) if is_served else []
        works = count_works(self._works.of(name) if is_served else ())
        silent_s = self._contact.silent_s(name)
        conditions = [registered]
        if is_served:
            reachable = self._reachable.of(name)
            conditions += [
                ready(self._ready(definition, reachable)),
                reachable,
                *self._declared(definition),
                hub_reachable(self._contact.problem_of(name), is_sent=silent_s is not None),
                works_applied(works),
            ]
        now, contact = self._clock.now(), ""
        if silent_s is not None:
            contact = timestamp(datetime.fromisoformat(now) - timedelta(seconds=silent_s))
        return compose_status(
            definition.status,
            generation=definition.generation,
            phase=self._phase(definition, registered),
            nodes=count_nodes(nodes),
            works=works,
            conditions=conditions,
            last_contact=contact,
            now=now,
        )

    def _is_served(self, name: str) -> bool:
        source = self._definitions.source
        return name in source and source.rival(name) is None

    def _ready(self, definition: Definition, nodes: Condition) -> Condition | None:
        """Return Ready as the Cluster has it, None before its host was checked."""
        host, vc = self._judgements.of(definition.name), definition.virtual_cluster
        if host is None or vc is None:
            return host
        return ready_with(host, nodes, when_unreachable=vc.ready_when_unreachable)

    def _declared(self, definition: Definition) -> Sequence[Condition]:
        vc = definition.virtual_cluster
        return self._conditions(vc, definition.status) if vc is not None else ()

    def _phase(self, definition: Definition, registered: Condition) -> Phase:
        name, vc = definition.name, definition.virtual_cluster
        if definition.is_deleting:
            return "Deleting"
        if self._definitions.problem(name) or self._definitions.source.rival(name) is not None:
            return "Refused"
        if vc is not None and vc.paused:
            return "Paused"
        return "Active" if registered["status"] == "True" else "Pending"

    def _registered(self, definition: Definition) -> Condition:
        name = definition.name
        cluster = self._clusters.ours(name)
        if definition.is_deleting:
            text = self._definitions.waits_for(name) or "waiting for the agent"
            return REGISTERED.false("Deleting", text)
        if reason := self._refusal(definition):
            return REGISTERED.false(*reason)
        if cluster is not None and cluster["metadata"].get("deletionTimestamp"):
            text = f"Cluster {name} is being deleted on the hub"
            return REGISTERED.false("ClusterDeleting", text)
        trouble = self._registrations.troubles.get(name)
        if cluster is not None and trouble is None:
            text = f"Cluster {name} is on the hub"
            return REGISTERED.true("Registered", text)
        if self._registrations.stays_away(name):
            text = (
                f"Cluster {name} was deleted on the hub; to register it again, change this "
                "object, or delete and recreate it"
            )
            return REGISTERED.false("ClusterDeleted", text)
        text = trouble or "waiting for the hub"
        return REGISTERED.false("NotRegistered", text)

    def _refusal(self, definition: Definition) -> tuple[str, str] | None:
        """Return why an object is not served as it is: reason and text, None where it is."""
        name, source = definition.name, self._definitions.source
        if text := source.taken(name):
            return "NameTaken", text
        if problem := self._definitions.problem(name):
            kept = "; the previous settings stay in use" if name in source else ""
            return "Refused", f"{problem}{kept}"
        return None
