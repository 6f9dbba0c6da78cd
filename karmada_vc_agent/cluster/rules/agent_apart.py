"""The condition AgentApart: the agent runs on a node that no tenant controls."""

from collections.abc import Mapping

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType
from karmada_vc_agent.model.well_known import EDGE_LABEL

AGENT_APART = ConditionType(
    "AgentApart",
    "The agent runs on a node that no tenant controls.",
    idle="NodeOfNobody",
    for_all=True,
    warning="Running on a node that tenants may control",
)


def agent_apart(node: str, labels: Mapping[str, str], owner: str | None) -> Condition:
    """Return the condition for the node that the agent runs on.

    owner: the virtual cluster that the node belongs to, or None. Control of a node gives the
    tokens of all pods on it.
    """
    advice = "use nodeAffinity to keep the agent off it"
    if owner is not None:
        text = f"the agent runs on node {node}, which belongs to virtual cluster {owner}; {advice}"
        return AGENT_APART.false("NodeOfGroup", text)
    if EDGE_LABEL in labels:
        text = f"the agent runs on node {node}, which is an edge node; {advice}"
        return AGENT_APART.false("EdgeNode", text)
    text = f"the agent runs on node {node}, which belongs to no virtual cluster"
    return AGENT_APART.true("NodeOfNobody", text)
