"""Keeps the status of VirtualCluster objects, from the state of hub, host and agent."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.cluster.judgements import HubContact, Judgements
from karmada_vc_agent.cluster.membership import Membership
from karmada_vc_agent.cluster.reachable_nodes import ReachableNodes
from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.cluster.rules.nodes_reachable import count_nodes, ready_with
from karmada_vc_agent.features.objects import virtual_cluster_status as rules
from karmada_vc_agent.features.objects.definitions import Definitions
from karmada_vc_agent.features.objects.object_names import PATH, Phase
from karmada_vc_agent.features.objects.reading import Definition
from karmada_vc_agent.features.objects.work_tally import WorkTally
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Requeue
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.model.merge_patch import merge_patch
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.timestamps import timestamp
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

PAUSE_S = 5.0
"""Between two writes of one object: what changes meanwhile is in the next."""
CHECK_S = 20.0
"""How often an object is checked for changes without an event, such as that the hub is away."""


class StatusWriter:
    """Writes the status of an object where it changed; sole writer of it.

    trouble: why a virtual cluster is not registered as it should be, or None. stays_away: whether
    one is not going to be registered. conditions: the declared ones, of a virtual cluster and the
    status that it has. now: wall clock; clock: monotonic.
    """

    def __init__(
        self,
        host: ApiClient,
        definitions: Definitions,
        *,
        clusters: HubClusters,
        membership: Membership,
        works: WorkTally,
        judgements: Judgements,
        reachable: ReachableNodes,
        contact: HubContact,
        trouble: Callable[[str], str | None],
        stays_away: Callable[[str], bool],
        conditions: Callable[[VirtualCluster, Object], Sequence[Condition]],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._definitions = definitions
        self._clusters = clusters
        self._membership = membership
        self._works = works
        self._judgements = judgements
        self._reachable = reachable
        self._contact = contact
        self._trouble = trouble
        self._stays_away = stays_away
        self._conditions = conditions
        self._now = now
        self._clock = clock
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
        pause_s = self._written.get(name, float("-inf")) + PAUSE_S - self._clock()
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
        self._written[name] = self._clock()
        self._definitions.observe(answer)
        return Requeue(CHECK_S)

    def status(self, definition: Definition) -> Object:
        """Return the status of an object; equal to its own where nothing is worth a write."""
        name = definition.name
        is_served = self._is_served(name)
        registered = self._registered(definition)
        nodes = self._membership.nodes_of(name) if is_served else []
        works = self._works.of(name) if is_served else rules.WorkCounts()
        silent_s = self._contact.silent_s(name)
        conditions = [registered]
        if is_served:
            reachable = self._reachable.of(name)
            conditions += [
                rules.ready(self._ready(definition, reachable)),
                reachable,
                *self._declared(definition),
                rules.hub_reachable(self._contact.problem_of(name), is_sent=silent_s is not None),
                rules.works_applied(works),
            ]
        contact = "" if silent_s is None else timestamp(self._now() - timedelta(seconds=silent_s))
        return rules.compose_status(
            definition.status,
            generation=definition.generation,
            phase=self._phase(definition, registered),
            nodes=count_nodes(nodes),
            works=works,
            conditions=conditions,
            last_contact=contact,
            now=timestamp(self._now()),
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
            return rules.REGISTERED.false("Deleting", text)
        if reason := self._refusal(definition):
            return rules.REGISTERED.false(*reason)
        if cluster is not None and cluster["metadata"].get("deletionTimestamp"):
            text = f"Cluster {name} is being deleted on the hub"
            return rules.REGISTERED.false("ClusterDeleting", text)
        trouble = self._trouble(name)
        if cluster is not None and trouble is None:
            text = f"Cluster {name} is on the hub"
            return rules.REGISTERED.true("Registered", text)
        if self._stays_away(name):
            text = (
                f"Cluster {name} was deleted on the hub; to register it again, change this "
                "object, or delete and recreate it"
            )
            return rules.REGISTERED.false("ClusterDeleted", text)
        text = trouble or "waiting for the hub"
        return rules.REGISTERED.false("NotRegistered", text)

    def _refusal(self, definition: Definition) -> tuple[str, str] | None:
        """Return why an object is not served as it is: reason and text, None where it is."""
        name, source = definition.name, self._definitions.source
        if text := source.taken(name):
            return "NameTaken", text
        if problem := self._definitions.problem(name):
            kept = "; the previous settings stay in use" if name in source else ""
            return "Refused", f"{problem}{kept}"
        return None
