"""Native status reflection, row by row of contract 7.3."""

import copy
from typing import Any

import pytest

from karmada_vc_agent.interpretation.user_hooks import InterpretationError
from karmada_vc_agent.model.objects import Object
from tests.fakes import built_in_rules

GENERATION = "resourcetemplate.karmada.io/generation"
WORKLOADS = ["Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"]

FULL_STATUS: Object = {
    "observedGeneration": 3,
    "replicas": 2,
    "updatedReplicas": 2,
    "readyReplicas": 1,
    "availableReplicas": 1,
    "unavailableReplicas": 1,
    "currentReplicas": 2,
    "terminatingReplicas": 1,
    "collisionCount": 1,
    "currentNumberScheduled": 4,
    "numberMisscheduled": 1,
    "desiredNumberScheduled": 4,
    "numberReady": 3,
    "updatedNumberScheduled": 2,
    "numberAvailable": 3,
    "numberUnavailable": 1,
    "conditions": [{"type": "Available", "status": "True"}],
}


def _live(api_version: str, kind: str, status: Any, **fields: Any) -> Object:
    metadata = {"name": "x", "generation": 3, "annotations": {GENERATION: "2"}}
    live: Object = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
    return live if status is None else {**live, "status": status}


def _reflected(live: Object) -> Object | None:
    before = copy.deepcopy(live)
    reflected = built_in_rules.reflect_status(live)
    assert live == before, "the input was changed"
    return reflected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            "Deployment",
            {
                "observedGeneration": 3,
                "replicas": 2,
                "updatedReplicas": 2,
                "readyReplicas": 1,
                "availableReplicas": 1,
                "unavailableReplicas": 1,
            },
        ),
        (
            "ReplicaSet",
            {"observedGeneration": 3, "replicas": 2, "readyReplicas": 1, "availableReplicas": 1},
        ),
        (
            "DaemonSet",
            {
                "observedGeneration": 3,
                "currentNumberScheduled": 4,
                "numberMisscheduled": 1,
                "desiredNumberScheduled": 4,
                "numberReady": 3,
                "updatedNumberScheduled": 2,
                "numberAvailable": 3,
                "numberUnavailable": 1,
            },
        ),
        (
            "StatefulSet",
            {
                "replicas": 2,
                "readyReplicas": 1,
                "currentReplicas": 2,
                "updatedReplicas": 2,
                "availableReplicas": 1,
            },
        ),
    ],
)
def test_a_workload_reports_both_generations_and_its_counters(kind: str, expected: Object) -> None:
    generations = {"generation": 3, "resourceTemplateGeneration": 2}
    assert _reflected(_live("apps/v1", kind, FULL_STATUS)) == generations | expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Deployment", {}),
        ("ReplicaSet", {"replicas": 0}),
        (
            "DaemonSet",
            {
                "currentNumberScheduled": 0,
                "numberMisscheduled": 0,
                "desiredNumberScheduled": 0,
                "numberReady": 0,
            },
        ),
        ("StatefulSet", {"replicas": 0, "availableReplicas": 0}),
    ],
)
def test_zeros_are_left_out_except_where_karmada_sends_them(kind: str, expected: Object) -> None:
    generations = {"generation": 3, "resourceTemplateGeneration": 2}
    assert _reflected(_live("apps/v1", kind, {"readyReplicas": 0})) == generations | expected


def test_a_deployment_with_nothing_to_say_has_no_status() -> None:
    live = _live("apps/v1", "Deployment", {})
    live["metadata"] = {"annotations": {GENERATION: "0"}}
    assert _reflected(live) is None


@pytest.mark.parametrize("kind", WORKLOADS)
@pytest.mark.parametrize("text", [None, "", "x", "1.5", " 1", "1_0", "٣"])
def test_a_workload_without_an_integer_template_generation_fails(
    kind: str, text: str | None
) -> None:
    live = _live("apps/v1", kind, FULL_STATUS)
    live["metadata"]["annotations"] = {} if text is None else {GENERATION: text}
    with pytest.raises(InterpretationError, match="invalid syntax") as failed:
        built_in_rules.reflect_status(live)
    assert (failed.value.level, failed.value.operation) == ("native", "InterpretStatus")


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_workload_without_status_has_none_and_does_not_fail(kind: str) -> None:
    live = _live("apps/v1", kind, None)
    live["metadata"]["annotations"] = {}
    assert _reflected(live) is None


@pytest.mark.parametrize(
    ("service_type", "status", "expected"),
    [
        (
            "LoadBalancer",
            {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}, "conditions": [{}]},
            {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
        ),
        ("LoadBalancer", {"loadBalancer": {}}, {"loadBalancer": {}}),
        ("LoadBalancer", {}, {"loadBalancer": {}}),
        ("LoadBalancer", None, None),
        ("ClusterIP", {"loadBalancer": {}}, None),
        (None, {"loadBalancer": {}}, None),
    ],
)
def test_only_a_load_balancer_service_has_a_status(
    service_type: str | None, status: Object | None, expected: Object | None
) -> None:
    spec = {"type": service_type} if service_type else {}
    assert _reflected(_live("v1", "Service", status, spec=spec)) == expected


@pytest.mark.parametrize(
    ("api_version", "kind", "status", "expected"),
    [
        (
            "batch/v1",
            "Job",
            {
                "active": 1,
                "succeeded": 0,
                "failed": 2,
                "ready": 1,
                "conditions": [{"type": "Complete"}],
                "startTime": "2026-01-01T00:00:00Z",
                "uncountedTerminatedPods": {},
            },
            {
                "active": 1,
                "failed": 2,
                "conditions": [{"type": "Complete"}],
                "startTime": "2026-01-01T00:00:00Z",
            },
        ),
        ("batch/v1", "Job", {"ready": 0, "uncountedTerminatedPods": {}}, {}),
        ("batch/v1", "Job", None, None),
        (
            "policy/v1",
            "PodDisruptionBudget",
            {
                "currentHealthy": 2,
                "observedGeneration": 1,
                "disruptedPods": {"p": "2026-01-01T00:00:00Z"},
            },
            {
                "disruptionsAllowed": 0,
                "currentHealthy": 2,
                "desiredHealthy": 0,
                "expectedPods": 0,
                "disruptedPods": {"p": "2026-01-01T00:00:00Z"},
            },
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            {"disruptedPods": {}},
            {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
        ),
        ("policy/v1", "PodDisruptionBudget", None, None),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            {"currentReplicas": 2, "desiredReplicas": 3, "currentMetrics": [{}]},
            {"currentReplicas": 2, "desiredReplicas": 3, "currentMetrics": None},
        ),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            {"currentReplicas": 0},
            {"desiredReplicas": 0, "currentMetrics": None},
        ),
        ("autoscaling/v2", "HorizontalPodAutoscaler", None, None),
        (
            "networking.k8s.io/v1",
            "Ingress",
            {"loadBalancer": {}, "x": 1},
            {"loadBalancer": {}, "x": 1},
        ),
        ("v1", "ConfigMap", None, None),
        ("v1", "ResourceQuota", {"hard": {}, "used": {}}, {"hard": {}, "used": {}}),
        ("example.io/v1", "Widget", {}, {}),
        ("apps/v1beta1", "Deployment", {"anything": 0}, {"anything": 0}),
        ("autoscaling/v1", "HorizontalPodAutoscaler", {"a": 1}, {"a": 1}),
    ],
)
def test_other_kinds_report_as_in_the_table(
    api_version: str, kind: str, status: Object | None, expected: Object | None
) -> None:
    assert _reflected(_live(api_version, kind, status)) == expected
