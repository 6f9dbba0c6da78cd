"""The Work that reports an EndpointSlice of the host to the hub (contract 8.1, 8.2).

Two controllers of Karmada may report a slice with the same Work. The label managed-by lists them,
joined by dots; each adds two labels and a finalizer of its own.
"""

from collections.abc import Collection
from dataclasses import dataclass

from karmada_vc_agent.model import karmada
from karmada_vc_agent.model.objects import (
    GroupKind,
    Object,
    ObjectKey,
    annotations_of,
    key_of,
    labels_of,
    maps_at,
)
from karmada_vc_agent.model.well_known import SLICE_MANAGED_BY_LABEL

SERVICE_NAME_LABEL = "kubernetes.io/service-name"

_MANAGED_LISTS = (karmada.MANAGED_ANNOTATIONS_ANNOTATION, karmada.MANAGED_LABELS_ANNOTATION)


@dataclass(frozen=True, slots=True)
class Reporter:
    """A controller that reports slices, and how it marks its Works.

    kind: of the manifest that requests the reports.
    """

    name: str
    kind: GroupKind
    namespace_label: str
    name_label: str
    finalizer: str


SERVICE_EXPORT = Reporter(
    "ServiceExport",
    GroupKind("multicluster.x-k8s.io", "ServiceExport"),
    karmada.EXPORT_NAMESPACE_LABEL,
    karmada.EXPORT_NAME_LABEL,
    karmada.ENDPOINT_SLICE_FINALIZER,
)
MULTI_CLUSTER_SERVICE = Reporter(
    "MultiClusterService",
    GroupKind("networking.karmada.io", "MultiClusterService"),
    karmada.MULTI_CLUSTER_SERVICE_NAMESPACE_LABEL,
    karmada.MULTI_CLUSTER_SERVICE_NAME_LABEL,
    karmada.DISPATCH_FINALIZER,
)
REPORTERS = (SERVICE_EXPORT, MULTI_CLUSTER_SERVICE)


def is_made_by_karmada(endpoint_slice: Object) -> bool:
    """Return whether a slice is from the hub and must not be reported back."""
    return labels_of(endpoint_slice).get(SLICE_MANAGED_BY_LABEL) in karmada.MADE_BY_KARMADA


def reported_services(work: Object) -> set[tuple[str, str]]:
    """Return (namespace, name) of the Services that a report is about, in virtual names."""
    labels = labels_of(work)
    if not karmada.is_report(work):
        return set()
    services = {(labels.get(r.namespace_label), labels.get(r.name_label)) for r in REPORTERS}
    return {(namespace, name) for namespace, name in services if namespace and name}


def exported_services(work: Object) -> set[tuple[str, str]]:
    """Return (namespace, name) of the Services whose ServiceExport a Work contains."""
    return {(key.namespace, key.name) for key in _manifests_for(SERVICE_EXPORT, work)}


def multi_cluster_services(work: Object) -> set[tuple[str, str]]:
    """Return (namespace, name) of the Service of the MultiClusterService that labels a Work."""
    labels = labels_of(work)
    service = (
        labels.get(karmada.MULTI_CLUSTER_SERVICE_NAMESPACE_LABEL, ""),
        labels.get(karmada.MULTI_CLUSTER_SERVICE_NAME_LABEL, ""),
    )
    return {service} if _manifests_for(MULTI_CLUSTER_SERVICE, work) and all(service) else set()


def _manifests_for(reporter: Reporter, work: Object) -> list[ObjectKey]:
    """Return the keys of the manifests in a Work that request reports from a reporter."""
    keys = map(key_of, maps_at(work, "spec", "workload", "manifests"))
    return [key for key in keys if key.gvk.group_kind == reporter.kind]


def report(
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
    name = karmada.work_name("EndpointSlice", meta["name"], meta["namespace"])
    base: Object = existing or {
        "apiVersion": karmada.WORK_API,
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
    labels[karmada.REPORTED_BY_LABEL] = ".".join(
        dict.fromkeys((*_reporter_names(base), *(reporter.name for reporter in reporters)))
    )
    manifest = _manifest(endpoint_slice, uid, namespace, name, labels)
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
    leaving = [reporter for reporter in ended if reporter.name in names]
    if not leaving:
        return work
    left = [name for name in names if name not in {reporter.name for reporter in leaving}]
    if not left:
        return None
    dropped = {label for r in leaving for label in (r.namespace_label, r.name_label)}
    labels = {key: value for key, value in labels_of(work).items() if key not in dropped}
    labels[karmada.REPORTED_BY_LABEL] = ".".join(left)
    return {**work, "metadata": {**work["metadata"], "labels": labels}}


def _reporter_names(work: Object) -> list[str]:
    return [name for name in labels_of(work).get(karmada.REPORTED_BY_LABEL, "").split(".") if name]


def _manifest(
    endpoint_slice: Object, uid: str, namespace: str, name: str, work_labels: Object
) -> Object:
    """Return the manifest with the labels of contract 5.2, so that the hub's webhook adds none."""
    labels = {**labels_of(endpoint_slice), karmada.MANAGED_LABEL: "true"}
    if work_labels.get(karmada.WORK_PERMANENT_ID_LABEL):
        labels[karmada.WORK_PERMANENT_ID_LABEL] = work_labels[karmada.WORK_PERMANENT_ID_LABEL]
    annotations = {
        **annotations_of(endpoint_slice),
        karmada.TEMPLATE_UID_ANNOTATION: uid,
        karmada.WORK_NAME_ANNOTATION: name,
        karmada.WORK_NAMESPACE_ANNOTATION: namespace,
    }
    managed = sorted({*annotations, *_MANAGED_LISTS})
    annotations[karmada.MANAGED_ANNOTATIONS_ANNOTATION] = ",".join(managed)
    annotations[karmada.MANAGED_LABELS_ANNOTATION] = ",".join(sorted(labels))
    metadata = {**endpoint_slice["metadata"], "labels": labels, "annotations": annotations}
    return {**endpoint_slice, "metadata": metadata}
