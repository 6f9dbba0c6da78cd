"""Three-way merge of labels and annotations, and what is removed when Karmada releases."""

from typing import Any

from karmada_vc_agent.model import domain, karmada
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of

_POLICY_LABELS = (karmada.POLICY_PERMANENT_ID_LABEL,)
_POLICY_ANNOTATIONS = (karmada.POLICY_NAMESPACE_ANNOTATION, karmada.POLICY_NAME_ANNOTATION)
_CLUSTER_POLICY_LABELS = (karmada.CLUSTER_POLICY_PERMANENT_ID_LABEL,)
_CLUSTER_POLICY_ANNOTATIONS = (karmada.CLUSTER_POLICY_NAME_ANNOTATION,)

_OF_OTHERS = frozenset(
    (
        domain.STAND_IN_ANNOTATION,
        domain.APPLIED_ANNOTATION,
        domain.WRITTEN_ANNOTATION,
        karmada.WORK_NAME_ANNOTATION,
        karmada.WORK_NAMESPACE_ANNOTATION,
    )
)

# Contract 5.8. Karmada does not remove clusterresourcebinding.karmada.io/*; neither do we.
_MANAGED_LABELS = (
    karmada.BINDING_PERMANENT_ID_LABEL,
    karmada.WORK_PERMANENT_ID_LABEL,
    karmada.MANAGED_LABEL,
)
_MANAGED_ANNOTATIONS = (
    karmada.MANAGED_ANNOTATIONS_ANNOTATION,
    karmada.MANAGED_LABELS_ANNOTATION,
    karmada.TEMPLATE_UID_ANNOTATION,
    karmada.TEMPLATE_GENERATION_ANNOTATION,
    karmada.BINDING_NAMESPACE_ANNOTATION,
    karmada.BINDING_NAME_ANNOTATION,
    karmada.WORK_NAME_ANNOTATION,
    karmada.WORK_NAMESPACE_ANNOTATION,
)


def merge_labels(desired: Object, live: Object) -> dict[str, str]:
    """Return the labels to write: the manifest's, and those of others on the live object.

    A label listed in the live object's managed-labels annotation came from Karmada; if the manifest
    no longer has it, it is removed. Source: contract 5.5 step 3.
    """
    managed = annotations_of(live).get(karmada.MANAGED_LABELS_ANNOTATION)
    return _merge(labels_of(desired), labels_of(live), managed)


def merge_annotations(desired: Object, live: Object) -> dict[str, str]:
    """Return the annotations to write, by the rule of `merge_labels`.

    A stand-in that a Work takes over is none any more (ADR 24). What another agent of Karmada made
    names that one's Work, which is not to be followed (ADR 35). The digest of a manifest is that of
    the one written now, or none (ADR 43), and so is the mark of what was written (ADR 49).
    """
    kept = {key: text for key, text in annotations_of(live).items() if key not in _OF_OTHERS}
    return _merge(annotations_of(desired), kept, kept.get(karmada.MANAGED_ANNOTATIONS_ANNOTATION))


def merge_metadata(desired: Object, live: Object) -> Object:
    """Return the desired object with the metadata needed to update the live one.

    From the live object: resourceVersion, finalizers and ownerReferences (they replace the
    manifest's even if empty), merged labels and annotations. Source: contract 5.5 steps 2, 3.
    """
    metadata: dict[str, Any] = dict(desired.get("metadata") or {})
    live_metadata = live.get("metadata") or {}
    for field in ("resourceVersion", "finalizers", "ownerReferences"):
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
    """Return the manifest of a preserved object, without any mark of Karmada's management.

    Removes policy claims, binding and Work ids, the managed lists, and all labels and annotations
    of our own domain. Source: contract 5.8.
    """
    namespaced = bool((manifest.get("metadata") or {}).get("namespace"))
    labels = _POLICY_LABELS if namespaced else _CLUSTER_POLICY_LABELS
    annotations = _POLICY_ANNOTATIONS if namespaced else _CLUSTER_POLICY_ANNOTATIONS
    return _without_keys(
        manifest,
        frozenset((*labels, *_MANAGED_LABELS)),
        frozenset((*annotations, *_MANAGED_ANNOTATIONS)),
    )


def without_our_keys(obj: Object) -> Object:
    """Return the object without labels and annotations of our own domain."""
    return _without_keys(obj, frozenset(), frozenset())


def _merge(desired: dict[str, str], live: dict[str, str], managed: str | None) -> dict[str, str]:
    if live == desired:
        return dict(desired)
    removed = frozenset((managed or "").split(","))
    return {key: value for key, value in live.items() if key not in removed} | desired


def _without_keys(obj: Object, labels: frozenset[str], annotations: frozenset[str]) -> Object:
    metadata = dict(obj.get("metadata") or {})
    for field, removed in (("labels", labels), ("annotations", annotations)):
        if metadata.get(field):
            metadata[field] = {
                key: value
                for key, value in metadata[field].items()
                if key not in removed and not domain.is_ours(key)
            }
    return {**obj, "metadata": metadata}
