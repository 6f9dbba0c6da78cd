"""The controllers of Clusters on the hub: registration, status, Leases, departures."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from karmada_vc_agent.controllers import (
    cluster_status,
)
from karmada_vc_agent.controllers import registration as registration_keys
from karmada_vc_agent.controllers.cluster_lease import ClusterLeaseController
from karmada_vc_agent.controllers.cluster_status import (
    ClusterStatusController,
    Gates,
    HostView,
    StatusTimes,
)
from karmada_vc_agent.controllers.departures import DeparturesController
from karmada_vc_agent.controllers.quotas import QuotaController
from karmada_vc_agent.controllers.registration import RegistrationController
from karmada_vc_agent.kube.controller import ControllerSpec, Requeue
from karmada_vc_agent.kube.health_probe import HealthProbe
from karmada_vc_agent.kube.sources import Enqueues
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.switches import (
    CLUSTER_RESOURCE_MODELING,
    CLUSTER_STATUS,
)
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.service.clients import lease_lanes
from karmada_vc_agent.service.common import Common, itself, now
from karmada_vc_agent.service.leases import Leases, Reconcile
from karmada_vc_agent.service.placement_parts import PlacementParts
from karmada_vc_agent.service.queues import FEW_WORKERS
from karmada_vc_agent.service.work_parts import WorkParts
from karmada_vc_agent.status.conditions import Condition
from karmada_vc_agent.status.group_trusted import group_trusted
from karmada_vc_agent.status.readiness import Thresholds
from karmada_vc_agent.telemetry.collector import HUB, MetricsCollector, StatusMeter
from karmada_vc_agent.views.judgements import LEASE
from karmada_vc_agent.views.named_nodes import NamedNodes

NODE_CHANGE_SETTLES_S = 0.2
"""Changes of nodes come in groups; one status write is enough for those of this time."""


class ClusterControllers:
    """Declares them; they are about Clusters, whatever Works these have."""

    def __init__(
        self,
        common: Common,
        works: WorkParts,
        placement: PlacementParts,
        leases: Leases,
        collector: MetricsCollector,
        registration: RegistrationController,
        quotas: QuotaController,
    ) -> None:
        self._common = common
        self._works = works
        self._placement = placement
        self._leases = leases
        self._collector = collector
        self._registration = registration
        self._quotas = quotas

    def specs(self) -> tuple[ControllerSpec[Any], ...]:
        """Return a row for each."""
        common, queues = self._common, self._common.queues
        registration, vcs = self._registration, common.virtual_clusters
        clusters = common.stores.clusters.store.add_handler
        lease = ClusterLeaseController(
            common.clients.hub_leases,
            common.stores.clusters,
            common.config.cluster_lease_duration,
            common.config.cluster_lease_renew_interval_fraction,
            common.lead,
            on_renewed=self._renewed,
            on_skew=self._collector.lease_ahead,
        )
        status = self._status_controller()
        return (
            ControllerSpec(
                "cluster-lease",
                queues.leases,
                self._leases.noting(self._in_contact(lease.reconcile)),
                lease_lanes(len(common.virtual_clusters)),
                switch=CLUSTER_STATUS,
            ),
            ControllerSpec(
                "departures",
                queues.departures,
                self._departures().reconcile,
                initial_keys=common.state.clusters,
            ),
            ControllerSpec(
                "registration",
                queues.registration,
                registration.reconcile,
                FEW_WORKERS,
                initial_keys=self._names,
                sources=(Enqueues(clusters, partial(registration_keys.keys_of_cluster, vcs)),),
                resync_keys=self._names,
            ),
            ControllerSpec(
                "cluster-status",
                queues.status,
                status.reconcile,
                common.config.concurrent_cluster_syncs,
                switch=CLUSTER_STATUS,
                sources=(
                    Enqueues(
                        clusters,
                        partial(cluster_status.keys_of_cluster, common.stores.clusters, vcs),
                    ),
                    Enqueues(common.stores.membership.add_listener, itself, NODE_CHANGE_SETTLES_S),
                    Enqueues(common.signals.placement.subscribe, self._names),
                ),
                resync_keys=self._names,
            ),
        )

    def _renewed(self, name: str) -> None:
        self._collector.contact(name, HUB)
        self._common.contact.accepted(name, LEASE)

    def _in_contact(self, renew: Reconcile) -> Reconcile:
        """Return `renew` such that it is noted why the hub does not take a Lease."""
        contact, lead = self._common.contact, self._common.lead

        async def noted(name: str) -> Requeue | None:
            outcome = await contact.noting(name, LEASE, renew(name))
            if outcome is None or not lead.may_report():
                contact.forget(name)
            return outcome

        return noted

    def _departures(self) -> DeparturesController:
        common, stays_away = self._common, self._registration.stays_away
        return DeparturesController(
            common.clients.hub,
            common.clients.host,
            common.discoveries.host,
            common.stores.clusters,
            common.state,
            self._works.shared_objects,
            is_served=lambda name: name in common.virtual_clusters and not stays_away(name),
            is_wanted=lambda name: name in common.virtual_clusters,
        )

    def _status_controller(self) -> ClusterStatusController:
        common, config = self._common, self._common.config
        host = common.clients.host_urgent
        frequency_s = config.cluster_status_update_frequency
        view = HostView(
            client=host,
            probe=HealthProbe(host, max_age_s=frequency_s / 2),
            discovery=common.discoveries.host,
            membership=common.stores.membership,
            pods=common.stores.pods,
            claims=common.stores.claims,
            cluster_scoped_kinds=common.settings.cluster_scoped_kinds,
            placement=self._placement.guard.condition,
            more=(
                self._quotas.condition,
                common.agent_node.condition,
                NamedNodes(common.stores.nodes).condition,
                self._group_trusted,
                self._placement.guard.confinement,
            ),
        )
        thresholds = Thresholds(config.cluster_success_threshold, config.cluster_failure_threshold)
        return ClusterStatusController(
            common.clients.hub_urgent,
            common.stores.clusters,
            view,
            common.virtual_clusters,
            StatusTimes(frequency_s, thresholds),
            Gates(common.lead.may_report, self._works.finalizer.is_terminating),
            common.judgements,
            common.contact,
            with_resources=config.enable_cluster_resource_modeling,
            with_models=common.gates[CLUSTER_RESOURCE_MODELING],
            on_ready=self._leases.start,
            now=now,
            instrument=StatusMeter(common.metrics, self._collector),
        )

    def _group_trusted(self, vc: VirtualCluster, _live: Object) -> list[Condition]:
        trust = self._common.stores.trust
        found = group_trusted(
            vc, has_kubeedge=trust.has_kubeedge, node_restriction=trust.node_restriction
        )
        return [found]

    def _names(self) -> Iterable[str]:
        return self._common.virtual_clusters
