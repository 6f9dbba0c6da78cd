"""Who owns a host object: metadata to merge, write and keep; orphans.

Orphans: The Work disappeared while no agent ran: its finalizer was removed by force, or by the hub
when the Cluster was not Ready (contract 1.9).
"""

from collections.abc import Container, Iterable, Mapping
from typing import Any

from karmada_vc_agent.model import vocabulary
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

_CONFLICT_OVERWRITE = "overwrite"


def is_managed(live: Object) -> bool:
    """Return whether a Karmada created the live object, maybe not ours (trap 23)."""
    return labels_of(live).get(vocabulary.MANAGED_LABEL) == "true"


def may_replace(desired: Object, live: Object, former: Container[str] = ()) -> bool:
    """Return whether an update is allowed: of its own, managed or overwritten (5.5, trap 23)."""
    owner = labels_of(live).get(vocabulary.CLUSTER_LABEL)
    own = labels_of(desired).get(vocabulary.CLUSTER_LABEL)
    if owner and owner != own and owner not in former:
        return False
    if is_managed(live):
        return True
    strategy = annotations_of(desired).get(vocabulary.CONFLICT_RESOLUTION_ANNOTATION)
    return strategy == _CONFLICT_OVERWRITE


def may_delete(desired: Object, live: Object) -> bool:
    """Return whether a delete is allowed: managed, of this virtual cluster (contract 5.8)."""
    owner = labels_of(live).get(vocabulary.CLUSTER_LABEL)
    return is_managed(live) and owner == labels_of(desired).get(vocabulary.CLUSTER_LABEL)


def conflict_text(kind: str, virtual_namespace: str, name: str, cluster: str) -> str:
    """Return Karmada's message for an object that it does not manage (contract 5.5)."""
    return (
        f"resource(kind={kind}, {virtual_namespace}/{name}) already exists in the cluster "
        f"{cluster} and the {vocabulary.CONFLICT_RESOLUTION_ANNOTATION} strategy value is empty, "
        "Karmada will not manage this resource"
    )


_OF_OTHERS = (
    vocabulary.STAND_IN_ANNOTATION,
    vocabulary.APPLIED_ANNOTATION,
    vocabulary.WRITTEN_ANNOTATION,
    vocabulary.WORK_NAME_ANNOTATION,
    vocabulary.WORK_NAMESPACE_ANNOTATION,
)

# Contract 5.8. Karmada does not remove clusterresourcebinding.karmada.io/*; neither do we.
_OF_KARMADA = frozenset(
    (
        vocabulary.BINDING_PERMANENT_ID_LABEL,
        vocabulary.WORK_PERMANENT_ID_LABEL,
        vocabulary.MANAGED_LABEL,
        vocabulary.MANAGED_ANNOTATIONS_ANNOTATION,
        vocabulary.MANAGED_LABELS_ANNOTATION,
        vocabulary.TEMPLATE_UID_ANNOTATION,
        vocabulary.TEMPLATE_GENERATION_ANNOTATION,
        vocabulary.BINDING_NAMESPACE_ANNOTATION,
        vocabulary.BINDING_NAME_ANNOTATION,
        vocabulary.WORK_NAME_ANNOTATION,
        vocabulary.WORK_NAMESPACE_ANNOTATION,
    )
)
_OF_POLICIES = {
    True: (
        vocabulary.POLICY_PERMANENT_ID_LABEL,
        vocabulary.POLICY_NAMESPACE_ANNOTATION,
        vocabulary.POLICY_NAME_ANNOTATION,
    ),
    False: (
        vocabulary.CLUSTER_POLICY_PERMANENT_ID_LABEL,
        vocabulary.CLUSTER_POLICY_NAME_ANNOTATION,
    ),
}
"""Of namespaced objects, and others."""


def merge_labels(desired: Object, live: Object) -> dict[str, str]:
    """Return the labels to write, without what Karmada managed before (contract 5.5 step 3)."""
    managed = annotations_of(live).get(vocabulary.MANAGED_LABELS_ANNOTATION)
    return _merge(labels_of(desired), labels_of(live), managed)


def merge_annotations(desired: Object, live: Object) -> dict[str, str]:
    """Return the annotations to write, by the rule of `merge_labels`.

    A stand-in that a Work takes over is none any more (ADR 24). What another agent of Karmada made
    names that one's Work, which is not to be followed (ADR 35). The digest of a manifest is that of
    the one written now, or none (ADR 43), and so is the mark of what was written (ADR 49).
    """
    kept = {key: text for key, text in annotations_of(live).items() if key not in _OF_OTHERS}
    return _merge(
        annotations_of(desired), kept, kept.get(vocabulary.MANAGED_ANNOTATIONS_ANNOTATION)
    )


