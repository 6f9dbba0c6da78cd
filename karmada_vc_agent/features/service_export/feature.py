"""Reports EndpointSlices of the host to the hub as Works (contract 8).

A ServiceExport on the host, or a Work with a MultiClusterService, requests them. A key is a Service
of a virtual cluster: whatever changed, one reconcile compares its slices in the host namespace with
the Works that report them, so nothing is lost by a restart. The host is watched only while some
Work requests it, or is a report that may be outdated.

Two controllers of Karmada may report a slice with the same Work. The label managed-by lists them,
joined by dots; each adds two labels and a finalizer of its own.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from karmada_vc_agent.kube.controller import (
    ControllerSpec,
    Enqueues,
    NotReadyError,
    Requeue,
    Retries,
)
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model import virtual_cluster, vocabulary
from karmada_vc_agent.model.objects import (
    GroupKind,
    GroupVersionKind,
    Object,
    ObjectKey,
    annotations_of,
    gvk_of,
    key_of,
    labels_of,
    maps_at,
)
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster, VirtualNamespace
from karmada_vc_agent.model.vocabulary import MADE_BY_KARMADA, SLICE_MANAGED_BY_LABEL
from karmada_vc_agent.runner.common import FEW_WORKERS, cluster_of_key
from karmada_vc_agent.runner.parts import Feature, Parts
from karmada_vc_agent.translation.restore import restore
from karmada_vc_agent.work.rules.server_changes import prune
from karmada_vc_agent.work.work_watches import changed_claims
from karmada_vc_agent.work.works import is_applied, is_trimmed, work_path

SERVICE_NAME_LABEL = "kubernetes.io/service-name"

_MANAGED_LISTS = (vocabulary.MANAGED_ANNOTATIONS_ANNOTATION, vocabulary.MANAGED_LABELS_ANNOTATION)


class Reporter(NamedTuple):
    """A controller that reports slices, and how it marks its Works.

    switch: by which it is switched off. kind: of the manifest that requests the reports.
    """

    name: str
    switch: str
    kind: GroupKind
    namespace_label: str
    name_label: str
    finalizer: str


SERVICE_EXPORT_REPORTER = Reporter(
    "ServiceExport",
    virtual_cluster.SERVICE_EXPORT,
    GroupKind("multicluster.x-k8s.io", "ServiceExport"),
    vocabulary.EXPORT_NAMESPACE_LABEL,
    vocabulary.EXPORT_NAME_LABEL,
    vocabulary.ENDPOINT_SLICE_FINALIZER,
)
MULTI_CLUSTER_SERVICE_REPORTER = Reporter(
    "MultiClusterService",
    virtual_cluster.ENDPOINT_SLICE_COLLECT,
    GroupKind("networking.karmada.io", "MultiClusterService"),
    vocabulary.MULTI_CLUSTER_SERVICE_NAMESPACE_LABEL,
    vocabulary.MULTI_CLUSTER_SERVICE_NAME_LABEL,
    vocabulary.DISPATCH_FINALIZER,
)
REPORTERS = (SERVICE_EXPORT_REPORTER, MULTI_CLUSTER_SERVICE_REPORTER)


def reported_services(work: Object) -> set[tuple[str, str]]:
    """Return (namespace, name) of the Services that a report is about, in virtual names."""
    if not vocabulary.is_report(work):
        return set()
    return {service for reporter in REPORTERS for service in _labelled(reporter, work)}


def exported_services(work: Object) -> set[tuple[str, str]]:
    """Return (namespace, name) of the Services whose ServiceExport a Work contains."""
    return {(key.namespace, key.name) for key in _manifests_for(SERVICE_EXPORT_REPORTER, work)}


def multi_cluster_services(work: Object) -> set[tuple[str, str]]:
    """Return (namespace, name) of the Service of the MultiClusterService that labels a Work."""
    reporter = MULTI_CLUSTER_SERVICE_REPORTER
    return _labelled(reporter, work) if _manifests_for(reporter, work) else set()


def _labelled(reporter: Reporter, work: Object) -> set[tuple[str, str]]:
    labels = labels_of(work)
    service = labels.get(reporter.namespace_label, ""), labels.get(reporter.name_label, "")
    return {service} if all(service) else set()


def _manifests_for(reporter: Reporter, work: Object) -> list[ObjectKey]:
    keys = map(key_of, maps_at(work, "spec", "workload", "manifests"))
    return [key for key in keys if key.gvk.group_kind == reporter.kind]


def report_of(
    endpoint_slice: Object,
    uid: str,
    namespace: str,
    existing: Object | None,
    reporters: Collection[Reporter],
) -> Object:
    """Return the Work that reports a slice; an existing one keeps its other fields.

    endpoint_slice: in virtual names, as Karmada would store it. uid: of the host's slice.
    namespace: the execution namespace. reporters: added to those that the existing Work names.
    """
    meta = endpoint_slice["metadata"]
    name = vocabulary.work_name("EndpointSlice", meta["name"], meta["namespace"])
    base: Object = existing or {
        "apiVersion": vocabulary.WORK_API,
        "kind": "Work",
        "metadata": {"name": name, "namespace": namespace},
    }
    labels = dict(labels_of(base))
    service = (meta.get("labels") or {}).get(SERVICE_NAME_LABEL, "")
    finalizers = list(base["metadata"].get("finalizers") or ())
    for reporter in reporters:
        labels[reporter.namespace_label] = meta["namespace"]
        labels[reporter.name_label] = service
        finalizers += [reporter.finalizer] if reporter.finalizer not in finalizers else []
    names = [*_reporter_names(base), *(reporter.name for reporter in reporters)]
    labels[vocabulary.REPORTED_BY_LABEL] = ".".join(dict.fromkeys(names))
    # With the labels of contract 5.2, so that the hub's webhook adds none.
    copied = {**labels_of(endpoint_slice), vocabulary.MANAGED_LABEL: "true"}
    if permanent := labels.get(vocabulary.WORK_PERMANENT_ID_LABEL):
        copied[vocabulary.WORK_PERMANENT_ID_LABEL] = permanent
    annotations = {
        **annotations_of(endpoint_slice),
        vocabulary.TEMPLATE_UID_ANNOTATION: uid,
        vocabulary.WORK_NAME_ANNOTATION: name,
        vocabulary.WORK_NAMESPACE_ANNOTATION: namespace,
    }
    managed = sorted({*annotations, *_MANAGED_LISTS})
    annotations[vocabulary.MANAGED_ANNOTATIONS_ANNOTATION] = ",".join(managed)
    annotations[vocabulary.MANAGED_LABELS_ANNOTATION] = ",".join(sorted(copied))
    metadata = {**meta, "labels": copied, "annotations": annotations}
    manifest = {**endpoint_slice, "metadata": metadata}
    spec = {"suspendDispatching": True, "workload": {"manifests": [manifest]}}
    return {
        **base,
        "metadata": {**base["metadata"], "labels": labels, "finalizers": finalizers},
        "spec": {**(base.get("spec") or {}), **spec},
    }


def without_reporters(work: Object, ended: Collection[Reporter]) -> Object | None:
    """Return a report without these reporters, unchanged if it names none of them; None if empty.

    Their finalizers stay: the hub removes them after its cleanup.
    """
    names = _reporter_names(work)
    leaving = {reporter.name: reporter for reporter in ended if reporter.name in names}
    left = [name for name in names if name not in leaving]
    if not leaving:
        return work
    if not left:
        return None
    dropped = {label for r in leaving.values() for label in (r.namespace_label, r.name_label)}
    labels = {key: value for key, value in labels_of(work).items() if key not in dropped}
    labels[vocabulary.REPORTED_BY_LABEL] = ".".join(left)
    return {**work, "metadata": {**work["metadata"], "labels": labels}}


def _reporter_names(work: Object) -> list[str]:
    names = labels_of(work).get(vocabulary.REPORTED_BY_LABEL, "").split(".")
    return list(filter(None, names))


ServiceKey = tuple[str, VirtualNamespace, str]
"""Virtual cluster, virtual namespace and name of a Service."""

ENDPOINT_SLICE = GroupVersionKind("discovery.k8s.io", "v1", "EndpointSlice")
SERVICE_EXPORT = GroupVersionKind("multicluster.x-k8s.io", "v1alpha1", "ServiceExport")
BY_SERVICE = "host namespace and Service"
SELECTOR = f"{SERVICE_NAME_LABEL},{SLICE_MANAGED_BY_LABEL} notin ({','.join(MADE_BY_KARMADA)})"
"""Slices of Services, except those from the hub."""

SYNCING = Requeue(0.5)
"""Until the first list of the host is complete; before it, nothing counts as absent."""


class EndpointSliceController:
    """Maintains the Works that report EndpointSlices; their sole writer here.

    reporters: those whose part it does. Labels of the others are left alone.
    """

    def __init__(
        self,
        parts: Parts,
        reporters: Collection[Reporter],
        enqueue: Callable[[ServiceKey], None],
    ) -> None:
        common, works = parts.common, parts.works
        self._reporters = reporters
        self._enqueue = enqueue
        self._virtual_clusters = common.virtual_clusters
        self._hub, self._host = common.clients.hub, common.clients.host
        self._clusters, self._claims = common.stores.clusters, common.stores.claims
        self._works = works.watches.works
        self._find_on_host = common.discoveries.host.find
        self._context_for = works.contexts.context_for
        selector, index = {"labelSelector": SELECTOR}, {BY_SERVICE: _service_of}
        self.slices = InformerSet(self._host, selector, self._changed, index, scope=works.scope)
        self.exports = InformerSet(self._host, {}, self._changed, scope=works.scope)

    def keys_of_work(
        self, cluster: str, old: Object | None, new: Object | None
    ) -> Iterator[ServiceKey]:
        """Yield the Services that a Work of a virtual cluster exports, or reports.

        Our own writes count: a ServiceExport becomes applied by one, and before that there is
        nothing of it on the host.
        """
        for work in filter(None, (old, new)):
            services = reported_services(work) | multi_cluster_services(work)
            services |= exported_services(work) if is_applied(work) else set()
            for namespace, name in services:
                yield cluster, VirtualNamespace(namespace), name

    def all_keys(self, clusters: Iterable[str]) -> Iterator[ServiceKey]:
        """Yield the Services that Works of some virtual clusters export, or report."""
        for cluster in clusters:
            for work in self._works.of(cluster):
                yield from self.keys_of_work(cluster, None, work)

    def keys_of_namespace(self, old: Object | None, new: Object | None) -> Iterator[ServiceKey]:
        """Yield all Services of a virtual namespace that was added, moved or deleted."""
        for claim in changed_claims(old, new):
            for work in self._works.of(claim.cluster, claim.namespace):
                yield from self.keys_of_work(claim.cluster, None, work)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        for obj in filter(None, (old, new)):
            # Informers see the whole host: the namespace identifies the virtual cluster (trap 40).
            claim = self._claims.holder_of(obj["metadata"]["namespace"])
            is_slice = gvk_of(obj) == ENDPOINT_SLICE
            name = labels_of(obj).get(SERVICE_NAME_LABEL) if is_slice else obj["metadata"]["name"]
            if claim is not None and claim.cluster in self._virtual_clusters and name:
                self._enqueue((claim.cluster, claim.namespace, name))

    async def reconcile(self, key: ServiceKey) -> Requeue | None:
        """Align the reports of one Service with its slices."""
        cluster, namespace, service = key
        vc = self._virtual_clusters.get(cluster)
        if vc is None or self._clusters.ours(cluster) is None:
            return None
        if self._clusters.is_deleting(cluster):
            return None  # its Works end with the execution namespace, and the hub finalises them
        if not self._clusters.is_ready(cluster):
            raise NotReadyError(f"cluster({cluster}) not ready")
        if self._host.history.is_in_doubt:
            return SYNCING  # what it lacks now may appear when it is listed again
        slices = await self._store(self.slices, ENDPOINT_SLICE)
        is_export = SERVICE_EXPORT_REPORTER in self._reporters
        exports = await self._store(self.exports, SERVICE_EXPORT) if is_export else None
        works = self._works.store(cluster)
        # None: the host does not serve the kind.
        stores = [store for store in (slices, exports) if store is not None]
        if works is None or not all(store.is_synced for store in (works, *stores)):
            return SYNCING
        place = self._claims.of(cluster).get(namespace)
        requested = self._requested(key, place, exports)
        listed = slices.by_index(BY_SERVICE, f"{place}/{service}") if requested and slices else []
        reports = {
            work["metadata"]["name"]: work
            for work in self._works.of(cluster, namespace)
            if (namespace, service) in reported_services(work)
        }
        for endpoint_slice in listed:
            # One from the hub must not be reported back.
            if labels_of(endpoint_slice).get(SLICE_MANAGED_BY_LABEL) not in MADE_BY_KARMADA:
                name = await self._report(vc, endpoint_slice, requested)
                reports.pop(name, None)
        for work in reports.values():
            await self._write(work, without_reporters(work, self._reporters))
        return None

    def _requested(
        self, key: ServiceKey, place: HostNamespace | None, exports: Store[Object] | None
    ) -> list[Reporter]:
        cluster, namespace, service = key
        is_requested = {
            SERVICE_EXPORT_REPORTER: bool(place and exports and exports.get(place, service)),
            MULTI_CLUSTER_SERVICE_REPORTER: any(
                (namespace, service) in multi_cluster_services(work)
                for work in self._works.of(cluster, namespace)
            ),
        }
        return [reporter for reporter in self._reporters if is_requested[reporter]]

    async def _report(
        self, vc: VirtualCluster, endpoint_slice: Object, requested: Collection[Reporter]
    ) -> str:
        virtual = prune(restore(endpoint_slice, self._context_for(vc, "")))
        meta = virtual["metadata"]
        name = vocabulary.work_name("EndpointSlice", meta["name"], meta["namespace"])
        existing = self._works.get(vc.name, name)
        if existing is not None and not vocabulary.is_report(existing):
            return name  # a Work that contains a slice of this name; Karmada would break it
        uid = endpoint_slice["metadata"]["uid"]
        work = report_of(virtual, uid, vocabulary.execution_namespace(vc.name), existing, requested)
        silent = [reporter for reporter in self._reporters if reporter not in requested]
        await self._write(existing, without_reporters(work, silent))
        return name

    async def _write(self, existing: Object | None, work: Object | None) -> None:
        """Create, replace or delete a Work; one that is being deleted is left alone."""
        if work == existing or (existing and existing["metadata"].get("deletionTimestamp")):
            return
        if existing is not None and is_trimmed(existing):
            return  # over a bound: only part of it is in memory
        metadata = (existing or work or {})["metadata"]
        path = work_path(metadata["namespace"], metadata["name"] if existing else "")
        try:
            if work is None:
                await self._hub.delete_same(path, existing or {})
            else:
                write = self._hub.replace if existing else self._hub.create
                self._accept(await write(path, work))
        except NotFoundError:
            if existing is None:
                raise
            # Else the watch will report it and enqueue the Service again.

    def _accept(self, work: Object) -> None:
        """Store a written Work and notify immediately: execution has a condition to write."""
        store = self._works.store_of_namespace(work["metadata"]["namespace"])
        if store is not None:
            store.accept(work)

    async def _store(self, informers: InformerSet, gvk: GroupVersionKind) -> Store[Object] | None:
        resource = await self._find_on_host(gvk)
        return informers.store(resource) if resource is not None else None


def _service_of(endpoint_slice: Object) -> Iterable[str]:
    name = labels_of(endpoint_slice).get(SERVICE_NAME_LABEL)
    return (f"{endpoint_slice['metadata']['namespace']}/{name}",) if name else ()


def setup(parts: Parts) -> ControllerSpec[ServiceKey] | None:
    """Declare the controller, by Karmada's name; None where both its switches are off."""
    common = parts.common
    enabled = REPORTERS if common.gates[virtual_cluster.MULTI_CLUSTER_SERVICE] else REPORTERS[:1]
    reporters = [each for each in enabled if each.switch in common.switches]
    if not reporters:
        return None
    queue = common.queues.by_cluster(cluster_of_key)
    controller = EndpointSliceController(parts, reporters, queue.add)
    return ControllerSpec(
        "service-export",
        queue,
        controller.reconcile,
        FEW_WORKERS,
        sources=(
            Enqueues(common.signals.work.subscribe, controller.keys_of_work),
            Enqueues(common.stores.namespaces.add_handler, controller.keys_of_namespace),
            Retries(common.signals.dependencies.subscribe),
        ),
        resync_keys=controller.all_keys,
        runs={"slices": controller.slices.run, "exports": controller.exports.run},
    )


FEATURE = Feature(
    "service_export",
    controllers=(setup,),
    hub_roles={each.switch: "features/service_export/hub-roles.yaml" for each in REPORTERS},
)
