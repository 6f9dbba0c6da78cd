"""What the status of a VirtualCluster object is made of, as hub, host and agent see it now."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.cluster.judgements import HubContact, Judgements
from karmada_vc_agent.cluster.membership import Membership
from karmada_vc_agent.cluster.reachable_nodes import ReachableNodes
from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.cluster.rules.node_overlap import node_overlap
from karmada_vc_agent.cluster.rules.nodes_reachable import count_nodes, ready_with
from karmada_vc_agent.features.objects import virtual_cluster_status as rules
from karmada_vc_agent.features.objects.definitions import Definitions
from karmada_vc_agent.features.objects.object_names import Phase
from karmada_vc_agent.features.objects.reading import Definition
from karmada_vc_agent.features.objects.work_tally import WorkTally
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.timestamps import timestamp
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

Tell = Callable[[VirtualCluster, Object], list[Condition]]
"""Returns conditions for a virtual cluster and the live status of its object."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Where the facts are read from.

    trouble: why a virtual cluster is not registered as it should be, or None. stays_away: whether
    one is not going to be registered. tell: conditions that its Cluster has, too.
    """

    clusters: HubClusters
    membership: Membership
    works: WorkTally
    judgements: Judgements
    reachable: ReachableNodes
    contact: HubContact
    trouble: Callable[[str], str | None]
    stays_away: Callable[[str], bool]
    tell: Sequence[Tell]


class Facts:
    """Reads what the status of an object is to say."""

    def __init__(
        self,
        definitions: Definitions,
        seen: Seen,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._definitions = definitions
        self._seen = seen
        self._now = now

    def status(self, definition: Definition) -> Object:
        """Return the status of an object; equal to what it has where nothing is worth a write."""
        observed = self._observe(definition)
        return rules.compose_status(definition.status, observed, timestamp(self._now()))

    def _observe(self, definition: Definition) -> rules.ObservedObject:
        name, seen = definition.name, self._seen
        is_served = self._is_served(name)
        registered = self._registered(definition)
        nodes = seen.membership.nodes_of(name) if is_served else []
        counts = count_nodes(nodes)
        works = seen.works.of(name) if is_served else rules.WorkCounts()
        silent_s = seen.contact.silent_s(name)
        conditions = [registered]
        if is_served:
            reachable = seen.reachable.of(name)
            conditions += [
                rules.ready(self._ready(definition, reachable)),
                reachable,
                node_overlap(seen.membership.overlaps(name)),
                *self._told(definition),
                rules.hub_reachable(seen.contact.problem_of(name), is_known=silent_s is not None),
                rules.works_applied(works),
            ]
        contact = "" if silent_s is None else timestamp(self._now() - timedelta(seconds=silent_s))
        return rules.ObservedObject(
            generation=definition.generation,
            phase=self._phase(definition, registered),
            nodes=counts,
            works=works,
            conditions=conditions,
            last_contact=contact,
        )

    def _is_served(self, name: str) -> bool:
        source = self._definitions.source
        return name in source and source.rival(name) is None

    def _ready(self, definition: Definition, nodes: Condition) -> Condition | None:
        """Return Ready as the Cluster has it, None before its host was looked at."""
        host, vc = self._seen.judgements.of(definition.name), definition.virtual_cluster
        if host is None or vc is None:
            return host
        return ready_with(host, nodes, when_unreachable=vc.ready_when_unreachable)

    def _told(self, definition: Definition) -> list[Condition]:
        vc = definition.virtual_cluster
        if vc is None:
            return []
        return [condition for tell in self._seen.tell for condition in tell(vc, definition.status)]

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
        name, seen = definition.name, self._seen
        cluster = seen.clusters.ours(name)
        if definition.is_deleting:
            text = self._definitions.waits_for(name) or "waiting for the agent"
            return rules.registered("Deleting", text, is_registered=False)
        if reason := self._refusal(definition):
            return rules.registered(*reason, is_registered=False)
        if cluster is not None and cluster["metadata"].get("deletionTimestamp"):
            text = f"Cluster {name} is being deleted on the hub"
            return rules.registered("ClusterDeleting", text, is_registered=False)
        trouble = seen.trouble(name)
        if cluster is not None and trouble is None:
            text = f"Cluster {name} is on the hub"
            return rules.registered("Registered", text, is_registered=True)
        if seen.stays_away(name):
            text = (
                f"Cluster {name} was deleted on the hub; to register it again, change this "
                "object, or delete and recreate it"
            )
            return rules.registered("ClusterDeleted", text, is_registered=False)
        text = trouble or "waiting for the hub"
        return rules.registered("NotRegistered", text, is_registered=False)

    def _refusal(self, definition: Definition) -> tuple[str, str] | None:
        """Return why what an object says is not in use: reason and text, None where it is."""
        name, source = definition.name, self._definitions.source
        if text := source.taken(name):
            return "NameTaken", text
        if problem := self._definitions.problem(name):
            kept = "; the previous settings stay in use" if name in source else ""
            return "Refused", f"{problem}{kept}"
        return None
