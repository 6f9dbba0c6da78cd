"""The condition NodesReachable, and the Ready of a Cluster that depends on it."""

from collections.abc import Iterable
from dataclasses import dataclass

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.cluster.rules.readiness import READY
from karmada_vc_agent.model.core import Node

NODES_REACHABLE = ConditionType(
    "NodesReachable",
    "At least one node of the group is Ready.",
    on_cluster=Shown.ALWAYS,
    on_object=Shown.ALWAYS,
)
NO_NODES = "NoNodes"


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """Nodes that count for a virtual cluster."""

    total: int = 0
    ready: int = 0


def count_nodes(nodes: Iterable[Node]) -> NodeCounts:
    """Count nodes, and the Ready ones."""
    states = [node.is_ready for node in nodes]
    return NodeCounts(len(states), sum(states))


def nodes_reachable(nodes: NodeCounts) -> Condition:
    """Return the condition NodesReachable: False where pods could run on no node."""
    if not nodes.total:
        return NODES_REACHABLE.false(NO_NODES, "no node of the host is in the group")
    if not nodes.ready:
        those = "the only node" if nodes.total == 1 else f"none of the {nodes.total} nodes"
        verb = "is not" if nodes.total == 1 else "is"
        text = f"{those} of the group {verb} Ready"
        return NODES_REACHABLE.false("NoNodeReady", text)
    text = f"{nodes.ready} of {nodes.total} nodes are Ready"
    return NODES_REACHABLE.true("NodesReady", text)


def ready_with(host: Condition, nodes: Condition | None, *, when_unreachable: bool) -> Condition:
    """Return the condition Ready of a Cluster, from what was judged of its host and its nodes.

    nodes: NodesReachable, None until it was judged. when_unreachable: whether it is Ready all the
    same while its nodes are not. Source: contract 4.2, trap 12.
    """
    is_away = nodes is not None and nodes["status"] != "True"
    if nodes is None or not is_away or when_unreachable or host["status"] != "True":
        return host
    text = f"the API server of the host is healthy, but {nodes['message']}"
    return READY.false("NodesNotReachable", text)
