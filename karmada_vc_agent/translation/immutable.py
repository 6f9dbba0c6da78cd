"""What cannot move when the required selector changes: Pods and Jobs (rewriting-rules 3.3)."""

from collections.abc import Mapping

from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.translation.placement import node_selector_annotation
from karmada_vc_agent.translation.pod_templates import PodSpec, are_fixed, pod_specs
from karmada_vc_agent.translation.refusal import Code, Refusal

_ANSWERS = ("field is immutable", "pod updates may not change fields")
"""How the host says so of a Job and of a Pod; it prints the whole pod spec beside (1.34.4)."""


def explain_immutable(
    answer: str, gvk: GroupVersionKind, live: Object | None, required: Mapping[str, str]
) -> Refusal | None:
    """Return Immutable where the host kept a live object from selecting the group's nodes of now.

    answer: its 422. live: the host object. required: the required selector. None where something
    else was wrong: a Job that was not started yet may still move, so the host is asked first.
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
                f"{path} cannot be changed to select {missing}; the object stays as it is: to "
                "move it, delete it and create it again"
            )
            return Refusal(Code.IMMUTABLE, path, detail)
    return None


def _missing(pod_spec: PodSpec, required: Mapping[str, str]) -> str:
    """Return the labels that a pod spec does not select, as `k=v,k2=v2`."""
    found = pod_spec.spec.get("nodeSelector") or {}
    return node_selector_annotation(
        {key: value for key, value in required.items() if found.get(key) != value}
    )
