"""The status of VirtualCluster objects: composed, counted, and written."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    set_conditions,
)
from karmada_vc_agent.features.objects.definitions import PATH, Definition, Definitions, Phase
from karmada_vc_agent.kube.controller import Requeue
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.kube.events import EventRecorder
from karmada_vc_agent.model.objects import Object, maps_at, merge_patch, timestamp
from karmada_vc_agent.model.user_text import listed
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.parts import OF_CLUSTER_STATUS, Parts, declared_conditions
from karmada_vc_agent.work.reporting import NORMAL, WARNING
from karmada_vc_agent.work.works import applied_of


def _own(name: str, text: str) -> ConditionType:
    return ConditionType(name, text, on_cluster=Shown.NEVER, on_object=Shown.ALWAYS)


REGISTERED = _own("Registered", "The Cluster is on the hub and this agent's.")
HUB_REACHABLE = _own("HubReachable", "The hub accepts what the agent reports.")
WORKS_APPLIED = _own("WorksApplied", "All Works are applied.")
OF_OBJECT_STATUS = (REGISTERED, HUB_REACHABLE, WORKS_APPLIED)
"""Types that only VirtualCluster objects have, since they are the state of those."""

APPLIED, FAILED, PENDING = "applied", "failed", "pending"
NAMED = 3
"""How many Works a message names."""


def compose_status(
    live: Object,
    *,
    generation: int,
    phase: str,
    nodes: tuple[int, int],
    works: Mapping[str, int],
    conditions: Sequence[Condition],
    message: str,
    last_contact: str,
    now: str,
) -> Object:
    """Return the status to write; equal to `live` where nothing is worth it.

    A contact with the hub alone is not: HubReachable says that there is contact, and once there
    is none, that is a change. Conditions that are not observed any more are dropped. last_contact:
    RFC 3339, or "" where there was none.
    """
    old = cast("list[Condition]", maps_at(live, "conditions"))
    new: list[Condition] = []
    for condition in conditions:
        before = find_condition(old, condition["type"])
        new += set_conditions([before] if before else [], [condition], now)
    status: Object = {
        "observedGeneration": generation,
        "phase": phase,
        "nodes": {"total": nodes[0], "ready": nodes[1], "summary": f"{nodes[1]}/{nodes[0]}"},
        "works": dict(works),
        "message": message,
        "conditions": new,
    }
    if live.get("lastHubContact"):
        status["lastHubContact"] = live["lastHubContact"]
    if last_contact and status != live:
        status["lastHubContact"] = last_contact
    return status


_WORST = ("Registered", "Ready", "HubReachable", "NodesReachable", "WorksApplied")
"""Conditions in the order of what they cost a tenant, before all others."""


def abnormal_text(conditions: Iterable[Condition], kinds: Mapping[str, ConditionType]) -> str:
    """Return reason and message of the worst condition that is not normal, "" if all are."""
    abnormal = [each for each in conditions if not kinds[each["type"]].is_normal(each)]
    abnormal.sort(key=lambda each: (*_WORST, each["type"]).index(each["type"]))
    return f"{abnormal[0]['reason']}: {abnormal[0]['message']}" if abnormal else ""


def applied_state(work: Object) -> str:
    """Return APPLIED, FAILED or PENDING, as the hub has it of a Work."""
    applied = applied_of(work.get("status"))
    return {"True": APPLIED, "False": FAILED}.get(applied["status"] if applied else "", PENDING)


def count_works(works: Iterable[Object]) -> tuple[dict[str, int], list[str]]:
    """Return how many Works of a virtual cluster are in each state, and some that failed."""
    states = [(applied_state(work), work["metadata"]["name"]) for work in works]
    counts = Counter(state for state, _ in states)
    failing = nsmallest(NAMED, (name for state, name in states if state == FAILED))
    return {state: counts[state] for state in (APPLIED, FAILED, PENDING)}, failing


def works_applied(counts: Mapping[str, int], failing: Sequence[str]) -> Condition:
    """Return the condition WorksApplied. failing: names of some that failed."""
    if counts[FAILED]:
        names = listed(failing, NAMED, counts[FAILED])
        return WORKS_APPLIED.false("WorksFailed", f"not applied: {names}")
    if counts[PENDING]:
        return WORKS_APPLIED.false("WorksPending", f"{_works(counts[PENDING])} to be applied")
    if not counts[APPLIED]:
        return WORKS_APPLIED.true("NoWorks", "the virtual cluster has no Works")
    return WORKS_APPLIED.true("AllApplied", f"{_works(counts[APPLIED])} applied")


def _works(count: int) -> str:
    return f"{count} Work is" if count == 1 else f"{count} Works are"


def hub_reachable(trouble: str | None, *, is_sent: bool) -> Condition:
    """Return the condition HubReachable; trouble: what the hub does not accept, None = nothing."""
    if trouble is not None:
        return HUB_REACHABLE.false("NotAccepted", trouble)
    if not is_sent:
        return HUB_REACHABLE.unknown("NothingSent", "the agent has reported nothing to the hub yet")
    return HUB_REACHABLE.true("Accepted", "the hub accepts what the agent reports")


def name_of_counted(cluster: str, old: Object | None, new: Object | None) -> Iterable[str]:
    """Return the virtual cluster whose counts a Work changes that was old and is new."""
    before, after = (applied_state(work) if work is not None else "" for work in (old, new))
    return (cluster,) if before != after else ()


PAUSE_S = 5.0
"""Between two writes of one object: what changes meanwhile is in the next."""
CHECK_S = 20.0
"""How often an object is checked for changes without an event, such as that the hub is away."""


class StatusWriter:
    """Sole writer of the status of objects, where it changed.

    conditions: the declared ones. recorder: writes an event for each transition of one.
    """

    def __init__(
        self,
        parts: Parts,
        definitions: Definitions,
        conditions: Callable[[VirtualCluster, Object], Sequence[Condition]],
        recorder: EventRecorder,
    ) -> None:
        common = parts.common
        declared = (spec.type for spec in declared_conditions(parts.features))
        kinds = (*OF_OBJECT_STATUS, *OF_CLUSTER_STATUS, *declared)
        self._kinds = {kind.name: kind for kind in kinds}
        self._recorder, self._agent = recorder, common.config.agent_name
        self._definitions = definitions
        self._source = definitions.source
        self._conditions = conditions
        self._host, self._clock = common.clients.host, common.clock
        self._stores, self._works = common.stores, parts.works.watches.works
        self._judgements, self._reachable = common.judgements, parts.reachable
        self._contact, self._registrations = common.contact, common.registrations
        self._written: dict[str, float] = {}

    async def reconcile(self, name: str) -> Requeue | None:
        """Write the status of one object if it changed. Raises KubeError."""
        definition = await self._definitions.take(name)
        if definition is None or not self._source.serves(name):
            self._written.pop(name, None)
            return None
        before, status = definition.status, self.status(definition)
        if status == before:
            return Requeue(CHECK_S)
        pause_s = self._written.get(name, float("-inf")) + PAUSE_S - self._clock.monotonic()
        if pause_s > 0:
            return Requeue(pause_s)
        patch = {"status": merge_patch(before, status)}
        body = {"metadata": {"uid": definition.uid}, **patch}
        try:
            answer = await self._host.merge_patch(f"{PATH}/{name}/status", body)
        except NotFoundError:
            self._written.pop(name, None)
            self._definitions.forget(name)
            return None
        self._written[name] = self._clock.monotonic()
        self._report(before, answer, status["conditions"])
        self._definitions.observe(answer)
        return Requeue(CHECK_S)

    def _report(self, before: Object, obj: Object, conditions: Iterable[Condition]) -> None:
        """Write an event for each condition that is not normal now, or is again."""
        for condition in conditions:
            kind = self._kinds[condition["type"]]
            if kind.is_news(kind.find(before.get("conditions")), condition):
                event = NORMAL if kind.is_normal(condition) else WARNING
                text = f"{kind.name}: {condition['message']}"
                self._recorder.record(self._agent, obj, event, condition["reason"], text)

    def status(self, definition: Definition) -> Object:
        """Return the status of an object; equal to its own where nothing is worth a write."""
        name, vc = definition.name, definition.virtual_cluster
        is_served = name in self._source and self._source.rival(name) is None
        counts, failing = count_works(self._works.of(name) if is_served else ())
        silent_s = self._contact.silent_s(name)
        registered = self._registered(definition)
        conditions = [registered]
        if is_served:
            conditions += [
                self._ready(definition),
                self._reachable.of(name),
                *(self._conditions(vc, definition.status) if vc is not None else ()),
                hub_reachable(self._contact.problem_of(name), is_sent=silent_s is not None),
                works_applied(counts, failing),
            ]
        now, contact = self._clock.now(), ""
        if silent_s is not None:
            contact = timestamp(datetime.fromisoformat(now) - timedelta(seconds=silent_s))
        return compose_status(
            definition.status,
            generation=definition.generation,
            phase=self._phase(definition, registered),
            nodes=count_nodes(self._stores.membership.nodes_of(name) if is_served else []),
            works=counts,
            conditions=conditions,
            message=abnormal_text(conditions, self._kinds),
            last_contact=contact,
            now=now,
        )

    def _ready(self, definition: Definition) -> Condition:
        name, vc = definition.name, definition.virtual_cluster
        host = self._judgements.of(name)
        if host is None:
            return READY.unknown("NotJudged", "the agent has not checked the Cluster yet")
        is_ready_alone = vc is None or vc.ready_when_unreachable
        return ready_with(host, self._reachable.of(name), when_unreachable=is_ready_alone)

    def _phase(self, definition: Definition, registered: Condition) -> Phase:
        vc = definition.virtual_cluster
        if definition.is_deleting:
            return "Deleting"
        if definition.refusal or self._source.rival(definition.name) is not None:
            return "Refused"
        if vc is not None and vc.paused:
            return "Paused"
        return "Active" if registered["status"] == "True" else "Pending"

    def _registered(self, definition: Definition) -> Condition:
        name = definition.name
        cluster = self._stores.clusters.ours(name)
        if definition.is_deleting:
            text = definition.waits_for or "waiting for the agent"
            return REGISTERED.false("Deleting", text)
        if text := self._source.taken(name):
            return REGISTERED.false("NameTaken", text)
        if definition.refusal:
            kept = "; the previous settings stay in use" if name in self._source else ""
            return REGISTERED.false("Refused", f"{definition.refusal}{kept}")
        if cluster is not None and cluster["metadata"].get("deletionTimestamp"):
            text = f"Cluster {name} is being deleted on the hub"
            return REGISTERED.false("ClusterDeleting", text)
        trouble = self._registrations.troubles.get(name)
        if cluster is not None and trouble is None:
            return REGISTERED.true("Registered", f"Cluster {name} is on the hub")
        reason, text = "NotRegistered", trouble or "waiting for the hub"
        if self._registrations.stays_away(name):
            reason = "ClusterDeleted"
            text = (
                f"Cluster {name} was deleted on the hub; to register it again, change this "
                "object, or delete and recreate it"
            )
        return REGISTERED.false(reason, text)
