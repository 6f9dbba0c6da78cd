"""A group of which no node can be reached, or that has none, says so; Ready follows if it is to."""

from e2e.lab import objects
from e2e.lab.api import Object, collection
from e2e.lab.lab import CLUSTERS, FAST, NODES, Group, Lab
from e2e.lab.wait import NODE_GRACE_S, wait_until_deleted, within
from e2e.lab.works import condition

SOON = (
    *FAST,
    *("--cluster-failure-threshold", "2s"),
    *("--cluster-success-threshold", "2s"),
)
NOT_READY = "cluster.karmada.io/not-ready"


def test_group_without_a_ready_node_is_not_ready_where_required(lab: Lab) -> None:
    strict, usual = _offline_group(lab, "a"), _offline_group(lab, "b")
    lab.new_agent(strict.settings(readyWhenUnreachable=False), usual, flags=SOON).start()
    for group in (strict, usual):
        within(NODE_GRACE_S, _is_back, lab, group)
    for group in (strict, usual):
        _set_ready(lab, group, "False")
    away = _wait(lab, strict, "Ready", "False", "NodesNotReachable")
    assert away["message"] == "the API server of the host is healthy, but 0 of 1 nodes are Ready"
    for group in (strict, usual):
        _wait(lab, group, "NodesReachable", "False", "NoNodeReady")
        within(
            NODE_GRACE_S,
            _has_been_reported,
            lab,
            group,
            "NoNodeReady",
            "0 of 1 nodes are Ready",
        )
    _wait(lab, usual, "Ready", "True", "ClusterReady")
    within(NODE_GRACE_S, _is_tainted, lab, strict)

    # Its host takes Works all the same, and its sums are those that Karmada's agent reports.
    template = objects.config_map(lab.namespace())
    lab.wait_applied(lab.create_work(strict, "settings", template))
    status = lab.cluster(strict.name)["status"]
    assert status["nodeSummary"] == {"totalNum": 1}
    assert status["resourceSummary"]["allocatable"]["pods"] == "110"

    for group in (strict, usual):
        within(NODE_GRACE_S, _is_back, lab, group)
        within(NODE_GRACE_S, _has_been_reported, lab, group, "NodesReady", "1 of 1 nodes are Ready")


def test_node_that_is_away_for_a_moment_changes_nothing_but_the_numbers(lab: Lab) -> None:
    group = _offline_group(lab, "a")
    lab.new_agent(group.settings(readyWhenUnreachable=False), flags=FAST).start()
    within(NODE_GRACE_S, _is_back, lab, group)
    before = _wait(lab, group, "NodesReachable", "True", "NodesReady")
    ready = condition(lab.cluster(group.name), "Ready")
    _set_ready(lab, group, "False")
    within(NODE_GRACE_S, _counts, lab, group, {"totalNum": 1})
    _set_ready(lab, group, "True")
    within(NODE_GRACE_S, _counts, lab, group, {"totalNum": 1, "readyNum": 1})
    cluster = lab.cluster(group.name)
    assert condition(cluster, "NodesReachable") == before
    assert condition(cluster, "Ready") == ready


def test_selector_that_matches_no_node_is_reported_and_logged(lab: Lab) -> None:
    group = Group(f"{lab.id}-a", {lab.label: "mistyped"})
    agent = lab.new_agent(group.settings(readyWhenUnreachable=False), flags=SOON).start()
    away = _wait(lab, group, "Ready", "False", "NodesNotReachable")
    assert away["message"].endswith("but no node of the host is in the group")
    _wait(lab, group, "NodesReachable", "False", "NoNodes")
    within(
        NODE_GRACE_S,
        _has_been_reported,
        lab,
        group,
        "NoNodes",
        "no node of the host is in the group",
    )
    [line] = [each for each in agent.log().splitlines() if "No node of the group is Ready" in each]
    assert "no node of the host is in the group" in line
    lab.add_node(group)
    lab.wait_ready(group.name)


def test_cluster_that_is_deleted_while_its_nodes_are_away_leaves_nothing(lab: Lab) -> None:
    group = _offline_group(lab, "a")
    lab.new_agent(group.settings(readyWhenUnreachable=False), flags=SOON).start()
    within(NODE_GRACE_S, _is_back, lab, group)
    template = objects.config_map(lab.namespace())
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    _set_ready(lab, group, "False")
    _wait(lab, group, "Ready", "False", "NodesNotReachable")
    lab.hub.delete(f"{CLUSTERS}/{group.name}")
    wait_until_deleted(lab.hub, f"{CLUSTERS}/{group.name}")
    wait_until_deleted(lab.host, f"/api/v1/namespaces/{group.host_namespace(lab.id)}")


def _offline_group(lab: Lab, letter: str) -> Group:
    """Make a group whose only node is Ready, and is nobody's to keep so but the test's."""
    group = Group(f"{lab.id}-{letter}", {lab.label: letter})
    lab.add_node(group, is_simulated=False)
    _set_ready(lab, group, "True")
    return group


def _set_ready(lab: Lab, group: Group, status: str) -> None:
    """Write the condition as a kubelet does."""
    ready = {"type": "Ready", "status": status, "reason": "Test", "message": "set by the test"}
    lab.host.patch(f"{NODES}/{group.nodes[0]}/status", {"status": {"conditions": [ready]}})


def _is_back(lab: Lab, group: Group) -> None:
    """Assert that all is well; without a kubelet the host takes the node for lost after a while."""
    _set_ready(lab, group, "True")
    cluster = lab.cluster(group.name)
    assert condition(cluster, "NodesReachable")["status"] == "True"
    assert condition(cluster, "Ready")["status"] == "True"


def _wait(lab: Lab, group: Group, kind: str, status: str, reason: str) -> Object:
    def look() -> Object:
        found = condition(lab.cluster(group.name), kind)
        assert (found["status"], found["reason"]) == (status, reason), found
        return found

    return within(NODE_GRACE_S, look)


def _has_been_reported(lab: Lab, group: Group, reason: str, text: str) -> None:
    events = lab.hub.list(collection("v1", "Event", "default"))
    told = [e for e in events if e["involvedObject"]["name"] == group.name]
    assert any((e["reason"], e["message"]) == (reason, text) for e in told), told


def _is_tainted(lab: Lab, group: Group) -> None:
    taints = lab.cluster(group.name)["spec"].get("taints") or []
    assert [each["effect"] for each in taints if each["key"] == NOT_READY] == ["NoSchedule"]


def _counts(lab: Lab, group: Group, expected: dict[str, int]) -> None:
    assert lab.cluster(group.name)["status"].get("nodeSummary") == expected
