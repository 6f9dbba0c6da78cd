"""Conditions about nodes: which are shared or missing, and which one the agent runs on."""

from collections.abc import Iterable, Sequence

from karmada_vc_agent.cluster.rules.agent_apart import AGENT_APART, agent_apart
from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.cluster.rules.group_trusted import GROUP_TRUSTED, group_trusted
from karmada_vc_agent.kube.keys import itself
from karmada_vc_agent.model.texts import listed
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.condition_spec import ConditionSpec, Trigger
from karmada_vc_agent.runner.parts import Parts

NODE_OVERLAP = ConditionType(
    "NodeOverlap",
    "Another virtual cluster selects nodes of the group, too; the older one has them "
    "([rewriting-rules 3.1](rewriting-rules.md)).",
    normal="False",
    idle="NodesDisjoint",
    on_object=Shown.ALWAYS,
    warning="Nodes are selected by several virtual clusters; the older one has them",
)
NODES_MISSING = ConditionType(
    "NodesMissing",
    "`nodeNames` has names that no node has.",
    normal="False",
    idle="NodeNamesFound",
    warning="No nodes have these names",
)


def node_overlap(overlaps: Sequence[tuple[str, str]]) -> Condition:
    """Return the condition. overlaps: (node, other virtual cluster)."""
    if not overlaps:
        return NODE_OVERLAP.false("NodesDisjoint", "no node is selected by another virtual cluster")
    node, other = overlaps[0]
    more = f" (and {len(overlaps) - 1} more)" if len(overlaps) > 1 else ""
    text = f'node "{node}"{more} is also selected by virtual cluster "{other}"'
    return NODE_OVERLAP.true("NodesShared", text)


def nodes_missing(names: Sequence[str]) -> Condition:
    """Return the condition. names: the names without a node, in the order of nodeNames."""
    if not names:
        return NODES_MISSING.false("NodeNamesFound", "all nodes of nodeNames exist")
    text = f"no node is named {listed(names)}; correct nodeNames, or add the node"
    return NODES_MISSING.true("NodeNamesNotFound", text)


def _overlap(parts: Parts, vc: VirtualCluster) -> Condition:
    return node_overlap(parts.common.stores.membership.overlaps(vc.name))


def _missing(parts: Parts, vc: VirtualCluster) -> Condition:
    nodes = parts.common.stores.nodes
    return nodes_missing([name for name in vc.node_names if nodes.get("", name) is None])


def _agent_apart(parts: Parts, _: VirtualCluster) -> Condition | None:
    name, stores = parts.common.node, parts.common.stores
    node = stores.nodes.get("", name) if name else None
    if node is None:
        return None
    return agent_apart(name, node.metadata.labels, stores.membership.owner_of(name))


def _trusted(parts: Parts, vc: VirtualCluster) -> Condition:
    origin, trust = parts.common.origins.of(vc.name), parts.common.stores.trust
    return group_trusted(
        vc,
        has_kubeedge=trust.has_kubeedge,
        node_restriction=trust.node_restriction,
        origin=origin.text if origin is not None else "",
        by_label=origin is not None and origin.is_label,
    )


def _origins(parts: Parts) -> Iterable[Trigger]:
    yield parts.common.origins.changed.subscribe, itself


CONDITIONS = (
    ConditionSpec(GROUP_TRUSTED, _trusted, _origins),
    ConditionSpec(NODE_OVERLAP, _overlap),
    ConditionSpec(NODES_MISSING, _missing),
    ConditionSpec(AGENT_APART, _agent_apart),
)
