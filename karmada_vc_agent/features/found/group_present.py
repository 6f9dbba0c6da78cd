"""The condition GroupPresent: whether what a virtual cluster was found by is still there."""

from karmada_vc_agent.cluster.rules.conditions import Condition

GROUP_PRESENT = "GroupPresent"


def group_present(found_by: str, absence: str) -> Condition:
    """Return the condition.

    found_by: `NodeGroup shop-a`; "" where settings or an object define the virtual cluster now.
    absence: why that is not there, and what comes of it; "" = it is.
    """
    if not found_by:
        return _condition(
            "True", "Defined", "the settings or a VirtualCluster object define it now"
        )
    if absence:
        return _condition("False", "Gone", absence)
    return _condition("True", "Found", f"found by {found_by}")


def _condition(status: str, reason: str, message: str) -> Condition:
    return Condition(type=GROUP_PRESENT, status=status, reason=reason, message=message)
