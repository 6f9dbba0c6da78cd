"""The controllers of core, each with its collaborators and sources."""

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from karmada_vc_agent.cluster import host_objects, status
from karmada_vc_agent.cluster import registration as registering
from karmada_vc_agent.cluster.hub_clusters import LEASE
from karmada_vc_agent.cluster.lease import RETRY_MAX_S, ClusterLeaseController
from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.controller import (
    Controller,
    ControllerSpec,
    Enqueues,
    Requeue,
    Retries,
    itself,
    same,
)
from karmada_vc_agent.kube.discovery import HealthProbe
from karmada_vc_agent.model.virtual_cluster import (
    CLUSTER_RESOURCE_MODELING,
    CLUSTER_STATUS,
    EXECUTION,
)
from karmada_vc_agent.runner.clients import LEASE_LANES
from karmada_vc_agent.runner.collector import HUB, controller_label
from karmada_vc_agent.runner.common import FEW_WORKERS, cluster_of_key
from karmada_vc_agent.runner.parts import ClusterConditions, Parts, Setup
from karmada_vc_agent.telemetry.metrics import controller_meter
from karmada_vc_agent.work import namespace_writer as writing
from karmada_vc_agent.work import removal as finalizing
from karmada_vc_agent.work.execution import ExecutionController
from karmada_vc_agent.work.work_watches import SETTLES_S as TAINTS_SETTLE_S
from karmada_vc_agent.work.work_watches import follow_taints
from karmada_vc_agent.work.works import WorkKey

REGISTERED_AT_ONCE = 32
"""Their records are written together, into an object that has those of all."""


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
        on_skew=parts.collector.leases_ahead.__setitem__,
        namespace=parts.lease_namespace,
    )

    async def reconcile(name: str) -> Requeue | None:
        """Renew a Lease; record the attempt, and why the hub does not take it."""
        try:
            outcome = await common.contact.track(name, LEASE, controller.reconcile(name))
        finally:
            parts.leases.tried(name)
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
    common, vcs = parts.common, parts.common.virtual_clusters
    controller = registering.RegistrationController(
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
        REGISTERED_AT_ONCE,
        initial_keys=parts.names,
        sources=(Enqueues(clusters.add_handler, partial(registering.keys_of_registered, vcs)),),
        resync_keys=same,
    )


