"""The condition QuotaDivided: whether the namespaces have their shares of the quota."""

from karmada_vc_agent.cluster.rules.conditions import Condition

QUOTA_DIVIDED = "QuotaDivided"


def quota_divided(reason: str | None, message: str = "") -> Condition:
    """Return the condition; reason: why no share can be raised, None if shares are up to date."""
    if reason is None:
        message = "every namespace has its share of the quota"
        return _condition("True", "Divided", message)
    return _condition("False", reason, f"cannot raise shares of the quota: {message}")


def no_quota() -> Condition:
    """Return the condition of a virtual cluster whose quota was removed."""
    return _condition("True", "NoQuota", "no quota is configured")


def _condition(status: str, reason: str, message: str) -> Condition:
    return Condition(type=QUOTA_DIVIDED, status=status, reason=reason, message=message)
