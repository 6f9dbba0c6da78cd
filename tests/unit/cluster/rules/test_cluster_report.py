"""Putting Cluster.status together."""

import copy

import msgspec
import pytest

from karmada_vc_agent.cluster.rules import cluster_objects
from karmada_vc_agent.cluster.rules.conditions import Condition, observed_ready
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.objects import GroupVersionKind, Object

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z"
READY = observed_ready(200)
COMPLETE = cluster_objects.complete_api_enablements(3, is_partial=False)


def _nothing_hidden(_kind: GroupVersionKind) -> bool:
    return False


def _node(name: str, ready: str | None) -> Node:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    status = {"allocatable": {"cpu": "2"}, "conditions": conditions}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, Node)


DISCOVERED: list[Object] = [
    {
        "groupVersion": "v1",
        "resources": [
            {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["get"]},
            {"name": "pods/log", "kind": "Pod"},
            {"name": "nodes", "kind": "Node"},
            {"name": "configmaps", "kind": "ConfigMap"},
        ],
    },
    {
        "groupVersion": "apps/v1",
        "resources": [
            {"name": "deployments", "kind": "Deployment"},
            {"name": "deployments/scale", "kind": "Scale"},
        ],
    },
    {"groupVersion": "authorization.k8s.io/v1", "resources": None},
]


def test_enablements_are_sorted_and_hold_no_subresources() -> None:
    before = copy.deepcopy(DISCOVERED)
    assert cluster_objects.api_enablements(DISCOVERED, _nothing_hidden) == [
        {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]},
        {"groupVersion": "authorization.k8s.io/v1"},
        {
            "groupVersion": "v1",
            "resources": [
                {"name": "configmaps", "kind": "ConfigMap"},
                {"name": "nodes", "kind": "Node"},
                {"name": "pods", "kind": "Pod"},
            ],
        },
    ]
    assert before == DISCOVERED


def test_hidden_kinds_are_left_out() -> None:
    hidden = {GroupVersionKind("", "v1", "Node"), GroupVersionKind("apps", "v1", "Deployment")}
    enablements = cluster_objects.api_enablements(DISCOVERED, hidden.__contains__)
    assert enablements[0] == {"groupVersion": "apps/v1"}
    assert [resource["kind"] for resource in enablements[2]["resources"]] == ["ConfigMap", "Pod"]


@pytest.mark.parametrize(
    ("count", "is_partial", "status", "reason", "message"),
    [
        (0, False, "False", "Empty", "collected empty APIEnablements from the cluster"),
        (0, True, "False", "Empty", "collected empty APIEnablements from the cluster"),
        (7, True, "False", "Partial", "might collect partial APIEnablements(7) from the cluster"),
        (7, False, "True", "Complete", "collected complete APIEnablements from the cluster"),
    ],
)
def test_the_condition_says_how_complete_the_list_is(
    count: int, is_partial: bool, status: str, reason: str, message: str
) -> None:
    assert cluster_objects.complete_api_enablements(count, is_partial=is_partial) == Condition(
        type="CompleteAPIEnablements", status=status, reason=reason, message=message
    )


def test_node_summary_leaves_zeros_out() -> None:
    nodes = [_node("a", "True"), _node("b", "False"), _node("c", None)]
    assert cluster_objects.node_summary(nodes) == {"totalNum": 3, "readyNum": 1}
    assert cluster_objects.node_summary(nodes[1:]) == {"totalNum": 2}
    assert cluster_objects.node_summary([]) == {}


MODELS: list[Object] = [{"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "1"}]}]


def test_resource_summary_has_modelings_only_with_models() -> None:
    nodes = [_node("a", "True")]
    pod = msgspec.convert({"metadata": {"name": "p"}, "spec": {"nodeName": "a"}}, Pod)
    plain = cluster_objects.resource_summary(nodes, [pod], [], [])
    assert plain == {"allocatable": {"cpu": "2"}, "allocated": {"pods": "1"}}
    graded = cluster_objects.resource_summary(nodes, [], [pod], MODELS)
    assert graded == {
        "allocatable": {"cpu": "2"},
        "allocating": {"pods": "1"},
        "allocatableModelings": [{"grade": 0, "count": 1}],
    }


def _composed(live: Object | None, now: str, **changes: object) -> Object:
    fields: Object = {
        "kubernetesVersion": "v1.33.1",
        "apiEnablements": [{"groupVersion": "v1"}],
        "nodeSummary": {"totalNum": 1},
        "resourceSummary": {"allocatable": {"cpu": "2"}},
    }
    fields |= changes
    return cluster_objects.compose_cluster_status(live, fields, [COMPLETE, READY], now)


def test_a_first_status_has_what_was_observed() -> None:
    assert _composed(None, NOW) == {
        "kubernetesVersion": "v1.33.1",
        "apiEnablements": [{"groupVersion": "v1"}],
        "nodeSummary": {"totalNum": 1},
        "resourceSummary": {"allocatable": {"cpu": "2"}},
        "conditions": [
            {**COMPLETE, "lastTransitionTime": NOW},
            {**READY, "lastTransitionTime": NOW},
        ],
    }


def test_what_others_wrote_is_kept() -> None:
    foreign = {"type": "ServiceDomainNameResolutionReady", "status": "True"}
    live: Object = {
        "remedyActions": ["TrafficControl"],
        "futureField": 1,
        "kubernetesVersion": "old",
        "conditions": [foreign, {**READY, "lastTransitionTime": THEN}],
    }
    before = copy.deepcopy(live)
    status = _composed(live, NOW)
    assert status["remedyActions"] == ["TrafficControl"]
    assert status["futureField"] == 1
    assert status["kubernetesVersion"] == "v1.33.1"
    assert status["conditions"] == [
        foreign,
        {**READY, "lastTransitionTime": THEN},
        {**COMPLETE, "lastTransitionTime": NOW},
    ]
    assert live == before


def test_the_same_observation_gives_the_same_status() -> None:
    once = _composed(None, THEN)
    assert _composed(once, NOW) == once


def test_field_no_longer_reported_is_removed() -> None:
    once = _composed(None, THEN)
    fields = ("kubernetesVersion", "apiEnablements", "nodeSummary", "resourceSummary")
    assert set(_composed(once, NOW, **dict.fromkeys(fields))) == {"conditions"}


def test_empty_summaries_are_reported() -> None:
    status = _composed(None, NOW, nodeSummary={}, resourceSummary={})
    assert (status["nodeSummary"], status["resourceSummary"]) == ({}, {})


def test_setting_conditions_alone_leaves_the_rest() -> None:
    once = _composed(None, THEN)
    before = copy.deepcopy(once)
    offline = observed_ready(None)
    status = cluster_objects.with_conditions(once, [offline], NOW)
    assert status["conditions"][1] == {**offline, "lastTransitionTime": NOW}
    assert {**status, "conditions": once["conditions"]} == once
    assert once == before


def test_a_status_without_conditions_gets_no_empty_list() -> None:
    assert cluster_objects.with_conditions(None, [], NOW) == {}
