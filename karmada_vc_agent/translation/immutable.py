"""Pods and Jobs, which cannot follow a changed required selector (rewriting-rules 3.3)."""

from collections.abc import Mapping

from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.translation.placement import node_selector_annotation
from karmada_vc_agent.translation.pod_templates import LocatedPodSpec, are_fixed, pod_specs
from karmada_vc_agent.translation.refusal import Code, Refusal

_ANSWERS = ("field is immutable", "pod updates may not change fields")
"""The host's message for a Job and for a Pod; it also prints the whole pod spec (1.34.4)."""


def explain_immutable(
    answer: str, gvk: GroupVersionKind, live: Object | None, required: Mapping[str, str]
) -> Refusal | None:
    """Return Immutable if the host rejected a change of the node selector of a live object.

    answer: its 422. live: the host object. required: the required selector. None if something else
    was wrong. A Job that was not started yet may still move, so the host is tried first.
    """
    if live is None or not any(words in answer for words in _ANSWERS):
        return None
    if not are_fixed(gvk):
        return None
    for pod_spec in pod_specs(live, gvk):
        missing = _missing(pod_spec, required)
        if missing:
            path = f"{pod_spec.path}.nodeSelector"
            detail = (
                f"{path} cannot be changed to select {missing}; the object stays where it is: to "
                "move it, delete and recreate it"
            )
            return Refusal(Code.IMMUTABLE, path, detail)
    return None


def _missing(pod_spec: LocatedPodSpec, required: Mapping[str, str]) -> str:
    """Return the labels that a pod spec does not select, as `k=v,k2=v2`."""
    selector = pod_spec.spec.get("nodeSelector") or {}
    return node_selector_annotation(
        {key: value for key, value in required.items() if selector.get(key) != value}
    )
