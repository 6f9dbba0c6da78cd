"""The condition NamespacesHeld: where an administrator of the host stopped the agent (ADR 43)."""

from collections.abc import Sequence

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.model.texts import listed

NAMESPACES_HELD = "NamespacesHeld"
_NAMED = 10


def namespaces_held(held: Sequence[str]) -> Condition:
    """Return the condition; held: virtual namespaces, each with its reason."""
    if not held:
        message = "the agent writes to all namespaces"
        return _condition("False", "NoneHeld", message)
    message = f"the agent writes nothing in {listed(held, _NAMED, len(held))}"
    return _condition("True", "Held", message)


def _condition(status: str, reason: str, message: str) -> Condition:
    return Condition(type=NAMESPACES_HELD, status=status, reason=reason, message=message)
