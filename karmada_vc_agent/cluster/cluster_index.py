"""The index of stores of host objects: which virtual cluster an object is labelled with."""

from collections.abc import Iterable

from karmada_vc_agent.model.domain import CLUSTER_LABEL
from karmada_vc_agent.model.objects import Object, labels_of

CLUSTER_INDEX = "virtual cluster"


def labelled_cluster(obj: Object) -> Iterable[str]:
    """Return the virtual cluster in the label of a host object, nothing without that label."""
    name = labels_of(obj).get(CLUSTER_LABEL)
    return (name,) if name else ()
