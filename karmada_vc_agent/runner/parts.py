"""Everything that controllers are made from, put together once (docs/architecture.md)."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from karmada_vc_agent.cluster.agent_condition import AgentCondition
from karmada_vc_agent.cluster.missing_rights import MissingRights
from karmada_vc_agent.cluster.reachable_nodes import ReachableNodes
from karmada_vc_agent.cluster.rules.nodes_reachable import NODES_REACHABLE
from karmada_vc_agent.cluster.rules.readiness import Thresholds
from karmada_vc_agent.kube.controller import Controller
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.runner.collector import MetricsCollector
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.leases import Leases
from karmada_vc_agent.runner.offline import SavedHub
from karmada_vc_agent.runner.work_parts import WorkParts
from karmada_vc_agent.work.orphaned_objects import OrphanedObjects

if TYPE_CHECKING:
    from karmada_vc_agent.runner.feature import Feature

Runs = Callable[[], Awaitable[None]]


class Parts:
    """The input of `setup(parts)` of a controller.

    common: settings, clients, stores, signals. works: what reads and applies Works. leases: which
    Leases are renewed. features: those of this agent. runs: what features run from the start on, by
    name; keeps: what they run with the controllers, and the end does not wait for; ends: what ends
    by itself. spared_rights: which of the rights the agent works without. reachable: what is judged
    of nodes. missing_rights: which rights are missing, and for whom. checkpoint: what is saved of
    the hub. orphaned: host objects without a Work. credential: whether the credential for the hub
    is renewed in time. lease_namespace: whether the hub has the namespace of the Leases.
    controllers: all that run, for metrics.
    """

    def __init__(self, common: Common, features: "tuple[Feature, ...]") -> None:
        self.common = common
        self.features = features
        for feature in features:
            feature.prepare(common)
        self.leases = Leases(common.scopes)
        self.works = WorkParts(common)
        self.checkpoint: SavedHub | None = None
        self.reachable = self._reachable()
        self.missing_rights = MissingRights(
            common.clients.lacking,
            common.virtual_clusters,
            common.stores.claims,
            common.config.agent_namespace,
            is_spared=lambda need: any(is_spared(need) for is_spared in self.spared_rights),
        )
        self.credential = AgentCondition()
        self.lease_namespace = AgentCondition()
        self.orphaned = OrphanedObjects(common.scopes)
        self.controllers: list[Controller[Any]] = []
        self.runs: dict[str, Runs] = {}
        self.keeps: dict[str, Runs] = {}
        self.ends: dict[str, Runs] = {}
        self.spared_rights: list[Callable[[Need], bool]] = []
        self.collector = MetricsCollector(
            common, self.works, self.orphaned, self.missing_rights, self.controllers
        )
        for feature in features:
            feature.connect(self)

    def names(self, *_change: object) -> Iterable[str]:
        """Return the names of all virtual clusters, whatever changed."""
        return self.common.virtual_clusters

    def _reachable(self) -> ReachableNodes:
        common, config = self.common, self.common.config
        thresholds = Thresholds(config.cluster_success_threshold, config.cluster_failure_threshold)
        return ReachableNodes(
            common.stores.membership,
            thresholds,
            lambda cluster, condition: self.works.events.condition_changed(
                cluster, NODES_REACHABLE, condition
            ),
            common.clock.monotonic,
            common.scopes,
        )
