"""The condition NodeOverlap: whether others select nodes of a virtual cluster, too."""

from collections.abc import Sequence

from karmada_vc_agent.cluster.rules.conditions import Condition

NODE_OVERLAP = "NodeOverlap"


def node_overlap(overlaps: Sequence[tuple[str, str]]) -> Condition:
    """Return the condition. overlaps: (node, other virtual cluster)."""
    if not overlaps:
        message = "no node is selected by another virtual cluster"
        return _condition("False", "NodesDisjoint", message)
    node, other = overlaps[0]
    more = f" (and {len(overlaps) - 1} more)" if len(overlaps) > 1 else ""
    message = f'node "{node}"{more} is also selected by virtual cluster "{other}"'
    return _condition("True", "NodesShared", message)


def _condition(status: str, reason: str, message: str) -> Condition:
    return Condition(type=NODE_OVERLAP, status=status, reason=reason, message=message)
