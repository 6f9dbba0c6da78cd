"""Native rules of InterpretStatus: which part of a live object's status Karmada gets.

Source: contract 7.3; karmada pkg/resourceinterpreter/default/native/reflectstatus.go.
"""

import re
from collections.abc import Callable, Mapping

from karmada_vc_agent.model import karmada
from karmada_vc_agent.model.objects import GroupVersionKind, Object, annotations_of, dig

ReflectRule = Callable[[Object], Object | None]

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


def _show(*always: str, filled: str = "", generations: bool = False) -> ReflectRule:
    """Make a rule that shows these fields, and both generations if requested.

    always: counters, also sent if zero. filled: omitted if empty or zero.
    """

    def reflect(live: Object) -> Object | None:
        status = _status_of(live)
        if status is None:
            return None
        shown = {name: status.get(name) or 0 for name in always}
        shown |= {name: status[name] for name in filled.split() if status.get(name)}
        if not generations:
            return shown
        both = {
            "generation": dig(live, "metadata", "generation"),
            "resourceTemplateGeneration": _template_generation(live),
        }
        return {name: value for name, value in both.items() if value} | shown or None

    names = ", ".join(f"`{name}`" for name in (*always, *filled.split()))
    reflect.__doc__ = f"Show {'both generations, ' if generations else ''}{names}."
    return reflect


def _status_of(live: Object) -> Object | None:
    status = live.get("status")
    return status if isinstance(status, dict) else None


def _template_generation(live: Object) -> int:
    text = annotations_of(live).get(karmada.TEMPLATE_GENERATION_ANNOTATION, "")
    if not _INTEGER.fullmatch(text):
        raise ValueError(f'strconv.ParseInt: parsing "{text}": invalid syntax')  # Karmada's words
    return int(text)


def _reflect_service(live: Object) -> Object | None:
    """Show `loadBalancer.ingress` of a LoadBalancer, nothing of other types."""
    status = _status_of(live)
    if status is None or dig(live, "spec", "type") != "LoadBalancer":
        return None
    ingress = dig(status, "loadBalancer", "ingress")
    return {"loadBalancer": {"ingress": ingress} if ingress else {}}


def _reflect_autoscaler(live: Object) -> Object | None:
    """Show `currentReplicas` and `desiredReplicas`."""
    status = _status_of(live)
    if status is None:
        return None
    reflected: Object = {
        "desiredReplicas": status.get("desiredReplicas") or 0,
        "currentMetrics": None,  # Karmada sends null, its type has no omitempty there
    }
    if status.get("currentReplicas"):
        reflected["currentReplicas"] = status["currentReplicas"]
    return reflected


def reflect_whole_status(live: Object) -> Object | None:
    """Show the whole status.

    For every kind that is not in the table; None if there is no status.
    """
    return _status_of(live)


RULES: Mapping[GroupVersionKind, ReflectRule] = {
    GroupVersionKind("apps", "v1", "Deployment"): _show(
        filled="observedGeneration replicas updatedReplicas readyReplicas availableReplicas"
        " unavailableReplicas",
        generations=True,
    ),
    GroupVersionKind("apps", "v1", "ReplicaSet"): _show(
        "replicas",
        filled="readyReplicas availableReplicas observedGeneration",
        generations=True,
    ),
    GroupVersionKind("apps", "v1", "DaemonSet"): _show(
        *("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"),
        filled="observedGeneration updatedNumberScheduled numberAvailable numberUnavailable",
        generations=True,
    ),
    GroupVersionKind("apps", "v1", "StatefulSet"): _show(  # no observedGeneration
        *("replicas", "availableReplicas"),
        filled="readyReplicas currentReplicas updatedReplicas",
        generations=True,
    ),
    GroupVersionKind("", "v1", "Service"): _reflect_service,
    GroupVersionKind("batch", "v1", "Job"): _show(
        filled="active succeeded failed conditions startTime completionTime"
    ),
    GroupVersionKind("policy", "v1", "PodDisruptionBudget"): _show(
        *("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"),
        filled="disruptedPods",
    ),
    GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler"): _reflect_autoscaler,
}
"""For every other kind the whole status is shown (contract 7.3)."""