def cluster_status(parts: Parts) -> ControllerSpec[str]:
    common, config = parts.common, parts.common.config
    vcs, stores = common.virtual_clusters, common.stores
    frequency_s = config.cluster_status_update_frequency
    conditions = ClusterConditions(parts)
    host, max_age_s = common.clients.host_urgent, frequency_s / 2
    host_status = status.HostStatus(
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
    controller = status.ClusterStatusController(
        hub=common.clients.hub_urgent,
        clusters=stores.clusters,
        host=host_status,
        virtual_clusters=vcs,
        frequency_s=frequency_s,
        thresholds=parts.thresholds,
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
    changed = partial(status.keys_of_reported, stores.clusters, vcs)
    timers: dict[str, asyncio.TimerHandle] = common.scopes.keep()
    settled = partial(
        host_objects.settled_pods, stores.pods, stores.owner_of_pod, timers, frequency_s
    )
    return ControllerSpec(
        "cluster-status",
        common.queues.by_name(frequency_s),
        controller.reconcile,
        config.concurrent_cluster_syncs,
        switch=CLUSTER_STATUS,
        sources=(
            Enqueues(stores.clusters.store.add_handler, changed),
            Enqueues(stores.membership.changed.subscribe, itself, status.NODE_CHANGE_SETTLES_S),
            *([Enqueues(settled, itself)] if config.enable_cluster_resource_modeling else ()),
            Enqueues(common.signals.status_due.subscribe, itself),
            Enqueues(common.signals.lead_regained.subscribe, parts.names),
            *conditions.sources(),
        ),
        resync_keys=same,
        ready=controller.judge_all,
    )


def node_labels(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller; its keys are nodes."""
    common, stores = parts.common, parts.common.stores
    vcs = common.virtual_clusters
    controller = host_objects.NodeLabelsController(
        common.clients.host,
        stores.nodes,
        stores.membership,
        vcs,
        lambda name: stores.clusters.other_agent(name) is not None,
        common.state.remember_label,
    )
    of_cluster = partial(host_objects.keys_of_cluster, vcs, stores.clusters.agent, stores.nodes)
    return ControllerSpec(
        "node-labels",
        common.queues.by_cluster(lambda node: stores.membership.owner_of(node) or flows.OWN),
        controller.reconcile,
        FEW_WORKERS,
        sources=(
            Enqueues(stores.nodes.add_handler, host_objects.keys_of_node),
            Enqueues(stores.clusters.store.add_handler, of_cluster),
            Enqueues(parts.works.registered.disputed.subscribe, itself),
        ),
        resync_keys=lambda _: (node.metadata.name for node in stores.nodes),
    )


def execution(parts: Parts) -> ControllerSpec[WorkKey]:
    """Declare the controller; no workload is written before what keeps its pods in place."""
    common, works = parts.common, parts.works
    signals, stores, affected = common.signals, common.stores, works.affected
    controller = ExecutionController(
        common.virtual_clusters,
        clusters=stores.clusters,
        works=works.watches.works,
        statuses=works.statuses,
        manifests=works.manifests,
        finalizer=works.finalizer,
        interpreter=works.interpreter if works.reflects else None,
        events=works.events,
        held_changes=common.held_changes,
        scopes=common.scopes,
        changed_objects=works.queue.reasons,
        measure=common.metrics.work_synced,
        bounds=works.bounds,
        memory=works.memory,
        large_slots=works.large_slots,
    )
    return ControllerSpec(
        "execution",
        works.queue,
        controller.reconcile,
        common.config.concurrent_work_syncs,
        switch=EXECUTION,
        sources=(
            Enqueues(signals.work_due.subscribe, itself),
            Enqueues(signals.work_status.subscribe, itself, is_reason=True),
            Enqueues(signals.work_affected.subscribe, affected.by_id),
            Enqueues(stores.clusters.store.add_handler, affected.by_cluster),
            Enqueues(signals.work.subscribe, affected.by_work),
            Enqueues(
                signals.meaning.subscribe, partial(affected.by_meaning, common.virtual_clusters)
            ),
            Enqueues(stores.namespaces.add_handler, affected.by_namespace),
            Retries(signals.dependencies.subscribe),
        ),
        resync_keys=affected.of_clusters,
        ready=common.hooks.wait_ready,
    )


def work_status(parts: Parts) -> ControllerSpec[WorkKey]:
    """Declare the controller; execution fills its queue."""
    works = parts.works
    return ControllerSpec(
        "work-status",
        works.status_queue,
        works.statuses.write,
        parts.common.config.concurrent_work_syncs,
        switch=EXECUTION,
    )


def departures(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller; its first keys are all that were ever registered."""
    common, vcs = parts.common, parts.common.virtual_clusters.everywhere
    stays_away = common.registrations.stays_away
    controller = finalizing.DeparturesController(
        common.clients.hub,
        common.clients.host,
        common.discoveries.host,
        common.stores.clusters,
        common.state,
        parts.works.shared_objects,
        common.settings.cluster_scoped_kinds,
        common.stores.claims,
        vcs,
        is_served=lambda name: name in vcs and not stays_away(name),
    )
    return ControllerSpec(
        "departures",
        common.queues.by_name(),
        controller.reconcile,
        initial_keys=common.state.clusters,
        resync_keys=same,
    )


def node_taints(parts: Parts) -> ControllerSpec[str]:
    common, stores = parts.common, parts.common.stores
    works, due = parts.works.watches.works, common.signals.work_due.emit
    return ControllerSpec(
        "node-taints",
        common.queues.by_name(),
        partial(follow_taints, stores.membership, works, due),
        sources=(Enqueues(stores.membership.changed.subscribe, itself, TAINTS_SETTLE_S),),
        resync_keys=same,
    )


def orphans(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller; it has one key."""
    common, settles_s = parts.common, finalizing.WORKS_SETTLE_S
    controller = finalizing.OrphansController(
        common.clients.host,
        common.discoveries.host,
        common.stores.claims,
        parts.works.watches.works,
        common.virtual_clusters,
        parts.orphaned.note,
    )
    return ControllerSpec(
        "orphans",
        common.queues.by_name(),
        controller.reconcile,
        by_cluster=False,
        initial_keys=lambda: (finalizing.ALL_CLUSTERS,),
        settles_s=finalizing.INITIAL_DELAY_S,
        sources=(
            Enqueues(common.signals.work.subscribe, finalizing.orphan_keys, settles_s),
            Enqueues(
                common.clients.host.history.settled.subscribe,
                lambda: (finalizing.ALL_CLUSTERS,),
                settles_s,
            ),
        ),
    )


def namespaces(parts: Parts) -> ControllerSpec[writing.Pair]:
    """Declare the controller; its keys are virtual clusters with a virtual namespace."""
    common, stores = parts.common, parts.common.stores
    clusters, claims, vcs = stores.clusters, stores.claims, common.virtual_clusters.everywhere
    reconcile = partial(
        writing.reconcile_namespace,
        parts.works.namespace_writer,
        claims,
        vcs,
        lambda name: clusters.ours(name) is not None and not clusters.is_deleting(name),
    )
    objects = common.signals.own_object.subscribe

    def all_keys(names: Iterable[str]) -> Iterator[writing.Pair]:
        for name in names:
            yield name, writing.DEFAULT_NAMESPACE
            for namespace in (*claims.of(name), *writing.left_behind(claims, vcs, name)):
                yield name, namespace

    return ControllerSpec(
        "namespaces",
        common.queues.by_cluster(cluster_of_key),
        reconcile,
        FEW_WORKERS,
        sources=(
            Enqueues(
                clusters.store.add_handler, partial(writing.keys_of_cluster, clusters, claims, vcs)
            ),
            Enqueues(stores.namespaces.add_handler, partial(writing.keys_of_namespace, vcs)),
            Enqueues(objects, partial(writing.keys_of_object, vcs)),
        ),
        resync_keys=all_keys,
    )


OF_CORE: tuple[Setup, ...] = (
    cluster_lease,
    departures,
    registration,
    cluster_status,
    orphans,
    node_labels,
    node_taints,
    namespaces,
    execution,
    work_status,
)


def all_controllers(parts: Parts) -> list[Controller[Any]]:
    """Return the controllers that are switched on; changes enqueue their keys from now on."""
    common = parts.common
    setups = (*OF_CORE, *(setup for each in parts.features for setup in each.controllers))
    specs = [spec for setup in setups if (spec := setup(parts)) is not None]
    is_on, confined = common.switches | {None}, common.hooks.confined
    made = [Controller(confined(spec)) for spec in specs if spec.switch in is_on]
    for controller in made:
        meter = controller_meter(common.metrics, controller_label(controller))
        controller.instrument = controller.queue.instrument = meter
        controller.connect()
    return made
