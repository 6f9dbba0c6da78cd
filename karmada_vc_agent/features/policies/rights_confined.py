"""The condition RightsConfined: whether admission policies restrict what RBAC cannot."""

from collections.abc import Sequence

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType
from karmada_vc_agent.features.policies.placement_enforced import PolicyProblem

RIGHTS_CONFINED = ConditionType(
    "RightsConfined",
    "Admission policies restrict what RBAC cannot ([isolation](isolation.md)).",
    for_all=True,
)


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
