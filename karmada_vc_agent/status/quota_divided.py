"""The condition QuotaDivided: whether the namespaces have the shares that they should have."""

from karmada_vc_agent.status.conditions import Condition

QUOTA_DIVIDED = "QuotaDivided"


def quota_divided(reason: str | None, message: str = "") -> Condition:
    """Return the condition; reason: why the division stands still, None where it does not."""
    if reason is None:
        message = "every namespace has its share of the quota"
        return _condition("True", "Divided", message)
    return _condition("False", reason, f"no share of the quota is raised: {message}")


def no_quota() -> Condition:
    """Return the condition of a virtual cluster that had a quota and has none any more."""
    return _condition("True", "NoQuota", "the settings give no quota")


def _condition(status: str, reason: str, message: str) -> Condition:
    return Condition(type=QUOTA_DIVIDED, status=status, reason=reason, message=message)
