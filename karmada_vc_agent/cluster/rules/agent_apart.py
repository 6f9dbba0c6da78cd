"""The condition AgentApart: whether the agent runs on a node that no tenant controls."""

from collections.abc import Mapping

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.model.well_known import EDGE_LABEL

AGENT_APART = "AgentApart"


def agent_apart(node: str, labels: Mapping[str, str], owner: str | None) -> Condition:
    """Return the condition for the node that the agent runs on.

    owner: the virtual cluster that the node belongs to, or None. Whoever controls a node can get
    the tokens of all pods on it.
    """
    advice = "use nodeAffinity to keep the agent off it"
    if owner is not None:
        text = f"the agent runs on node {node}, which belongs to virtual cluster {owner}; {advice}"
        return _apart("False", "NodeOfGroup", text)
    if EDGE_LABEL in labels:
        text = f"the agent runs on node {node}, which is an edge node; {advice}"
        return _apart("False", "EdgeNode", text)
    return _apart(
        "True",
        "NodeOfNobody",
        f"the agent runs on node {node}, which belongs to no virtual cluster",
    )


def _apart(status: str, reason: str, message: str) -> Condition:
    return Condition(type=AGENT_APART, status=status, reason=reason, message=message)
