"""The condition RightsConfined: whether policies hold what RBAC alone cannot."""

from collections.abc import Sequence

from karmada_vc_agent.status.conditions import Condition
from karmada_vc_agent.status.placement_enforced import PolicyProblem

RIGHTS_CONFINED = "RightsConfined"


def rights_confined(problems: Sequence[PolicyProblem], *, is_confined: bool) -> Condition:
    """Return the condition: True where all policies about rights are there and right.

    is_confined: whether a write outside of its claims was seen to be refused to the agent.
    """
    if is_confined and not problems:
        return Condition(
            type=RIGHTS_CONFINED,
            status="True",
            reason="PoliciesInPlace",
            message="the agent and tenants with rights of their own are held by admission policies",
        )
    begin = (
        "admission policies are missing, changed or not in effect"
        if is_confined
        else "the agent's account is held by its roles alone, which let it reach every namespace"
    )
    reason = problems[0].reason if problems else "NothingHolds"
    texts = [trouble.text for trouble in problems]
    return Condition(
        type=RIGHTS_CONFINED, status="False", reason=reason, message="; ".join([begin, *texts])
    )
