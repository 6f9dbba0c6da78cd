"""All controllers: who works on which queue, with how many workers."""

from typing import Any

from karmada_vc_agent.controllers.admin_role import AdminRoleController
from karmada_vc_agent.controllers.cluster_lease import ClusterLeaseController
from karmada_vc_agent.controllers.cluster_status import (
    ClusterStatusController,
    Gates,
    HostView,
    StatusTimes,
)
from karmada_vc_agent.controllers.departures import DeparturesController
from karmada_vc_agent.controllers.node_labels import MembershipController
from karmada_vc_agent.controllers.node_taints import NodeTaintsController
from karmada_vc_agent.controllers.orphans import OrphansController
from karmada_vc_agent.controllers.quotas import QuotaController
from karmada_vc_agent.controllers.registration import RegistrationController
from karmada_vc_agent.controllers.service_names import ServiceNamesController
from karmada_vc_agent.kube.controller import Controller, Requeue
from karmada_vc_agent.kube.health_probe import HealthProbe
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.switches import (
    CERT_ROTATION,
    CLUSTER_RESOURCE_MODELING,
    CLUSTER_STATUS,
    EXECUTION,
)
from karmada_vc_agent.model.tenancy import STRICT
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.service.clients import lease_lanes
from karmada_vc_agent.service.common import Common, now
from karmada_vc_agent.service.leases import Leases, Reconcile
from karmada_vc_agent.service.placement_parts import PlacementParts
from karmada_vc_agent.service.queues import FEW_WORKERS
from karmada_vc_agent.service.work_parts import WorkParts
from karmada_vc_agent.status.conditions import Condition
from karmada_vc_agent.status.group_trusted import group_trusted
from karmada_vc_agent.status.readiness import Thresholds
from karmada_vc_agent.telemetry.collector import HUB, MetricsCollector, StatusMeter
from karmada_vc_agent.views.judgements import LEASE

SWITCHES = {
    "cluster-lease": CLUSTER_STATUS,
    "cluster-status": CLUSTER_STATUS,
    "execution": EXECUTION,
}
"""Controller here -> the name it is switched by; others always run (docs/adr/0009)."""


class Controllers:
    """Makes the controllers, and those of their parts that nobody else needs."""

    def __init__(
        self,
        common: Common,
        works: WorkParts,
        placement: PlacementParts,
        leases: Leases,
        collector: MetricsCollector,
        registration: RegistrationController,
    ) -> None:
        self._common = common
        self._works = works
        self._placement = placement
        self._leases = leases
        self._collector = collector
        self._registration = registration
        self._quotas = QuotaController(
            common.clients.host,
            works.store_of,
            common.stores.claims,
            common.stores.membership,
            common.virtual_clusters,
            common.divisions,
            on_change=common.queues.status.add,
        )

    def all(self) -> list[Controller[Any]]:
        """Return the controllers that are switched on."""
        made = (*self._of_clusters(), *self._of_the_host(), *self._of_works())
        switches = self._common.switches | {None}
        return [c for c in made if SWITCHES.get(c.name) in switches] + self._optional()

    # --- Clusters -----------------------------------------------------------------------

    def _of_clusters(self) -> tuple[Controller[Any], ...]:
        common, queues = self._common, self._common.queues
        registration = self._registration
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
        workers = common.config.concurrent_cluster_syncs
        return (
            Controller(
                "cluster-lease",
                queues.leases,
                self._leases.noting(self._in_contact(lease.reconcile)),
                lease_lanes(len(common.virtual_clusters)),
            ),
            Controller("departures", queues.departures, self._departures().reconcile, 1),
            Controller("registration", queues.registration, registration.reconcile, FEW_WORKERS),
            Controller("cluster-status", queues.status, status.reconcile, workers),
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

    # --- the host -----------------------------------------------------------------------

    def _of_the_host(self) -> tuple[Controller[Any], ...]:
        common, queues, config = self._common, self._common.queues, self._common.config
        host, stores, vcs = common.clients.host, common.stores, common.virtual_clusters
        orphans = OrphansController(
            host,
            common.discoveries.host,
            stores.claims,
            self._works.watches.works,
            vcs,
            on_counted=self._collector.orphans_found,
        )
        names = ServiceNamesController(
            host,
            stores.claims,
            vcs,
            config.agent_name,
            config.dns_namespace,
            config.cluster_domain,
        )
        membership = MembershipController(
            host,
            stores.nodes,
            stores.membership,
            vcs,
            lambda name: stores.clusters.other_agent(name) is not None,
        )
        taints = NodeTaintsController(stores.taints, self._works.watches.works, queues.works.add)
        admin_role = AdminRoleController(
            host, common.discoveries.host, is_strict=config.tenancy == STRICT
        )
        guard, escapes = self._placement.guard, self._placement.escapes
        return (
            Controller("orphans", queues.orphans, orphans.reconcile, 1),
            Controller("service-names", queues.service_names, names.reconcile, 1),
            Controller("quotas", queues.quotas, self._quotas.reconcile, FEW_WORKERS),
            Controller("membership", queues.nodes, membership.reconcile, FEW_WORKERS),
            Controller("node-taints", queues.taints, taints.reconcile, 1),
            Controller("admin-role", queues.admin_role, admin_role.reconcile, 1),
            Controller("placement-guard", queues.guard, guard.reconcile, 1),
            Controller("escape-detector", queues.escapes, escapes.reconcile, FEW_WORKERS),
        )

    # --- Works --------------------------------------------------------------------------

    def _of_works(self) -> tuple[Controller[Any], ...]:
        queues, works = self._common.queues, self._works
        workers = self._common.config.concurrent_work_syncs
        return (
            Controller("namespaces", queues.namespaces, works.namespaces.reconcile, FEW_WORKERS),
            Controller("execution", queues.works, works.execution.reconcile, workers),
        )

    # --- only where asked for -----------------------------------------------------------

    def _optional(self) -> list[Controller[Any]]:
        queues, slices = self._common.queues, self._works.endpoint_slices
        optional: list[Controller[Any] | None] = []
        if slices is not None:  # by Karmada's name; collecting is part of it here
            optional.append(
                Controller("service-export", queues.services, slices.reconcile, FEW_WORKERS)
            )
        if CERT_ROTATION in self._common.switches:
            # What it needs to make keys costs 8 MB of memory, which few agents have use for.
            from karmada_vc_agent.service.rotation import rotation  # noqa: PLC0415

            optional.append(rotation(self._common))
        return [controller for controller in optional if controller is not None]
