"""The condition RightsConfined: whether admission policies restrict what RBAC cannot."""

from collections.abc import Sequence

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.features.policies.placement_enforced import PolicyProblem

RIGHTS_CONFINED = "RightsConfined"


def rights_confined(problems: Sequence[PolicyProblem], *, is_confined: bool) -> Condition:
    """Return the condition: True if all policies about rights are installed as expected.

    is_confined: whether a dry run of the agent outside its claims was denied.
    """
    if is_confined and not problems:
        return Condition(
            type=RIGHTS_CONFINED,
            status="True",
            reason="PoliciesInPlace",
            message="admission policies restrict the agent and tenants with rights of their own",
        )
    begin = (
        "admission policies are missing, changed or not in effect"
        if is_confined
        else "only roles restrict the agent's account, and they allow writes to every namespace"
    )
    reason = problems[0].reason if problems else "NothingHolds"
    texts = [problem.text for problem in problems]
    return Condition(
        type=RIGHTS_CONFINED, status="False", reason=reason, message="; ".join([begin, *texts])
    )
