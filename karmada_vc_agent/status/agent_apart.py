"""The condition AgentApart: whether the agent itself runs where no tenant has a say."""

from collections.abc import Mapping

from karmada_vc_agent.model.well_known import EDGE_LABEL
from karmada_vc_agent.status.conditions import Condition

AGENT_APART = "AgentApart"


def agent_apart(node: str, labels: Mapping[str, str], owner: str | None) -> Condition:
    """Return the condition for the node that the agent runs on.

    owner: the virtual cluster that the node belongs to. Whoever holds a node can have the
    tokens of all pods on it.
    """
    advice = "keep the agent off it by its nodeAffinity"
    if owner is not None:
        text = f"the agent runs on node {node}, which belongs to virtual cluster {owner}; {advice}"
        return _apart("False", "NodeOfGroup", text)
    if EDGE_LABEL in labels:
        text = f"the agent runs on node {node}, which is an edge node; {advice}"
        return _apart("False", "EdgeNode", text)
    return _apart("True", "NodeOfNobody", f"the agent runs on node {node}, which is nobody's")


def _apart(status: str, reason: str, message: str) -> Condition:
    return Condition(type=AGENT_APART, status=status, reason=reason, message=message)
