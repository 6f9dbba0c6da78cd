"""The condition NodesMissing: whether the settings name nodes that the host does not have."""

from collections.abc import Sequence

from karmada_vc_agent.status.conditions import Condition

NODES_MISSING = "NodesMissing"
_SHOWN = 10


def nodes_missing(names: Sequence[str]) -> Condition:
    """Return the condition; names: those of nodeNames that no node has, in order."""
    if not names:
        return _missing("False", "NodeNamesFound", "every name of nodeNames is that of a node")
    text = f"no node has the name {listed(names)} of nodeNames; correct it, or add the node"
    return _missing("True", "NodeNamesNotFound", text)


def listed(names: Sequence[str]) -> str:
    """Return names in a line that stays short."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _missing(status: str, reason: str, message: str) -> Condition:
    return Condition(type=NODES_MISSING, status=status, reason=reason, message=message)
