"""The condition PlacementEnforced: what keeps pods that nobody translated on their nodes."""

from dataclasses import dataclass

from karmada_vc_agent.status.conditions import Condition

PLACEMENT_ENFORCED = "PlacementEnforced"

POD_NODE_SELECTOR = "PodNodeSelector"
MUTATING = "MutatingAdmissionPolicy"
VALIDATING = "ValidatingAdmissionPolicy"
LAYERS = (POD_NODE_SELECTOR, MUTATING, VALIDATING)
"""In the order in which an API server asks them (rewriting-rules 3.5)."""

_HOLDS_ALONE = frozenset((POD_NODE_SELECTOR, VALIDATING))
"""The other one adds what is missing, but lets a selector of other nodes pass."""


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """Why a layer does not hold, and what to do; reason: one word, as in a condition."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Enforcement:
    """Which layers were seen to hold, and what stood in the way of others."""

    layers: frozenset[str]
    problems: tuple[PolicyProblem, ...] = ()


def placement_enforced(enforcement: Enforcement) -> Condition:
    """Return the condition: True where a layer holds that lets no pod select other nodes."""
    held = ", ".join(layer for layer in LAYERS if layer in enforcement.layers)
    texts = [trouble.text for trouble in enforcement.problems]
    if enforcement.layers & _HOLDS_ALONE:
        return Condition(
            type=PLACEMENT_ENFORCED,
            status="True",
            reason="PodsKept",
            message="; ".join([f"held by {held}", *texts]),
        )
    begin = "pods that operators or tenants make themselves may run on any node"
    reason = enforcement.problems[0].reason if enforcement.problems else "NothingHolds"
    return Condition(
        type=PLACEMENT_ENFORCED, status="False", reason=reason, message="; ".join([begin, *texts])
    )
