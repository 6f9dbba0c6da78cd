"""Everything that controllers are made from, put together once (docs/architecture.md)."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from karmada_vc_agent.cluster.agent_condition import AgentCondition
from karmada_vc_agent.cluster.missing_rights import MissingRights
from karmada_vc_agent.cluster.reachable_nodes import ReachableNodes
from karmada_vc_agent.cluster.rules.conditions import Condition, find_condition
from karmada_vc_agent.cluster.rules.readiness import Thresholds
from karmada_vc_agent.features.adoption.adoption_complete import (
    ADOPTION_COMPLETE,
    adoption_complete,
)
from karmada_vc_agent.features.checkpoint.parts import checkpoint_parts, is_of_checkpoint
from karmada_vc_agent.features.escapes.escaped_pods import EscapedPods
from karmada_vc_agent.features.gateway.parts import GatewayParts
from karmada_vc_agent.features.policies.placement_enforced import with_kept
from karmada_vc_agent.features.policies.placement_state import PlacementState
from karmada_vc_agent.features.windows.namespaces_held import NAMESPACES_HELD, namespaces_held
from karmada_vc_agent.features.windows.takes_changes import TAKES_CHANGES, takes_changes
from karmada_vc_agent.kube.controller import Controller
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.collector import MetricsCollector, Sources
from karmada_vc_agent.runner.common import Common, Process
from karmada_vc_agent.runner.leases import Leases
from karmada_vc_agent.runner.work_parts import WorkParts
from karmada_vc_agent.work.orphaned_objects import OrphanedObjects
from karmada_vc_agent.work.rules.objects_orphaned import OBJECTS_ORPHANED, objects_orphaned


class Parts:
    """What `setup(parts)` of a controller may use.

    common: settings, clients, stores, signals. works: what reads and applies Works. leases: which
    Leases are renewed. placement, escaped: what was found of policies and of pods. gateway: how
    the hub reaches virtual clusters. reachable: what is judged of nodes. missing_rights: which
    rights are missing, and for whom. checkpoint: what is kept of the hub. orphaned: host objects
    without a Work. credential: whether the credential for the hub is renewed in time.
    lease_namespace: whether the hub has the namespace of the Leases.
    controllers: all that run; nobody reads them but metrics.
    """

    def __init__(self, process: Process) -> None:
        self.common = common = Common(process)
        self.leases = Leases()
        self.placement = PlacementState()
        self.escaped = EscapedPods()
        self.works = works = WorkParts(common)
        works.registered.gone.subscribe(self.leases.forget)
        self.gateway = GatewayParts(common, works)
        self.checkpoint = checkpoint_parts(common, works)
        self.reachable = self._reachable()
        self.missing_rights = MissingRights(
            common.clients.lacking,
            common.virtual_clusters,
            common.stores.claims,
            common.config.agent_namespace,
            is_spared=partial(is_of_checkpoint, common.config.agent_name),
        )
        self.credential = self._agent_condition("CredentialRenewed")
        self.lease_namespace = self._agent_condition("LeaseNamespaceExists")
        self.orphaned = OrphanedObjects()
        works.registered.gone.subscribe(self.orphaned.forget)
        self.controllers: list[Controller[Any]] = []
        self.collector = self._collector()

    def names(self, *_change: object) -> Iterable[str]:
        """Return the names of all virtual clusters, whatever changed."""
        return self.common.virtual_clusters

    def kept(self, vc: VirtualCluster, live: Object) -> list[Condition]:
        """Return the condition CheckpointKept where a checkpoint is kept."""
        return self.checkpoint.condition(vc, live) if self.checkpoint is not None else []

    def placement_of(self, cluster: str) -> list[Condition]:
        """Return the condition PlacementEnforced of a virtual cluster, once it is known."""
        return with_kept(self.placement.placement(), self.works.kept.of(cluster))

    def adoption(self, vc: VirtualCluster, live: Object) -> list[Condition]:
        """Return the condition AdoptionComplete while something else owns objects, or did."""
        owned = self.works.owned.of(vc.name)
        was_told = find_condition(live.get("conditions"), ADOPTION_COMPLETE) is not None
        return [adoption_complete(owned)] if owned or was_told else []

    def changes(self, vc: VirtualCluster, live: Object) -> list[Condition]:
        """Return TakesChanges where there are windows or a pause, or were.

        And NamespacesHeld while a namespace is held, or was.
        """
        told, found = live.get("conditions"), []
        if vc.paused or vc.window or find_condition(told, TAKES_CHANGES):
            found.append(takes_changes(vc, self.common.openings.of(vc)))
        held = self.common.held.of(vc.name)
        if held or find_condition(told, NAMESPACES_HELD):
            found.append(namespaces_held(held))
        return found

    def orphans(self, vc: VirtualCluster, live: Object) -> list[Condition]:
        """Return ObjectsOrphaned while host objects have no Work, or had none."""
        count, first = self.orphaned.of(vc.name)
        was_reported = find_condition(live.get("conditions"), OBJECTS_ORPHANED) is not None
        return [objects_orphaned(count, first)] if count or was_reported else []

    def orphans_found(self, name: str, names: list[str]) -> None:
        """Report the host objects of a virtual cluster that have no Work."""
        self.collector.orphans_found(name, len(names))
        cluster = self.common.stores.clusters.ours(name)
        if self.orphaned.note(name, names) and cluster is not None:
            self.works.events.orphaned(cluster, objects_orphaned(*self.orphaned.of(name)))

    def _agent_condition(self, kind: str) -> AgentCondition:
        made = AgentCondition(kind)

        def report() -> None:
            for name in self.names() if made.problem else ():
                if (cluster := self.common.stores.clusters.ours(name)) is not None:
                    self.works.events.agent_failing(cluster, made.reason, made.problem)

        made.changed.subscribe(report)
        return made

    def _reachable(self) -> ReachableNodes:
        common, events = self.common, self.works.events
        config = common.config
        thresholds = Thresholds(config.cluster_success_threshold, config.cluster_failure_threshold)
        return ReachableNodes(
            common.stores.membership, thresholds, events.nodes_reachable, common.clock.monotonic
        )

    def _collector(self) -> MetricsCollector:
        common, works = self.common, self.works
        return MetricsCollector(
            common.virtual_clusters,
            Sources(
                clusters=common.stores.clusters,
                works=works.watches.works,
                membership=common.stores.membership,
                host_objects=lambda: (common.stores.namespaces, *works.informers.stores().values()),
                refused=works.memory.refusals,
                escaped=self.escaped.by_cluster,
                controllers=lambda: self.controllers,
                events_dropped=lambda: works.recorder.dropped,
                is_accepted=common.contact.is_accepted,
                quota_stalled=common.divisions.all,
                not_served=common.origins.refused,
                missing_rights=self.missing_rights.by_cluster,
                bounds_met=lambda: (*works.bounds.met(), *common.stores.kept.met()),
            ),
        )
