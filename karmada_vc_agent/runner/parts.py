"""Everything that controllers are made from, put together once (docs/architecture.md)."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from karmada_vc_agent.cluster.agent_condition import AgentCondition
from karmada_vc_agent.cluster.missing_rights import MissingRights
from karmada_vc_agent.cluster.reachable_nodes import ReachableNodes
from karmada_vc_agent.cluster.rules.nodes_reachable import NODES_REACHABLE
from karmada_vc_agent.cluster.rules.readiness import Thresholds
from karmada_vc_agent.features.checkpoint.parts import checkpoint_parts, is_of_checkpoint
from karmada_vc_agent.features.escapes.escaped_pods import EscapedPods
from karmada_vc_agent.features.gateway.parts import GatewayParts
from karmada_vc_agent.features.policies.placement_state import PlacementState
from karmada_vc_agent.kube.controller import Controller
from karmada_vc_agent.runner.collector import MetricsCollector, Sources
from karmada_vc_agent.runner.common import Common, Process
from karmada_vc_agent.runner.leases import Leases
from karmada_vc_agent.runner.work_parts import WorkParts
from karmada_vc_agent.work.orphaned_objects import OrphanedObjects


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
        self.leases = Leases(common.scopes)
        self.placement = PlacementState()
        self.escaped = EscapedPods()
        self.works = works = WorkParts(common)
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
        self.credential = AgentCondition()
        self.lease_namespace = AgentCondition()
        self.orphaned = OrphanedObjects(common.scopes)
        self.controllers: list[Controller[Any]] = []
        self.collector = self._collector()

    def names(self, *_change: object) -> Iterable[str]:
        """Return the names of all virtual clusters, whatever changed."""
        return self.common.virtual_clusters

    def _reachable(self) -> ReachableNodes:
        common, config = self.common, self.common.config
        thresholds = Thresholds(config.cluster_success_threshold, config.cluster_failure_threshold)
        return ReachableNodes(
            common.stores.membership,
            thresholds,
            lambda cluster, found: self.works.events.condition_changed(
                cluster, NODES_REACHABLE, found
            ),
            common.clock.monotonic,
            common.scopes,
        )

    def _collector(self) -> MetricsCollector:
        common, works = self.common, self.works
        return MetricsCollector(
            common.virtual_clusters,
            common.scopes,
            Sources(
                clusters=common.stores.clusters,
                works=works.watches.works,
                membership=common.stores.membership,
                host_objects=lambda: (common.stores.namespaces, *works.informers.stores().values()),
                refused=works.memory.refusals,
                escaped=self.escaped.by_cluster,
                controllers=lambda: self.controllers,
                events_dropped=lambda: works.recorder.dropped,
                orphans=self.orphaned.counts,
                is_accepted=common.contact.is_accepted,
                quota_stalled=common.divisions.all,
                not_served=common.origins.refused,
                missing_rights=self.missing_rights.by_cluster,
                bounds_met=lambda: (*works.bounds.met(), *common.stores.kept.met()),
            ),
        )
