"""The condition NodesMissing: whether nodeNames contains names that no node has."""

from collections.abc import Sequence

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.model.texts import listed

NODES_MISSING = "NodesMissing"


def nodes_missing(names: Sequence[str]) -> Condition:
    """Return the condition. names: the names without a node, in the order of nodeNames."""
    if not names:
        return _missing("False", "NodeNamesFound", "all nodes of nodeNames exist")
    text = f"no node is named {listed(names)}; correct nodeNames, or add the node"
    return _missing("True", "NodeNamesNotFound", text)


def _missing(status: str, reason: str, message: str) -> Condition:
    return Condition(type=NODES_MISSING, status=status, reason=reason, message=message)
