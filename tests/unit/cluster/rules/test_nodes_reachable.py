"""The condition NodesReachable, and Ready of a Cluster whose nodes are away."""

import pytest

from karmada_vc_agent.cluster.rules.conditions import (
    Condition,
    nodes_reachable,
    observed_ready,
    ready_with,
)

UP, DOWN = observed_ready(200), observed_ready(None)
THERE, AWAY, NONE = (nodes_reachable(*n) for n in ((2, 1), (2, 0), (0, 0)))


@pytest.mark.parametrize(
    ("nodes", "status", "reason", "message"),
    [
        ((0, 0), "False", "NoNodes", "no node of the host is in the group"),
        ((1, 0), "False", "NoNodeReady", "0 of 1 nodes are Ready"),
        ((2, 0), "False", "NoNodeReady", "0 of 2 nodes are Ready"),
        ((2, 1), "True", "NodesReady", "1 of 2 nodes are Ready"),
    ],
)
def test_nodes_are_reachable_where_one_is_ready(
    nodes: tuple[int, int], status: str, reason: str, message: str
) -> None:
    assert nodes_reachable(*nodes) == Condition(
        type="NodesReachable", status=status, reason=reason, message=message
    )


@pytest.mark.parametrize("nodes", [THERE, AWAY, NONE, None])
def test_ready_is_the_hosts_where_nodes_do_not_count(nodes: Condition | None) -> None:
    assert ready_with(UP, nodes, when_unreachable=True) is UP
    assert ready_with(DOWN, nodes, when_unreachable=False) is DOWN


def test_ready_follows_the_nodes_where_they_count() -> None:
    assert ready_with(UP, THERE, when_unreachable=False) is UP
    assert ready_with(UP, None, when_unreachable=False) is UP
    assert ready_with(UP, NONE, when_unreachable=False) == Condition(
        type="Ready",
        status="False",
        reason="NodesNotReachable",
        message="the API server of the host is healthy, but no node of the host is in the group",
    )
    assert ready_with(UP, AWAY, when_unreachable=False)["status"] == "False"
