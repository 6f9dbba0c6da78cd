"""Which host objects no Work stands behind any more.

The Work vanished while no agent looked: its finalizer was taken off by force, or by the hub
when the Cluster was not Ready (contract 1.9).
"""

from collections.abc import Container

from karmada_vc_agent.model.domain import CLUSTER_LABEL, WORK_ANNOTATION
from karmada_vc_agent.model.karmada import execution_namespace
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of


def work_of(live: Object) -> str:
    """Return the name of the Work that made a host object, or "".

    Copies of its labels that controllers of the host made (EndpointSlices of a Service) have
    no such annotation or have an owner, and go with what they were made for.
    """
    owners = live["metadata"].get("ownerReferences") or ()
    if any(owner.get("controller") for owner in owners):
        return ""
    namespace, _, name = annotations_of(live).get(WORK_ANNOTATION, "").partition("/")
    cluster = labels_of(live).get(CLUSTER_LABEL, "")
    return name if cluster and namespace == execution_namespace(cluster) else ""


def is_orphan(live: Object, works: Container[str]) -> bool:
    """Whether a Work made this object that is not among `works`, the names of its cluster's."""
    work = work_of(live)
    return bool(work) and work not in works