def merge_metadata(desired: Object, live: Object) -> Object:
    """Return the desired object with the metadata to update just the live one (5.5 steps 2, 3)."""
    metadata: dict[str, Any] = dict(desired.get("metadata") or {})
    live_metadata = live.get("metadata") or {}
    for field in ("uid", "resourceVersion", "finalizers", "ownerReferences"):
        if live_metadata.get(field):
            metadata[field] = live_metadata[field]
        else:
            metadata.pop(field, None)
    if labels := merge_labels(desired, live):
        metadata["labels"] = labels
    if annotations := merge_annotations(desired, live):
        metadata["annotations"] = annotations
    return {**desired, "metadata": metadata}


def without_claims(manifest: Object) -> Object:
    """Return the manifest of a preserved object, without marks (contract 5.8)."""
    namespaced = bool((manifest.get("metadata") or {}).get("namespace"))
    return without_our_keys(manifest, _OF_KARMADA.union(_OF_POLICIES[namespaced]))


def without_our_keys(obj: Object, others: Container[str] = ()) -> Object:
    """Return an object without labels and annotations of our own domain, and others."""
    metadata = dict(obj.get("metadata") or {})
    for field in ("labels", "annotations"):
        if metadata.get(field):
            metadata[field] = {
                key: value
                for key, value in metadata[field].items()
                if key not in others and not vocabulary.is_ours(key)
            }
    return {**obj, "metadata": metadata}


def _merge(desired: dict[str, str], live: dict[str, str], managed: str | None) -> dict[str, str]:
    removed = frozenset((managed or "").split(","))
    return {key: value for key, value in live.items() if key not in removed} | desired


_WITHOUT_WORK = ("default", "vc-system")
"""Karmada sends no Work for `default` (contract 10.1), nor for the anchor."""
IN_EVERY_NAMESPACE: Mapping[GroupKind, str] = {
    vocabulary.SERVICE_ACCOUNT: "default",
    vocabulary.CONFIG_MAP: "kube-root-ca.crt",
}
"""Kind -> name of the object that the host itself creates in each namespace."""


def work_of(live: Object) -> str:
    """Return the Work that created a host object, "" for copies by controllers."""
    if _is_controlled(live):
        return ""
    namespace, _, name = annotations_of(live).get(vocabulary.WORK_ANNOTATION, "").partition("/")
    cluster = labels_of(live).get(vocabulary.CLUSTER_LABEL, "")
    return name if cluster and namespace == vocabulary.execution_namespace(cluster) else ""


def is_orphan(live: Object, works: Container[str]) -> bool:
    """Return whether the Work that created an object is missing in `works`, by name."""
    work = work_of(live)
    return bool(work) and work not in works


def namespaces_needed(works: Iterable[Object]) -> set[str]:
    """Return the virtual namespaces that Works contain, or have manifests in."""
    needed = set()
    for work in works:
        for manifest in maps_at(work, "spec", "workload", "manifests"):
            field = vocabulary.namespace_field(gvk_of(manifest).group_kind)
            needed.add(text_at(manifest, "metadata", field))
    return needed - {""}


def is_orphaned_namespace(namespace: str, needed: Container[str]) -> bool:
    """Return whether the claim on a virtual namespace has no Work any more."""
    return namespace not in _WITHOUT_WORK and namespace not in needed


def is_of_tenants(namespace: Object) -> bool:
    """Return whether a claimed host namespace was made by the gateway, and no Work claims it."""
    marks = annotations_of(namespace)
    return vocabulary.BY_GATEWAY_ANNOTATION in marks and not marks.get(vocabulary.WORK_ANNOTATION)


def is_foreign(gvk: GroupVersionKind, live: Object, cluster: str) -> bool:
    """Return whether an object, as a volume claim, is neither the cluster's nor the host's."""
    return not (
        labels_of(live).get(vocabulary.CLUSTER_LABEL) == cluster
        or _is_controlled(live)
        or IN_EVERY_NAMESPACE.get(gvk.group_kind) == live["metadata"]["name"]
    )


def _is_controlled(live: Object) -> bool:
    owners = maps_at(live, "metadata", "ownerReferences")
    return any(owner.get("controller") for owner in owners)
