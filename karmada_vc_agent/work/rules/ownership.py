"""Which live objects may be written, and the message if not."""

from collections.abc import Container

from karmada_vc_agent.model import domain, karmada
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of

_CONFLICT_OVERWRITE = "overwrite"


def is_managed(live: Object) -> bool:
    """Return whether a Karmada created the live object, maybe not ours (trap 23)."""
    return labels_of(live).get(karmada.MANAGED_LABEL) == "true"


def may_replace(desired: Object, live: Object, former: Container[str] = ()) -> bool:
    """Return whether an update is allowed: managed by Karmada, or the manifest says overwrite.

    Never for an object of another virtual cluster, whatever the manifest says. former: earlier
    names of its own. Source: contract 5.5 step 1, trap 23.
    """
    owner = labels_of(live).get(domain.CLUSTER_LABEL)
    own = labels_of(desired).get(domain.CLUSTER_LABEL)
    if owner and owner != own and owner not in former:
        return False
    if is_managed(live):
        return True
    strategy = annotations_of(desired).get(karmada.CONFLICT_RESOLUTION_ANNOTATION)
    return strategy == _CONFLICT_OVERWRITE


def may_delete(desired: Object, live: Object) -> bool:
    """Return whether a delete is allowed: managed by Karmada, of this virtual cluster.

    Karmada requires only the first. Source: contract 5.8, trap 23.
    """
    owner = labels_of(live).get(domain.CLUSTER_LABEL)
    return is_managed(live) and owner == labels_of(desired).get(domain.CLUSTER_LABEL)


def conflict_text(kind: str, virtual_namespace: str, name: str, cluster: str) -> str:
    """Return Karmada's message for a live object that it does not manage (contract 5.5).

    A cluster-scoped object keeps the slash: `resource(kind=ClusterRole, /reader)`.
    """
    return (
        f"resource(kind={kind}, {virtual_namespace}/{name}) already exists in the cluster "
        f"{cluster} and the {karmada.CONFLICT_RESOLUTION_ANNOTATION} strategy value is empty, "
        "Karmada will not manage this resource"
    )
