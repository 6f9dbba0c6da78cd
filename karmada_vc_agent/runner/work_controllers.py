"""Puts together the controllers of the trip of a Work."""

from collections.abc import Iterable, Iterator
from functools import partial

from karmada_vc_agent.kube.controller import ControllerSpec
from karmada_vc_agent.kube.keys import itself, same
from karmada_vc_agent.kube.sources import Enqueues, Retries, Source
from karmada_vc_agent.model.switches import EXECUTION
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.runner.queues import FEW_WORKERS, first
from karmada_vc_agent.work.departures import DeparturesController
from karmada_vc_agent.work.execution import ExecutionController
from karmada_vc_agent.work.namespaces.controller import (
    DEFAULT_NAMESPACE,
    keys_of_cluster,
    keys_of_namespace,
    keys_of_object,
    reconcile_namespace,
)
from karmada_vc_agent.work.namespaces.namespace_writer import Pair, left_behind
from karmada_vc_agent.work.node_taints import SETTLES_S as TAINTS_SETTLE_S
from karmada_vc_agent.work.node_taints import follow_taints
from karmada_vc_agent.work.orphans_controller import (
    ALL,
    INITIAL_DELAY_S,
    SETTLES_S,
    OrphansController,
    keys_of_work,
)
from karmada_vc_agent.work.status_controller import write_report
from karmada_vc_agent.work.works import WorkKey


def execution(parts: Parts) -> ControllerSpec[WorkKey]:
    """Declare the controller; no workload is written before what keeps its pods in place."""
    common, works = parts.common, parts.works
    controller = ExecutionController(
        common.virtual_clusters,
        clusters=common.stores.clusters,
        works=works.watches.works,
        hub_works=works.hub_works,
        reports=works.reports,
        manifests=works.manifests,
        finalizer=works.finalizer,
        work_status=works.work_status,
        events=works.events,
        held_changes=common.held_changes,
        scopes=common.scopes,
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
        sources=(*_of_each_work(parts), *_of_other_works(parts)),
        resync_keys=works.affected.of_clusters,
        ready=common.hooks.wait_ready,
    )


def _of_each_work(parts: Parts) -> tuple[Source[WorkKey], ...]:
    """Return what brings up a Work: itself, its objects, its Cluster."""
    signals, affected = parts.common.signals, parts.works.affected
    return (
        Enqueues(signals.work_due.subscribe, itself),
        Enqueues(signals.work_affected.subscribe, affected.by_id),
        Enqueues(parts.common.stores.clusters.store.add_handler, affected.by_cluster),
    )


def _of_other_works(parts: Parts) -> tuple[Source[WorkKey], ...]:
    """Return what brings up Works for something that they depend on."""
    signals, stores, affected = parts.common.signals, parts.common.stores, parts.works.affected
    by_meaning = partial(affected.by_meaning, parts.common.virtual_clusters)
    return (
        Enqueues(signals.work.subscribe, affected.by_work),
        Enqueues(signals.meaning.subscribe, by_meaning),
        Enqueues(stores.namespaces.add_handler, affected.by_namespace),
        Retries(signals.dependencies.subscribe),
    )


def work_status(parts: Parts) -> ControllerSpec[WorkKey]:
    """Declare the controller; execution fills its queue."""
    works = parts.works
    reconcile = partial(
        write_report,
        works.reports,
        works.watches.works,
        works.hub_works,
        parts.common.held_changes,
    )
    return ControllerSpec(
        "work-status",
        works.status_queue,
        reconcile,
        parts.common.config.concurrent_work_syncs,
        switch=EXECUTION,
    )


def departures(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller; its first keys are all that were ever registered."""
    common, vcs = parts.common, parts.common.virtual_clusters
    stays_away = common.registrations.stays_away
    controller = DeparturesController(
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
    """Declare the controller."""
    common, stores = parts.common, parts.common.stores
    works, due = parts.works.watches.works, common.signals.work_due.emit
    return ControllerSpec(
        "node-taints",
        common.queues.by_name(),
        partial(follow_taints, stores.taints, works, due),
        sources=(Enqueues(stores.membership.changed.subscribe, itself, TAINTS_SETTLE_S),),
        resync_keys=same,
    )


def orphans(parts: Parts) -> ControllerSpec[str]:
    """Declare the controller; it has one key."""
    common = parts.common
    controller = OrphansController(
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
        initial_keys=lambda: (ALL,),
        initial_delay_s=INITIAL_DELAY_S,
        sources=(
            Enqueues(common.signals.work.subscribe, keys_of_work, SETTLES_S),
            Enqueues(common.clients.host.history.on_settled, lambda: (ALL,), SETTLES_S),
        ),
    )


def namespaces(parts: Parts) -> ControllerSpec[Pair]:
    """Declare the controller; its keys are virtual clusters with a virtual namespace."""
    common, stores = parts.common, parts.common.stores
    clusters, claims, vcs = stores.clusters, stores.claims, common.virtual_clusters
    reconcile = partial(
        reconcile_namespace,
        parts.works.namespace_writer,
        claims,
        vcs,
        lambda name: clusters.ours(name) is not None and not clusters.is_deleting(name),
    )
    objects = common.signals.own_object.subscribe

    def all_keys(names: Iterable[str]) -> Iterator[Pair]:
        return (
            (name, namespace)
            for name in names
            for namespace in (
                DEFAULT_NAMESPACE,
                *claims.of(name),
                *left_behind(claims, vcs, name),
            )
        )

    return ControllerSpec(
        "namespaces",
        common.queues.by_cluster(first),
        reconcile,
        FEW_WORKERS,
        sources=(
            Enqueues(clusters.store.add_handler, partial(keys_of_cluster, clusters, claims, vcs)),
            Enqueues(stores.namespaces.add_handler, partial(keys_of_namespace, vcs)),
            Enqueues(objects, partial(keys_of_object, vcs)),
        ),
        resync_keys=all_keys,
    )
