"""All controllers: who works on which queue, with how many workers, and what brings up its keys."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from karmada_vc_agent.apply.affected_works import (
    healed_by_kinds,
    healed_by_object,
    released_clusters,
)
from karmada_vc_agent.apply.namespace_writer import Pair
from karmada_vc_agent.controllers import (
    cluster_status,
    namespaces,
    node_labels,
    node_taints,
    quotas,
    service_names,
)
from karmada_vc_agent.controllers import registration as registration_keys
from karmada_vc_agent.controllers.admin_role import ADMIN_ROLE, AdminRoleController
from karmada_vc_agent.controllers.cluster_lease import ClusterLeaseController
from karmada_vc_agent.controllers.cluster_status import (
    ClusterStatusController,
    Gates,
    HostView,
    StatusTimes,
)
from karmada_vc_agent.controllers.departures import DeparturesController
from karmada_vc_agent.controllers.escape_detector import SETTLES_S
from karmada_vc_agent.controllers.namespaces import DEFAULT_NAMESPACE
from karmada_vc_agent.controllers.node_labels import MembershipController
from karmada_vc_agent.controllers.node_taints import NodeTaintsController
from karmada_vc_agent.controllers.orphans import INITIAL_DELAY_S, OrphansController
from karmada_vc_agent.controllers.placement_guard import EVERYTHING
from karmada_vc_agent.controllers.quotas import QuotaController
from karmada_vc_agent.controllers.registration import RegistrationController
from karmada_vc_agent.controllers.service_names import SERVICE_NAMES, ServiceNamesController
from karmada_vc_agent.kube.controller import Controller, ControllerSpec, Requeue
from karmada_vc_agent.kube.health_probe import HealthProbe
from karmada_vc_agent.kube.sources import Enqueues, Heals, Retries, Source
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
from karmada_vc_agent.service.queues import ALL, FEW_WORKERS
from karmada_vc_agent.service.work_parts import WorkParts
from karmada_vc_agent.status.conditions import Condition
from karmada_vc_agent.status.group_trusted import group_trusted
from karmada_vc_agent.status.readiness import Thresholds
from karmada_vc_agent.telemetry.collector import HUB, MetricsCollector, StatusMeter
from karmada_vc_agent.views.judgements import LEASE
from karmada_vc_agent.views.works import WorkKey

NODE_CHANGE_SETTLES_S = 0.2
"""Changes of nodes come in groups; one status write is enough for those of this time."""


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
        specs = (
            *self._of_clusters(),
            *self._of_the_host(),
            *self._of_works(),
            *self._optional(),
        )
        switches = self._common.switches | {None}
        return [Controller(spec) for spec in specs if spec.switch in switches]

    # --- Clusters -----------------------------------------------------------------------

    def _of_clusters(self) -> tuple[ControllerSpec[Any], ...]:
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
                    Enqueues(common.stores.membership.add_listener, _itself, NODE_CHANGE_SETTLES_S),
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

    def _of_the_host(self) -> tuple[ControllerSpec[Any], ...]:
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
        namespaces, clusters = stores.namespaces.add_handler, stores.clusters.store.add_handler
        registered, signals = self._works.registered, common.signals
        return (
            ControllerSpec(
                "orphans",
                queues.orphans,
                orphans.reconcile,
                by_cluster=False,
                initial_keys=lambda: (ALL,),
                initial_delay_s=INITIAL_DELAY_S,
            ),
            ControllerSpec(
                "service-names",
                queues.service_names,
                names.reconcile,
                by_cluster=False,
                initial_keys=lambda: (SERVICE_NAMES,),
                sources=(
                    Enqueues(
                        namespaces,
                        partial(service_names.keys_of_namespace, vcs),
                        service_names.SETTLES_S,
                    ),
                ),
                resync_keys=lambda: (SERVICE_NAMES,),
            ),
            ControllerSpec(
                "quotas",
                queues.quotas,
                self._quotas.reconcile,
                FEW_WORKERS,
                sources=(
                    Enqueues(
                        signals.own_object.subscribe,
                        partial(quotas.keys_of_object, vcs),
                        quotas.SETTLES_S,
                    ),
                    Enqueues(namespaces, partial(quotas.keys_of_namespace, vcs), quotas.SETTLES_S),
                ),
                resync_keys=self._names,
            ),
            ControllerSpec(
                "membership",
                queues.nodes,
                membership.reconcile,
                FEW_WORKERS,
                by_cluster=False,
                sources=(
                    Enqueues(stores.nodes.add_handler, node_labels.keys_of_node),
                    Enqueues(clusters, partial(node_labels.keys_of_cluster, stores.nodes)),
                    Enqueues(registered.disputed.subscribe, _itself),
                ),
                resync_keys=lambda: (node.metadata.name for node in stores.nodes),
            ),
            ControllerSpec(
                "node-taints",
                queues.taints,
                taints.reconcile,
                sources=(Enqueues(stores.membership.add_listener, _itself, node_taints.SETTLES_S),),
                resync_keys=self._names,
            ),
            ControllerSpec(
                "admin-role",
                queues.admin_role,
                admin_role.reconcile,
                by_cluster=False,
                initial_keys=lambda: (ADMIN_ROLE,),
                resync_keys=lambda: (ADMIN_ROLE,),
            ),
            ControllerSpec(
                "placement-guard",
                queues.guard,
                guard.reconcile,
                by_cluster=False,
                initial_keys=lambda: (EVERYTHING,),
                sources=(
                    Enqueues(signals.policy.subscribe, lambda *_: (EVERYTHING,)),
                    Enqueues(registered.gone.subscribe, lambda _: (EVERYTHING,)),
                    Enqueues(namespaces, guard.keys_of_namespace),
                ),
                resync_keys=lambda: (EVERYTHING,),
            ),
            ControllerSpec(
                "escape-detector",
                queues.escapes,
                escapes.reconcile,
                FEW_WORKERS,
                initial_keys=escapes.all_keys,
                initial_delay_s=SETTLES_S,
                sources=(
                    Enqueues(stores.pods.add_handler, escapes.keys_of_pod, SETTLES_S),
                    Enqueues(stores.nodes.add_handler, escapes.keys_of_node, SETTLES_S),
                    Enqueues(namespaces, escapes.keys_of_namespace, SETTLES_S),
                    Enqueues(registered.disputed.subscribe, escapes.keys_on_node, SETTLES_S),
                ),
                resync_keys=escapes.all_keys,
            ),
        )

    # --- Works --------------------------------------------------------------------------

    def _of_works(self) -> tuple[ControllerSpec[Any], ...]:
        common, queues, works = self._common, self._common.queues, self._works
        vcs, stores = common.virtual_clusters, common.stores
        return (
            ControllerSpec(
                "namespaces",
                queues.namespaces,
                works.namespaces.reconcile,
                FEW_WORKERS,
                sources=(
                    Enqueues(
                        stores.clusters.store.add_handler,
                        partial(namespaces.keys_of_cluster, stores.clusters, vcs),
                    ),
                    Enqueues(
                        stores.namespaces.add_handler,
                        partial(namespaces.keys_of_namespace, vcs),
                    ),
                    Enqueues(
                        common.signals.own_object.subscribe,
                        partial(namespaces.keys_of_object, vcs),
                    ),
                ),
                resync_keys=self._all_namespaces,
            ),
            ControllerSpec(
                "execution",
                queues.works,
                works.execution.reconcile,
                common.config.concurrent_work_syncs,
                switch=EXECUTION,
                sources=(*self._of_each_work(), *self._of_other_works(), *self._retries()),
                resync_keys=lambda: (
                    key for name in vcs for key in works.affected.of_cluster(name)
                ),
            ),
        )

    def _of_each_work(self) -> tuple[Source[WorkKey], ...]:
        """Return what brings up a Work: itself, its objects, its Cluster."""
        signals, affected = self._common.signals, self._works.affected
        return (
            Enqueues(signals.work_due.subscribe, _itself),
            Enqueues(signals.work_affected.subscribe, affected.by_id),
            Enqueues(self._common.stores.clusters.store.add_handler, affected.by_cluster),
        )

    def _of_other_works(self) -> tuple[Source[WorkKey], ...]:
        """Return what brings up Works for something that they depend on."""
        common, signals, affected = self._common, self._common.signals, self._works.affected
        return (
            Enqueues(signals.work.subscribe, affected.by_work),
            Enqueues(signals.meaning.subscribe, partial(affected.by_meaning, self._names())),
            Enqueues(common.stores.namespaces.add_handler, affected.by_namespace),
            Enqueues(common.stores.membership.add_listener, affected.by_nodes),
            Enqueues(signals.node_group.subscribe, affected.by_node_group),
            Enqueues(signals.served.subscribe, affected.by_served_kinds),
            Heals(signals.served.subscribe, healed_by_kinds),
            Heals(signals.own_object.subscribe, healed_by_object),
        )

    def _retries(self) -> tuple[Source[Any], ...]:
        """Return what a virtual cluster may have waited for, whatever its keys are."""
        return (
            Retries(self._works.registered.became.subscribe, _itself),
            Retries(self._common.judgements.add_listener, _itself),
            Retries(self._common.stores.namespaces.add_handler, released_clusters),
        )

    def _names(self) -> Iterable[str]:
        return self._common.virtual_clusters

    def _all_namespaces(self) -> Iterator[Pair]:
        for name in self._common.virtual_clusters:
            for namespace in (DEFAULT_NAMESPACE, *self._common.stores.claims.of(name)):
                yield name, namespace

    # --- only where asked for -----------------------------------------------------------

    def _optional(self) -> list[ControllerSpec[Any]]:
        queues, slices = self._common.queues, self._works.endpoint_slices
        optional: list[ControllerSpec[Any] | None] = []
        if slices is not None:  # by Karmada's name; collecting is part of it here
            optional.append(
                ControllerSpec(
                    "service-export",
                    queues.services,
                    slices.reconcile,
                    FEW_WORKERS,
                    sources=(
                        Enqueues(self._common.signals.work.subscribe, slices.keys_of_work),
                        Enqueues(
                            self._common.stores.namespaces.add_handler, slices.keys_of_namespace
                        ),
                        *self._retries(),
                    ),
                )
            )
        if CERT_ROTATION in self._common.switches:
            # What it needs to make keys costs 8 MB of memory, which few agents have use for.
            from karmada_vc_agent.service.rotation import rotation  # noqa: PLC0415

            optional.append(rotation(self._common))
        return [spec for spec in optional if spec is not None]


def _itself(key: Any) -> tuple[Any]:
    return (key,)
