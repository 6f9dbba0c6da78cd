"""Puts together the controllers of the life of a Cluster."""

from functools import partial

from karmada_vc_agent.cluster import node_labels_controller, status
from karmada_vc_agent.cluster import registration as registering
from karmada_vc_agent.cluster.host_status import HostStatus
from karmada_vc_agent.cluster.judgements import LEASE
from karmada_vc_agent.cluster.lease import RETRY_MAX_S, ClusterLeaseController
from karmada_vc_agent.cluster.node_labels_controller import (
    NodeLabelsController,
    keys_of_node,
)
from karmada_vc_agent.cluster.registration import RegistrationController
from karmada_vc_agent.cluster.rules.readiness import Thresholds
from karmada_vc_agent.cluster.status import NODE_CHANGE_SETTLES_S, ClusterStatusController
from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.controller import ControllerSpec, Requeue
from karmada_vc_agent.kube.health_probe import HealthProbe
from karmada_vc_agent.kube.keys import itself, same
from karmada_vc_agent.kube.sources import Enqueues
from karmada_vc_agent.model.switches import CLUSTER_RESOURCE_MODELING, CLUSTER_STATUS
from karmada_vc_agent.runner.clients import LEASE_LANES
from karmada_vc_agent.runner.collector import HUB
from karmada_vc_agent.runner.conditions import ClusterConditions, Conditions
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.runner.queues import FEW_WORKERS


def cluster_lease(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller; its first keys are those that `parts.leases` starts with."""
    common, config = parts.common, parts.common.config

    def renewed(name: str) -> None:
        parts.collector.contact(name, HUB)
        common.contact.accepted(name, LEASE)

    controller = ClusterLeaseController(
        common.clients.hub_leases,
        common.stores.clusters,
        config.cluster_lease_duration,
        config.cluster_lease_renew_interval_fraction,
        common.lead,
        on_renewed=renewed,
        on_skew=parts.collector.lease_ahead,
        namespace=parts.lease_namespace,
    )

    async def reconcile(name: str) -> Requeue | None:
        """Renew a Lease; record the attempt, and why the hub does not take it."""
        try:
            outcome = await common.contact.track(name, LEASE, controller.reconcile(name))
        finally:
            parts.leases.progress.note(name)
        if outcome is None or not common.lead.may_report():
            common.contact.forget(name)
        if outcome is None:
            parts.leases.end(name)
        return outcome

    return ControllerSpec(
        "cluster-lease",
        common.queues.by_name(RETRY_MAX_S),
        reconcile,
        LEASE_LANES,
        switch=CLUSTER_STATUS,
        sources=(
            Enqueues(parts.leases.due.subscribe, itself),
            Enqueues(common.signals.lead_regained.subscribe, parts.names),
        ),
    )


def registration(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller."""
    common, vcs = parts.common, parts.common.virtual_clusters
    controller = RegistrationController(
        common.clients.hub,
        common.stores.clusters,
        common.state,
        vcs,
        common.registrations,
        common.hooks.fields_of_new,
    )
    clusters = common.stores.clusters.store
    return ControllerSpec(
        "registration",
        common.queues.by_name(),
        controller.reconcile,
        FEW_WORKERS,
        initial_keys=parts.names,
        sources=(Enqueues(clusters.add_handler, partial(registering.keys_of_cluster, vcs)),),
        resync_keys=same,
    )


def cluster_status(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller."""
    common, config = parts.common, parts.common.config
    vcs, stores = common.virtual_clusters, common.stores
    frequency_s = config.cluster_status_update_frequency
    thresholds = Thresholds(config.cluster_success_threshold, config.cluster_failure_threshold)
    conditions = ClusterConditions(parts)
    controller = ClusterStatusController(
        hub=common.clients.hub_urgent,
        clusters=stores.clusters,
        host=_host_status(parts, conditions),
        virtual_clusters=vcs,
        frequency_s=frequency_s,
        thresholds=thresholds,
        scopes=common.scopes,
        judgements=common.judgements,
        reachable=parts.reachable,
        contact=common.contact,
        may_report=common.lead.may_report,
        why_terminating=parts.works.finalizer.why_terminating,
        on_ready=parts.leases.start,
        on_synced=parts.collector.synced,
        clock=common.clock,
    )
    changed = partial(status.keys_of_cluster, stores.clusters, vcs)
    return ControllerSpec(
        "cluster-status",
        common.queues.by_name(frequency_s),
        controller.reconcile,
        config.concurrent_cluster_syncs,
        switch=CLUSTER_STATUS,
        sources=(
            Enqueues(stores.clusters.store.add_handler, changed),
            Enqueues(stores.membership.changed.subscribe, itself, NODE_CHANGE_SETTLES_S),
            Enqueues(common.signals.status_due.subscribe, itself),
            Enqueues(common.signals.lead_regained.subscribe, parts.names),
            *conditions.sources(),
        ),
        resync_keys=same,
    )


def _host_status(parts: Parts, conditions: Conditions) -> HostStatus:
    common, stores, config = parts.common, parts.common.stores, parts.common.config
    host, max_age_s = common.clients.host_urgent, config.cluster_status_update_frequency / 2
    return HostStatus(
        client=host,
        probe=HealthProbe(host, max_age_s=max_age_s),
        discovery=common.discoveries.host,
        membership=stores.membership,
        pods=stores.pods,
        claims=stores.claims,
        cluster_scoped_kinds=common.settings.cluster_scoped_kinds,
        conditions=conditions.of,
        clock=common.clock.monotonic,
        with_resources=config.enable_cluster_resource_modeling,
        with_models=common.gates[CLUSTER_RESOURCE_MODELING],
        discovery_max_age_s=max_age_s,
        is_reached=config.gateway.enabled,
    )


def node_labels(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller; its keys are nodes."""
    common, stores = parts.common, parts.common.stores
    vcs = common.virtual_clusters
    controller = NodeLabelsController(
        common.clients.host,
        stores.nodes,
        stores.membership,
        vcs,
        lambda name: stores.clusters.other_agent(name) is not None,
        common.state.remember_label,
    )
    clusters = stores.clusters.store.add_handler
    return ControllerSpec(
        "node-labels",
        common.queues.by_cluster(lambda node: stores.membership.owner_of(node) or flows.OWN),
        controller.reconcile,
        FEW_WORKERS,
        sources=(
            Enqueues(stores.nodes.add_handler, keys_of_node),
            Enqueues(clusters, partial(node_labels_controller.keys_of_cluster, vcs, stores.nodes)),
            Enqueues(parts.works.registered.disputed.subscribe, itself),
        ),
        resync_keys=lambda _: (node.metadata.name for node in stores.nodes),
    )
