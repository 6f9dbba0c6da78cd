"""Which placement an adopted workload may keep, so that its pods are not recreated (ADR 35).

Pure rules over plain objects; features/adoption/adoptions.py asks the host.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from karmada_vc_agent.model import domain
from karmada_vc_agent.model.objects import (
    GroupKind,
    Object,
    annotations_of,
    copy_object,
    dig,
    gvk_of,
    labels_of,
    metadata_map,
)
from karmada_vc_agent.model.selectors import LabelSelector
from karmada_vc_agent.translation.pod_templates import pod_specs

_PLACEMENT = ("nodeSelector", "affinity", "tolerations")
_FINISHED = ("Succeeded", "Failed")
_POD = GroupKind("", "Pod")


def _replicas(_live: Object, desired: Object) -> int:
    replicas = dig(desired, "spec", "replicas")
    return replicas if isinstance(replicas, int) else 1


def _scheduled(live: Object, _desired: Object) -> int:
    return int(dig(live, "status", "desiredNumberScheduled") or 0)


def _none(_live: Object, _desired: Object) -> int:
    return 0


MAKE_PODS_ANEW: Mapping[GroupKind, Callable[[Object, Object], int]] = {
    _POD: _none,
    GroupKind("apps", "Deployment"): _replicas,
    GroupKind("apps", "StatefulSet"): _replicas,
    GroupKind("apps", "DaemonSet"): _scheduled,
    GroupKind("batch", "Job"): _none,
}
"""Kinds whose pods are replaced, or that the host refuses, when their pod spec changes -> how many
pods (live, desired) are to run. The pods of others, such as a CronJob, stay whatever changes."""


def may_keep(live: Object) -> bool:
    """Return whether an object is being adopted, or was, and was not placed since."""
    is_ours = domain.CLUSTER_LABEL in labels_of(live)
    is_kept = domain.KEPT_PLACEMENT_ANNOTATION in annotations_of(live)
    return gvk_of(live).group_kind in MAKE_PODS_ANEW and (is_kept or not is_ours)


def with_placement_of(live: Object, desired: Object) -> Object | None:
    """Return the desired object with the live placement, marked so; None if they are the same."""
    gvk = gvk_of(desired)
    kept: Object = copy_object(desired)
    differs = False
    for ours, theirs in zip(pod_specs(kept, gvk), pod_specs(live, gvk), strict=False):
        for field in _PLACEMENT:
            differs |= (ours.spec.get(field) or None) != (theirs.spec.get(field) or None)
            ours.spec.pop(field, None)
            if theirs.spec.get(field):
                ours.spec[field] = copy_object(theirs.spec[field])
    if not differs:
        return None
    metadata_map(kept, "annotations")[domain.KEPT_PLACEMENT_ANNOTATION] = "true"
    return kept


def without_mark(desired: Object) -> Object:
    """Return an object that is placed as desired, without the mark of one that is not."""
    if domain.KEPT_PLACEMENT_ANNOTATION not in annotations_of(desired):
        return desired
    placed: Object = copy_object(desired)
    del placed["metadata"]["annotations"][domain.KEPT_PLACEMENT_ANNOTATION]
    return placed


def same_pods(answer: Object, live: Object) -> bool:
    """Return whether the pods of two versions are the same, defaults of the host included."""
    gvk = gvk_of(live)
    if gvk.group_kind == _POD:
        return bool(answer.get("spec") == live.get("spec"))
    return bool(dig(answer, "spec", "template") == dig(live, "spec", "template"))


def says_the_same(answer: Object, live: Object) -> bool:
    """Return whether a write would change nothing but the version."""
    return bool(
        answer.get("spec") == live.get("spec")
        and labels_of(answer) == labels_of(live)
        and annotations_of(answer) == annotations_of(live)
    )


def pods_of(live: Object, pods: Iterable[Object]) -> list[Object]:
    """Return the pods of a workload among those of its namespace that are to stay and run."""
    if gvk_of(live).group_kind == _POD:
        own = [live]
    else:
        selector = _selector(dig(live, "spec", "selector"))
        own = [pod for pod in pods if selector is not None and selector.matches(labels_of(pod))]
    return [
        pod
        for pod in own
        if not dig(pod, "metadata", "deletionTimestamp")
        and dig(pod, "status", "phase") not in _FINISHED
    ]


def run_in_place(
    live: Object, desired: Object, pods: list[Object], owns_node: Callable[[str], bool]
) -> bool:
    """Return whether all pods that a workload is to have run, on nodes of the virtual cluster.

    Else it creates pods in any case, which must select these nodes.
    """
    nodes = [dig(pod, "spec", "nodeName") or "" for pod in pods]
    enough = MAKE_PODS_ANEW[gvk_of(live).group_kind](live, desired)
    return len(nodes) >= enough and all(map(owns_node, nodes))


def _selector(value: Any) -> LabelSelector | None:
    try:
        selector = msgspec.convert(value, LabelSelector)
    except msgspec.ValidationError:
        return None
    return selector or None
