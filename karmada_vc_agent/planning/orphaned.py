"""Which host objects no Work stands behind any more.

The Work vanished while no agent looked: its finalizer was taken off by force, or by the hub
when the Cluster was not Ready (contract 1.9).
"""

from collections.abc import Container, Iterable, Mapping

from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.domain import CLUSTER_LABEL, WORK_ANNOTATION
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
"""Karmada sends no Work for `default` (contract 10.1) and none is taken for the anchor."""
IN_EVERY_NAMESPACE: Mapping[GroupKind, str] = {
    kinds.SERVICE_ACCOUNT: "default",
    kinds.CONFIG_MAP: "kube-root-ca.crt",
}
"""Kind -> name of the object that the host itself makes in each namespace."""


def work_of(live: Object) -> str:
    """Return the name of the Work that made a host object, or "".

    Copies of its labels that controllers of the host made (EndpointSlices of a Service) have
    no such annotation or have an owner, and go with what they were made for.
    """
    if _is_controlled(live):
        return ""
    namespace, _, name = annotations_of(live).get(WORK_ANNOTATION, "").partition("/")
    cluster = labels_of(live).get(CLUSTER_LABEL, "")
    return name if cluster and namespace == execution_namespace(cluster) else ""


def is_orphan(live: Object, works: Container[str]) -> bool:
    """Whether a Work made this object that is not among `works`, the names of its cluster's."""
    work = work_of(live)
    return bool(work) and work not in works


def namespaces_needed(works: Iterable[Object]) -> set[str]:
    """Return the virtual namespaces that Works bring, or have manifests in."""
    needed = set()
    for work in works:
        for manifest in maps_at(work, "spec", "workload", "manifests"):
            field = kinds.namespace_field(gvk_of(manifest).group_kind)
            needed.add(text_at(manifest, "metadata", field))
    return needed - {""}


def is_orphaned_namespace(namespace: str, needed: Container[str]) -> bool:
    """Whether no Work stands behind a claim on a virtual namespace any more."""
    return namespace not in _WITHOUT_WORK and namespace not in needed


def is_foreign(gvk: GroupVersionKind, live: Object, cluster: str) -> bool:
    """Whether an object in a namespace of a virtual cluster is neither its own nor goes with it.

    What was made for another object goes with that one; what the host puts into every namespace
    is nobody's. A volume claim of a StatefulSet is foreign: it may hold the only copy of data.
    """
    return not (
        labels_of(live).get(CLUSTER_LABEL) == cluster
        or _is_controlled(live)
        or IN_EVERY_NAMESPACE.get(gvk.group_kind) == live["metadata"]["name"]
    )


def _is_controlled(live: Object) -> bool:
    owners = maps_at(live, "metadata", "ownerReferences")
    return any(owner.get("controller") for owner in owners)
