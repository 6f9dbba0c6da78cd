"""The condition PlacementEnforced: whether admission keeps untranslated pods on their nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.model.texts import listed

PLACEMENT_ENFORCED = "PlacementEnforced"

POD_NODE_SELECTOR = "PodNodeSelector"
MUTATING = "MutatingAdmissionPolicy"
VALIDATING = "ValidatingAdmissionPolicy"
LAYERS = (POD_NODE_SELECTOR, MUTATING, VALIDATING)
"""In the order of admission in an API server (rewriting-rules 3.5)."""

_HOLDS_ALONE = frozenset((POD_NODE_SELECTOR, VALIDATING))
"""MutatingAdmissionPolicy adds a missing selector, but does not reject one for other nodes."""


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """Why a layer is not in effect, and what to do; reason: in CamelCase, as in a condition."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Enforcement:
    """Which layers were seen in effect, and the problems of the others."""

    layers: frozenset[str]
    problems: tuple[PolicyProblem, ...] = ()


def placement_enforced(enforcement: Enforcement) -> Condition:
    """Return the condition: True if a layer is in effect that rejects pods for other nodes."""
    held = ", ".join(layer for layer in LAYERS if layer in enforcement.layers)
    texts = [problem.text for problem in enforcement.problems]
    if enforcement.layers & _HOLDS_ALONE:
        return Condition(
            type=PLACEMENT_ENFORCED,
            status="True",
            reason="PodsKept",
            message="; ".join([f"enforced by {held}", *texts]),
        )
    begin = "pods created by operators or tenants may run on any node"
    reason = enforcement.problems[0].reason if enforcement.problems else "NothingHolds"
    return Condition(
        type=PLACEMENT_ENFORCED, status="False", reason=reason, message="; ".join([begin, *texts])
    )


def with_kept(enforced: Condition | None, kept: Sequence[str]) -> list[Condition]:
    """Return PlacementEnforced of one virtual cluster; nothing while it is not known.

    enforced: what holds for all. kept: its adopted workloads whose pods select no nodes yet.
    """
    if not kept:
        return [enforced] if enforced is not None else []
    text = (
        f"adopted workloads keep running pods that may lack the node selector: {listed(kept)}; the "
        "agent adds it with the next change of the pod template, or when a pod is missing"
    )
    before = enforced["message"] if enforced is not None else ""
    is_false = enforced is not None and enforced["status"] == "False"
    return [
        Condition(
            type=PLACEMENT_ENFORCED,
            status="False",
            reason=enforced["reason"] if enforced is not None and is_false else "AdoptedNotPlaced",
            message="; ".join(part for part in (text, before) if part),
        )
    ]
