"""Nodes that come, go, change group or fail change what the Clusters report."""

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, path_of
from e2e.lab.lab import NODES, Group, Lab
from e2e.lab.wait import eventually

SELDOM = ("--cluster-status-update-frequency", "1h")


@pytest.mark.smoke
def test_a_node_whose_label_changes_moves_from_one_cluster_to_the_other(lab: Lab) -> None:
    group_a, group_b = lab.group("a", nodes=2), lab.group("b", nodes=1)
    lab.serve(group_a, group_b)
    _wait_nodes(lab, group_a, 2)
    _wait_nodes(lab, group_b, 1)
    moving = f"{NODES}/{group_a.nodes[1]}"
    lab.host.patch(moving, {"metadata": {"labels": group_b.selector}})
    _wait_nodes(lab, group_a, 1)
    _wait_nodes(lab, group_b, 2)
    allocatable = lab.cluster(group_b.name)["status"]["resourceSummary"]["allocatable"]
    assert allocatable["cpu"] == "8"


def test_nodes_that_are_added_and_deleted_are_counted(lab: Lab) -> None:
    group = lab.group("a", nodes=1)
    lab.serve(group)
    _wait_nodes(lab, group, 1)
    lab.add_node(group)
    _wait_nodes(lab, group, 2)
    lab.host.delete(f"{NODES}/{group.nodes[0]}")
    _wait_nodes(lab, group, 1)


def test_a_node_that_is_not_ready_is_counted_as_such(lab: Lab) -> None:
    group = lab.group("a", nodes=1)
    lab.serve(group)
    name = lab.add_node(group, is_simulated=False)
    _wait_nodes(lab, group, 2, ready=1)
    _set_ready(lab, name, "True")
    _wait_nodes(lab, group, 2, ready=2)
    _set_ready(lab, name, "False")
    _wait_nodes(lab, group, 2, ready=1)


def test_a_group_that_lost_all_its_nodes_stays_a_ready_cluster_without_capacity(lab: Lab) -> None:
    group = lab.group("a", nodes=1)
    lab.serve(group)
    lab.host.delete(f"{NODES}/{group.nodes[0]}")

    def look() -> None:
        status = lab.cluster(group.name)["status"]
        assert not status.get("nodeSummary"), status["nodeSummary"]
        assert not status["resourceSummary"].get("allocatable")

    eventually(look)
    lab.wait_ready(group.name)


def test_pods_of_the_group_count_as_allocated_for_any_creator(lab: Lab) -> None:
    group, other = lab.group("a"), lab.group("b")
    lab.serve(group, other)
    template = objects.deployment(lab.namespace(), replicas=2, cpu="500m")
    lab.propagate([template], group)

    def look() -> None:
        own = lab.pods(group.host_namespace(template["metadata"]["namespace"]))
        assert len(own) == 2
        for each in (group, other):  # which other stories may use, too
            there = _pods_on(lab, each)
            allocated = lab.cluster(each.name)["status"]["resourceSummary"].get("allocated", {})
            assert allocated.get("pods", "0") == str(len(there))
            if there == own:
                assert allocated["cpu"] == "1"

    eventually(look)


def test_a_pod_is_counted_soon_and_not_only_with_the_periodic_status(lab: Lab) -> None:
    group = lab.group("a")
    lab.host.patch(f"{NODES}/{group.nodes[0]}", {"spec": {"unschedulable": True}})  # for no other
    lab.serve(group, flags=SELDOM)
    _wait_nodes(lab, group, 1)
    pod = lab.host.create(objects.bystander(lab.id, group.nodes[0]))

    def look() -> None:
        summary = lab.cluster(group.name)["status"]["resourceSummary"]
        assert summary.get("allocated", {}).get("pods") == "1"

    try:
        eventually(look)
    finally:
        lab.host.delete(path_of(pod), force=True)


def _pods_on(lab: Lab, group: Group) -> list[Object]:
    """Return the pods that count for the nodes of a group, whoever made them."""
    return [
        pod
        for pod in lab.host.list("/api/v1/pods")
        if pod["spec"].get("nodeName") in group.nodes
        and pod["status"].get("phase") not in ("Succeeded", "Failed")
    ]


def _wait_nodes(lab: Lab, group: Group, total: int, ready: int | None = None) -> None:
    expected = {"totalNum": total, "readyNum": total if ready is None else ready}

    def look() -> None:
        summary = lab.cluster(group.name)["status"].get("nodeSummary")
        assert summary == expected, f"{group.name}: {summary}"

    eventually(look)


def _set_ready(lab: Lab, node: str, status: str) -> None:
    """Write the condition as a kubelet does."""
    ready = {"type": "Ready", "status": status, "reason": "Test", "message": "set by the test"}
    lab.host.patch(f"{NODES}/{node}/status", {"status": {"conditions": [ready]}})
