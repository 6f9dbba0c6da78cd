"""Sums of capacity and requests, as Karmada counts."""

import copy

import msgspec
import pytest

from karmada_vc_agent.cluster.rules import cluster_objects
from karmada_vc_agent.model import quantity
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.quantity import Raw

Requests = dict[str, Raw]


def _pod(
    name: str,
    *containers: Requests,
    init: tuple[Requests, ...] = (),
    overhead: Requests | None = None,
    phase: str = "Running",
) -> Pod:
    spec = {
        "containers": [{"resources": {"requests": requests}} for requests in containers],
        "initContainers": [{"resources": {"requests": requests}} for requests in init],
        "overhead": overhead or {},
    }
    metadata, status = {"name": name, "namespace": "edge"}, {"phase": phase}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def _node(name: str, **allocatable: str) -> Node:
    amounts = {key.replace("_", "-"): value for key, value in allocatable.items()}
    return msgspec.convert({"metadata": {"name": name}, "status": {"allocatable": amounts}}, Node)


def test_init_containers_only_lift_the_running_total() -> None:
    pods = [_pod("a", {"cpu": "100m"})]
    assert cluster_objects.sum_requests(pods) == {"cpu": 100, "pods": 1}
    pods.append(_pod("b", {"cpu": "100m"}, init=({"cpu": "150m"},)))
    assert cluster_objects.sum_requests(pods) == {"cpu": 200, "pods": 2}
    pods.append(_pod("c", {"cpu": "100m"}, init=({"cpu": "1"},)))
    assert cluster_objects.sum_requests(pods) == {"cpu": 1000, "pods": 3}


def test_overhead_is_added_after_the_init_containers() -> None:
    pod = _pod("a", {"cpu": "100m"}, init=({"cpu": "1"},), overhead={"cpu": "50m"})
    assert cluster_objects.sum_requests([pod])["cpu"] == 1050


def test_the_order_in_which_pods_come_does_not_matter() -> None:
    pods = [_pod("a", {"cpu": "1"}, init=({"cpu": "3"},)), _pod("b", {"cpu": "2"})]
    assert cluster_objects.sum_requests(pods) == cluster_objects.sum_requests(reversed(pods))
    assert cluster_objects.sum_requests(pods)["cpu"] == 5000


def test_each_addend_is_rounded_up() -> None:
    pods = [_pod("a", {"cpu": "100u", "memory": "100m"}, {"cpu": "100u", "memory": "100m"})]
    assert cluster_objects.sum_requests(pods) == {"cpu": 2, "memory": 2, "pods": 1}


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("cpu", True),
        ("memory", True),
        ("ephemeral-storage", True),
        ("pods", True),
        ("nvidia.com/gpu", True),
        ("hugepages-2Mi", True),
        ("attachable-volumes-aws-ebs", True),
        ("kubernetes.io/batch-cpu", True),
        ("requests.kubernetes.io/x", True),
        ("storage", False),
        ("gpu", False),
        ("requests.nvidia.com/gpu", False),
    ],
)
def test_only_names_that_karmada_knows_are_counted(name: str, counted: bool) -> None:
    assert quantity.is_counted(name) is counted
    totals = cluster_objects.sum_requests([_pod("a", {name: "2"}, init=({name: "3"},))])
    assert (totals.get(name, 0) > 0) is counted


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 1_500_000_000, "1500000000"),
        ("memory", 2 * 1024**3, "2Gi"),
        ("ephemeral-storage", 1024, "1Ki"),
        ("hugepages-2Mi", 2 * 1024**2, "2Mi"),
        ("pods", 2000, "2k"),
        ("nvidia.com/gpu", 4, "4"),
    ],
)
def test_totals_are_written_in_karmadas_notation(name: str, amount: int, text: str) -> None:
    assert cluster_objects.resource_list({name: amount}) == {name: text}


def test_what_is_not_positive_is_left_out() -> None:
    assert cluster_objects.resource_list({"cpu": 0, "memory": -1, "pods": 1}) == {"pods": "1"}


def test_allocatable_counts_every_node_and_name() -> None:
    nodes = [
        _node("a", cpu="3920m", memory="1Gi", storage="1", pods="110"),
        _node("b", cpu="4", memory="1Gi", gpu="1"),
    ]
    assert cluster_objects.sum_allocatable(nodes) == {
        "cpu": "7920m",
        "gpu": "1",
        "memory": "2Gi",
        "pods": "110",
        "storage": "1",
    }


def test_the_notation_follows_the_first_node_by_name() -> None:
    nodes = [_node("b", memory="1000M"), _node("a", memory="1Gi")]
    assert cluster_objects.sum_allocatable(nodes) == {"memory": "2073741824"}
    assert cluster_objects.sum_allocatable(
        [_node("a", memory="1000M"), _node("b", memory="24M")]
    ) == {"memory": "1024M"}


def test_a_summary_holds_the_three_sums() -> None:
    on_nodes = [
        _pod("a", {"cpu": "1", "memory": "1500M"}),
        _pod("b", {"cpu": "1"}, phase="Succeeded"),
        _pod("c", {"cpu": "1"}, phase="Failed"),
        _pod("d", {}, phase="Pending"),
    ]
    pending = [_pod("e", {"cpu": "250m"}, phase="Pending"), _pod("f", phase="Failed")]
    assert cluster_objects.resource_summary(
        [_node("n", cpu="4", pods="110")], on_nodes, pending, []
    ) == {
        "allocatable": {"cpu": "4", "pods": "110"},
        "allocating": {"cpu": "250m", "pods": "2"},
        "allocated": {"cpu": "1", "memory": "1500000000", "pods": "2"},
    }


def test_empty_sums_are_left_out() -> None:
    assert cluster_objects.resource_summary([], [], [], []) == {}
    assert cluster_objects.resource_summary([_node("n", cpu="0")], [], [], []) == {
        "allocatable": {"cpu": "0"}
    }


def test_input_is_not_modified() -> None:
    nodes = [_node("b", cpu="1"), _node("a", cpu="2")]
    pods = [_pod("b", {"cpu": "1"}), _pod("a", {"cpu": "2"})]
    before = copy.deepcopy((nodes, pods))
    cluster_objects.resource_summary(nodes, pods, pods, [])
    assert (nodes, pods) == before


def test_amount_that_is_none_does_not_hide_the_others() -> None:
    nodes = [_node("a", cpu="much", memory="1Gi"), _node("b", cpu="2", memory="1Gi")]
    pods = [_pod("a", {"cpu": "much"}), _pod("b", {"cpu": "1"})]
    found = cluster_objects.resource_summary(nodes, pods, [], [])
    assert found["allocatable"] == {"cpu": "2", "memory": "2Gi"}
    assert found["allocated"]["cpu"] == "1"
