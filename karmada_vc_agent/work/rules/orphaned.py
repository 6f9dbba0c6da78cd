"""Which host objects no longer have a Work.

The Work disappeared while no agent ran: its finalizer was removed by force, or by the hub when the
Cluster was not Ready (contract 1.9).
"""

from collections.abc import Container, Iterable, Mapping

from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.domain import (
    BY_GATEWAY_ANNOTATION,
    CLUSTER_LABEL,
    WORK_ANNOTATION,
)
from karmada_vc_agent.model.karmada import execution_namespace
from karmada_vc_agent.model.objects import (
    GroupKind,
    GroupVersionKind,
    Object,
    annotations_of,
    gvk_of,
    labels_of,
    maps_at,
    text_at,
)

_WITHOUT_WORK = ("default", "vc-system")
"""Karmada sends no Work for `default` (contract 10.1), nor for the anchor."""
IN_EVERY_NAMESPACE: Mapping[GroupKind, str] = {
    kinds.SERVICE_ACCOUNT: "default",
    kinds.CONFIG_MAP: "kube-root-ca.crt",
}
"""Kind -> name of the object that the host itself creates in each namespace."""


def work_of(live: Object) -> str:
    """Return the name of the Work that created a host object, or "".

    Copies of its labels made by controllers of the host (EndpointSlices of a Service) lack the
    annotation or have an owner, and are deleted with that.
    """
    if _is_controlled(live):
        return ""
    namespace, _, name = annotations_of(live).get(WORK_ANNOTATION, "").partition("/")
    cluster = labels_of(live).get(CLUSTER_LABEL, "")
    return name if cluster and namespace == execution_namespace(cluster) else ""


def is_orphan(live: Object, works: Container[str]) -> bool:
    """Return whether the Work that created an object is missing in `works`, by name."""
    work = work_of(live)
    return bool(work) and work not in works


def namespaces_needed(works: Iterable[Object]) -> set[str]:
    """Return the virtual namespaces that Works contain, or have manifests in."""
    needed = set()
    for work in works:
        for manifest in maps_at(work, "spec", "workload", "manifests"):
            field = kinds.namespace_field(gvk_of(manifest).group_kind)
            needed.add(text_at(manifest, "metadata", field))
    return needed - {""}


def is_orphaned_namespace(namespace: str, needed: Container[str]) -> bool:
    """Return whether the claim on a virtual namespace has no Work any more."""
    return namespace not in _WITHOUT_WORK and namespace not in needed


def is_of_tenants(namespace: Object) -> bool:
    """Return whether a claimed host namespace was made by the gateway, and no Work claims it."""
    marks = annotations_of(namespace)
    return BY_GATEWAY_ANNOTATION in marks and not marks.get(WORK_ANNOTATION)


def is_foreign(gvk: GroupVersionKind, live: Object, cluster: str) -> bool:
    """Return whether an object in a claimed namespace is neither the cluster's nor the host's.

    Objects with an owner go with that one; those that the host creates in every namespace do not
    count. A volume claim of a StatefulSet is foreign: it may hold the only copy of data.
    """
    return not (
        labels_of(live).get(CLUSTER_LABEL) == cluster
        or _is_controlled(live)
        or IN_EVERY_NAMESPACE.get(gvk.group_kind) == live["metadata"]["name"]
    )


def _is_controlled(live: Object) -> bool:
    owners = maps_at(live, "metadata", "ownerReferences")
    return any(owner.get("controller") for owner in owners)
