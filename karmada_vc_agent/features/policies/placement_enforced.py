"""Conditions about admission policies: PlacementEnforced and RightsConfined."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.model.texts import listed

PLACEMENT_ENFORCED = ConditionType(
    "PlacementEnforced",
    "Admission keeps pods that the agent did not translate on the nodes of the group "
    "([rewriting-rules 3.5](rewriting-rules.md)).",
    on_object=Shown.ALWAYS,
)
RIGHTS_CONFINED = ConditionType(
    "RightsConfined",
    "Admission policies restrict what RBAC cannot ([isolation](isolation.md)).",
    for_all=True,
)

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


def placement_enforced(
    layers: Collection[str], problems: Sequence[PolicyProblem] = ()
) -> Condition:
    """Return the condition: True if a layer is in effect that rejects pods for other nodes.

    layers: those in effect. problems: of the others.
    """
    held = ", ".join(layer for layer in LAYERS if layer in layers)
    texts = [problem.text for problem in problems]
    if not _HOLDS_ALONE.isdisjoint(layers):
        message = "; ".join([f"enforced by {held}", *texts])
        return PLACEMENT_ENFORCED.true("PodsKept", message)
    begin = "pods created by operators or tenants may run on any node"
    reason = problems[0].reason if problems else "NothingHolds"
    return PLACEMENT_ENFORCED.false(reason, "; ".join([begin, *texts]))


def with_kept(enforced: Condition | None, kept: Sequence[str]) -> Condition | None:
    """Return PlacementEnforced of one virtual cluster; None before the first check.

    enforced: what holds for all. kept: its adopted workloads whose pods select no nodes yet.
    """
    if not kept:
        return enforced
    text = (
        f"adopted workloads keep running pods that may lack the node selector: {listed(kept)}; the "
        "agent adds it with the next change of the pod template, or when a pod is missing"
    )
    if enforced is None:
        return PLACEMENT_ENFORCED.false("AdoptedNotPlaced", text)
    reason = enforced["reason"] if enforced["status"] == "False" else "AdoptedNotPlaced"
    return PLACEMENT_ENFORCED.false(reason, f"{text}; {enforced['message']}")


def rights_confined(problems: Sequence[PolicyProblem], *, is_confined: bool) -> Condition:
    """Return the condition: True if all policies about rights are installed as expected.

    is_confined: whether a dry run of the agent outside its claims was denied.
    """
    if is_confined and not problems:
        text = "admission policies restrict the agent and tenants with rights of their own"
        return RIGHTS_CONFINED.true("PoliciesInPlace", text)
    begin = (
        "admission policies are missing, changed or not in effect"
        if is_confined
        else "only roles restrict the agent's account, and they allow writes to every namespace"
    )
    reason = problems[0].reason if problems else "NothingHolds"
    texts = [problem.text for problem in problems]
    return RIGHTS_CONFINED.false(reason, "; ".join([begin, *texts]))
