"""The controllers of Works: execution, their namespaces, and reports of EndpointSlices."""

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
    namespaces,
)
from karmada_vc_agent.controllers.endpoint_slices import EndpointSliceController, ServiceKey
from karmada_vc_agent.controllers.namespaces import DEFAULT_NAMESPACE
from karmada_vc_agent.kube.controller import ControllerSpec
from karmada_vc_agent.kube.sources import Enqueues, Heals, Retries, Source
from karmada_vc_agent.model.switches import (
    EXECUTION,
)
from karmada_vc_agent.service.common import Common, itself
from karmada_vc_agent.service.queues import FEW_WORKERS
from karmada_vc_agent.service.work_parts import WorkParts
from karmada_vc_agent.views.works import WorkKey


class WorkControllers:
    """Declares them, and all that brings up a Work."""

    def __init__(self, common: Common, works: WorkParts) -> None:
        self._common = common
        self._works = works

    def specs(self) -> tuple[ControllerSpec[Any], ...]:
        """Return a row for each that is there."""
        common, queues, works = self._common, self._common.queues, self._works
        vcs, stores = common.virtual_clusters, common.stores
        slices = works.endpoint_slices
        return (
            *((self._slices(slices),) if slices is not None else ()),
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
            Enqueues(signals.work_due.subscribe, itself),
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
            Retries(self._works.registered.became.subscribe, itself),
            Retries(self._common.judgements.add_listener, itself),
            Retries(self._common.stores.namespaces.add_handler, released_clusters),
        )

    def _slices(self, slices: EndpointSliceController) -> ControllerSpec[ServiceKey]:
        # By Karmada's name; collecting is part of it here.
        return ControllerSpec(
            "service-export",
            self._common.queues.services,
            slices.reconcile,
            FEW_WORKERS,
            sources=(
                Enqueues(self._common.signals.work.subscribe, slices.keys_of_work),
                Enqueues(self._common.stores.namespaces.add_handler, slices.keys_of_namespace),
                *self._retries(),
            ),
        )

    def _names(self) -> Iterable[str]:
        return self._common.virtual_clusters

    def _all_namespaces(self) -> Iterator[Pair]:
        for name in self._common.virtual_clusters:
            for namespace in (DEFAULT_NAMESPACE, *self._common.stores.claims.of(name)):
                yield name, namespace
