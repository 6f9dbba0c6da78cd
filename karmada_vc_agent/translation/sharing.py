"""Labels of objects that virtual clusters share (rewriting-rules 5.1).

A shared object belongs to no single Work, so it carries nothing that refers to one.
"""

from karmada_vc_agent.model import domain, karmada
from karmada_vc_agent.model.objects import Object

_KEPT = frozenset(
    (
        karmada.MANAGED_LABEL,
        karmada.MANAGED_LABELS_ANNOTATION,
        karmada.MANAGED_ANNOTATIONS_ANNOTATION,
        karmada.CONFLICT_RESOLUTION_ANNOTATION,
    )
)


def stamp(obj: Object) -> None:
    """Label an object as shared, in place, and remove what refers to one Work or binding."""
    metadata = obj["metadata"]
    for name in ("labels", "annotations"):
        items = (metadata.get(name) or {}).items()
        metadata[name] = {k: v for k, v in items if k in _KEPT or not karmada.is_karmada_key(k)}
    metadata["labels"][domain.SHARED_LABEL] = "true"
