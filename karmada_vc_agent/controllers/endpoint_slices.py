"""EndpointSlices of exported Services are reported to the hub (contract 8.1, 8.2).

A key is a Service of a virtual cluster. Whatever changed, one reconcile compares the slices of
that Service on the host with the Works that report them: so nothing is lost by a restart.

    who asks   a ServiceExport on the host, or a Work with a MultiClusterService
    read       the slices in the host namespace that is claimed for the Service's
    write      Works in the execution namespace, with virtual names, never dispatched

The host is watched only while some Work asks for it, or is a report that may be outdated.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import NotReadyError, Requeue
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.kube.namespaced_watches import WatchScope
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.karmada import MADE_BY_KARMADA, execution_namespace, work_name
from karmada_vc_agent.model.objects import GroupVersionKind, Object, gvk_of, labels_of
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster, VirtualNamespace
from karmada_vc_agent.model.well_known import SLICE_MANAGED_BY_LABEL
from karmada_vc_agent.planning.prune import prune
from karmada_vc_agent.status import endpoint_slice_work as rules
from karmada_vc_agent.status.endpoint_slice_work import SERVICE_NAME_LABEL, Reporter
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.restore import restore
from karmada_vc_agent.views.claims import Claims, claim_of, claims_in
from karmada_vc_agent.views.hub_clusters import HubClusters
from karmada_vc_agent.views.works import Works, is_applied, is_trimmed, work_path

ServiceKey = tuple[str, VirtualNamespace, str]
"""Virtual cluster, virtual namespace and name of a Service."""

ENDPOINT_SLICE = GroupVersionKind("discovery.k8s.io", "v1", "EndpointSlice")
SERVICE_EXPORT = GroupVersionKind("multicluster.x-k8s.io", "v1alpha1", "ServiceExport")
BY_SERVICE = "host namespace and Service"
SELECTOR = f"{SERVICE_NAME_LABEL},{SLICE_MANAGED_BY_LABEL} notin ({','.join(MADE_BY_KARMADA)})"
"""Slices of Services, but for those that came from the hub."""

SYNCING = Requeue(0.5)
"""Until the first list of the host is complete; before it, nothing can be called absent."""


@dataclass(frozen=True, slots=True)
class Collaborators:
    """Whom this controller works with; handed in by the service package."""

    hub: ApiClient
    host: ApiClient
    clusters: HubClusters
    works: Works
    claims: Claims
    find_on_host: Callable[[GroupVersionKind], Awaitable[Resource | None]]
    context_for: Callable[[VirtualCluster, str], TranslationContext]
    enqueue: Callable[[ServiceKey], None]
    scope: WatchScope | None = None


class EndpointSliceController:
    """Keeps the Works that report EndpointSlices; sole writer of them here.

    reporters: whose part it does. Marks of the others are left as they are.
    """

    def __init__(
        self,
        virtual_clusters: Mapping[str, VirtualCluster],
        reporters: Collection[Reporter],
        others: Collaborators,
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._reporters = reporters
        self._o = others
        index = {BY_SERVICE: _service_of}
        self._slices = InformerSet(
            others.host, {"labelSelector": SELECTOR}, self._changed, index, scope=others.scope
        )
        self._exports = InformerSet(others.host, {}, self._changed, scope=others.scope)

    async def run(self) -> None:
        """Watch what was asked for, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informers in (self._slices, self._exports):
                group.create_task(informers.run(), name="informers of endpoint slices")

    # --- what makes it look -------------------------------------------------------------

    def keys_of_work(
        self, cluster: str, old: Object | None, new: Object | None
    ) -> Iterator[ServiceKey]:
        """Yield the Services that a Work of a virtual cluster exports, or reports.

        Of our own writes too: it is we who say that a ServiceExport is applied.
        """
        for work in (old, new):
            if work is not None:
                for namespace, name in self._services_of(work):
                    yield cluster, VirtualNamespace(namespace), name

    def _services_of(self, work: Object) -> set[tuple[str, str]]:
        found = rules.reported_services(work) | rules.multi_cluster_services(work)
        # Before it is applied there is nothing of it on the host.
        return found | (rules.exported_services(work) if is_applied(work) else set())

    def keys_of_namespace(self, old: Object | None, new: Object | None) -> Iterator[ServiceKey]:
        """Yield all Services of a virtual namespace that came, moved or went."""
        if old is not None and new is not None and claim_of(old) == claim_of(new):
            return
        for claim in claims_in(old, new):
            for work in self._o.works.using_namespace(claim.cluster, claim.namespace):
                yield from self.keys_of_work(claim.cluster, None, work)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        """Look at the one Service that a slice or a ServiceExport of the host belongs to."""
        for obj in (old, new):
            if obj is None:
                continue
            # Informers see the whole host: its namespace says whose this is (trap 40).
            claim = self._o.claims.holder_of(obj["metadata"]["namespace"])
            is_slice = gvk_of(obj) == ENDPOINT_SLICE
            name = labels_of(obj).get(SERVICE_NAME_LABEL) if is_slice else obj["metadata"]["name"]
            if claim is not None and claim.cluster in self._virtual_clusters and name:
                self._o.enqueue((claim.cluster, claim.namespace, name))

    # --- one Service --------------------------------------------------------------------

    async def reconcile(self, key: ServiceKey) -> Requeue | None:
        """Make the reports of one Service fit its slices."""
        cluster, namespace, service = key
        vc = self._virtual_clusters.get(cluster)
        if vc is None or self._o.clusters.ours(cluster) is None:
            return None
        if self._o.clusters.is_deleting(cluster):
            return None  # its Works go with the execution namespace, and the hub finalises them
        if not self._o.clusters.is_ready(cluster):
            raise NotReadyError(f"cluster({cluster}) not ready")
        if self._o.host.history.is_in_doubt:
            return SYNCING  # what it does not have now may be there at the second look
        slices = await self._store(self._slices, ENDPOINT_SLICE)
        exports = None
        if rules.SERVICE_EXPORT in self._reporters:
            exports = await self._store(self._exports, SERVICE_EXPORT)
        if not self._is_known(cluster, slices, exports):
            return SYNCING
        place = self._o.claims.of(cluster).get(namespace)
        asking = self._asking(key, place, exports)
        found = slices.by_index(BY_SERVICE, f"{place}/{service}") if asking and slices else []
        reports = {work["metadata"]["name"]: work for work in self._reports(key)}
        for endpoint_slice in found:
            if not rules.is_made_by_karmada(endpoint_slice):
                name = await self._report(vc, endpoint_slice, asking)
                reports.pop(name, None)
        for work in reports.values():
            await self._write(work, rules.without_reporters(work, self._reporters))
        return None

    def _is_known(self, cluster: str, *host_stores: Store[Object] | None) -> bool:
        """Whether all lists are complete; what the host does not serve is known to be absent."""
        works = self._o.works.store(cluster)
        is_host_known = all(store is None or store.is_synced for store in host_stores)
        return is_host_known and works is not None and works.is_synced

    def _asking(
        self, key: ServiceKey, place: HostNamespace | None, exports: Store[Object] | None
    ) -> list[Reporter]:
        """Return who wants the slices of a Service reported."""
        cluster, namespace, service = key
        asking = {
            rules.SERVICE_EXPORT: bool(place and exports and exports.get(place, service)),
            rules.MULTI_CLUSTER_SERVICE: any(
                (namespace, service) in rules.multi_cluster_services(work)
                for work in self._o.works.using_namespace(cluster, namespace)
            ),
        }
        return [reporter for reporter in self._reporters if asking[reporter]]

    def _reports(self, key: ServiceKey) -> list[Object]:
        """Return the Works that report slices of a Service."""
        cluster, namespace, service = key
        return [
            work
            for work in self._o.works.using_namespace(cluster, namespace)
            if (namespace, service) in rules.reported_services(work)
        ]

    async def _report(
        self, vc: VirtualCluster, endpoint_slice: Object, asking: Collection[Reporter]
    ) -> str:
        """Make one slice's report right; return its name."""
        virtual = prune(restore(endpoint_slice, self._o.context_for(vc, "")))
        meta = virtual["metadata"]
        name = work_name("EndpointSlice", meta["name"], meta["namespace"])
        existing = self._o.works.get(vc.name, name)
        if existing is not None and not rules.is_report(existing):
            return name  # a Work that brings a slice of this name; Karmada would break it
        uid = endpoint_slice["metadata"]["uid"]
        work = rules.report(virtual, uid, execution_namespace(vc.name), existing, asking)
        silent = [reporter for reporter in self._reporters if reporter not in asking]
        await self._write(existing, rules.without_reporters(work, silent))
        return name

    # --- writing ------------------------------------------------------------------------

    async def _write(self, existing: Object | None, work: Object | None) -> None:
        """Create, replace or delete a Work; one that goes already is left to go."""
        if work == existing or (existing and existing["metadata"].get("deletionTimestamp")):
            return
        if existing is not None and is_trimmed(existing):
            return  # over a bound; it is not known whole
        if existing is None:
            assert work is not None  # noqa: S101 - equal to existing otherwise
            path = work_path(work["metadata"]["namespace"])
            self._accept(await self._o.hub.create(path, work))
            return
        metadata = existing["metadata"]
        path = work_path(metadata["namespace"], metadata["name"])
        try:
            if work is not None:
                self._accept(await self._o.hub.replace(path, work))
            else:
                await self._o.hub.delete_same(path, existing)
        except NotFoundError:
            return  # the watch is about to say so, and then it is looked at again

    def _accept(self, work: Object) -> None:
        """Store a written Work, and tell of it at once: execution has a condition to write."""
        work["metadata"].pop("managedFields", None)
        store = self._o.works.store_of_namespace(work["metadata"]["namespace"])
        if store is not None:
            store.accept(work)

    async def _store(self, informers: InformerSet, gvk: GroupVersionKind) -> Store[Object] | None:
        """Return what the host has of a kind; None where it does not serve that kind."""
        resource = await self._o.find_on_host(gvk)
        return informers.store(resource) if resource is not None else None


def _service_of(endpoint_slice: Object) -> Iterable[str]:
    name = labels_of(endpoint_slice).get(SERVICE_NAME_LABEL)
    return (f"{endpoint_slice['metadata']['namespace']}/{name}",) if name else ()
