"""Nodes that the agent's own Pods stay off."""

from typing import Any

import pytest

from karmada_vc_agent.access.agent_objects import pod_affinity
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import (
    LabelSelector,
    Operator,
    Requirement,
    VirtualCluster,
)


def term(*virtual_clusters: VirtualCluster, group_labels: tuple[str, ...] = ()) -> Object:
    node_affinity = pod_affinity(virtual_clusters, group_labels)["nodeAffinity"]
    [found] = node_affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return dict(found)


def by_labels(name: str, **labels: str) -> VirtualCluster:
    return VirtualCluster(
        name, LabelSelector({key.replace("_", "/"): labels[key] for key in labels})
    )


def by_expression(key: str, operator: Operator, *values: str) -> VirtualCluster:
    return VirtualCluster("a", LabelSelector({}, (Requirement(key, operator, frozenset(values)),)))


EDGES = [
    {"key": "node-role.kubernetes.io/edge", "operator": "DoesNotExist"},
    {"key": "virtualcluster.kubeedge.io/member-of", "operator": "DoesNotExist"},
]


def test_without_groups_edges_and_members_are_avoided() -> None:
    found = term()["matchExpressions"]
    assert [each["operator"] for each in found] == ["DoesNotExist", "DoesNotExist"]
    assert found[0] == EDGES[0]


def test_values_of_one_label_are_one_requirement() -> None:
    found = term(by_labels("b", branch="b"), by_labels("a", branch="a"))["matchExpressions"][2:]
    assert found == [{"key": "branch", "operator": "NotIn", "values": ["a", "b"]}]


def test_of_several_labels_the_one_that_says_most_is_avoided() -> None:
    """To avoid all of an architecture would leave no node."""
    found = term(by_labels("a", **{"kubernetes.io_arch": "arm64", "branch": "a"}))
    assert found["matchExpressions"][2:] == [
        {"key": "branch", "operator": "NotIn", "values": ["a"]}
    ]


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (("zone", "In", "y", "x"), {"operator": "NotIn", "values": ["x", "y"]}),
        (("zone", "NotIn", "x"), {"operator": "In", "values": ["x"]}),
        (("zone", "Exists"), {"operator": "DoesNotExist"}),
        (("zone", "DoesNotExist"), {"operator": "Exists"}),
    ],
)
def test_expression_is_turned_round(group: Any, expected: Object) -> None:
    found = term(by_expression(*group))["matchExpressions"][2:]
    assert found == [{"key": "zone"} | expected]


def test_nodes_by_name_are_avoided_one_by_one() -> None:
    """The API server takes one value for each field."""
    found = term(
        VirtualCluster("a", node_names=("n1", "n2")), VirtualCluster("b", node_names=("n1",))
    )
    assert [(f["operator"], f["values"]) for f in found["matchFields"]] == [
        ("NotIn", ["n1"]),
        ("NotIn", ["n2"]),
    ]
    assert "matchFields" not in term()


def test_labels_of_discovered_groups_are_avoided_whatever_their_value() -> None:
    found = term(group_labels=("branch",))["matchExpressions"]
    assert found[2:] == [{"key": "branch", "operator": "DoesNotExist"}]
