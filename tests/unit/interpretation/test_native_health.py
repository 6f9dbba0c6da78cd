"""Native health, row by row of contract 7.4."""

import copy

import pytest

from karmada_vc_agent.interpretation.user_hooks import InterpretationError
from karmada_vc_agent.model.objects import Object
from tests.fakes import built_in_rules

ROLLED_OUT = {
    "observedGeneration": 2,
    "updatedReplicas": 3,
    "availableReplicas": 3,
}
DAEMONS = {
    "observedGeneration": 2,
    "desiredNumberScheduled": 3,
    "updatedNumberScheduled": 3,
    "numberAvailable": 3,
}


def _health(api_version: str, kind: str, spec: Object, status: Object) -> str:
    live = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "generation": 2},
        "spec": spec,
        "status": status,
    }
    before = copy.deepcopy(live)
    health = built_in_rules.interpret_health(live)
    assert live == before, "the input was changed"
    return health


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
@pytest.mark.parametrize(
    ("spec", "changes", "expected"),
    [
        ({"replicas": 3}, {}, "Healthy"),
        ({}, {}, "Healthy"),
        ({"replicas": 3}, {"updatedReplicas": 4, "availableReplicas": 4}, "Healthy"),
        ({"replicas": 0}, {"updatedReplicas": 0, "availableReplicas": 0}, "Healthy"),
        ({"replicas": 3}, {"observedGeneration": 1}, "Unhealthy"),
        ({"replicas": 4}, {}, "Unhealthy"),
        ({"replicas": 3}, {"availableReplicas": 2}, "Unhealthy"),
        ({}, {"updatedReplicas": 4}, "Unhealthy"),
    ],
)
def test_a_workload_is_healthy_when_rolled_out(
    kind: str, spec: Object, changes: Object, expected: str
) -> None:
    assert _health("apps/v1", kind, spec, ROLLED_OUT | changes) == expected


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({"replicas": 2}, {"observedGeneration": 2, "availableReplicas": 2}, "Healthy"),
        ({}, {"observedGeneration": 2}, "Healthy"),
        ({"replicas": 2}, {"observedGeneration": 2, "availableReplicas": 1}, "Unhealthy"),
        ({"replicas": 2}, {"observedGeneration": 3, "availableReplicas": 2}, "Unhealthy"),
    ],
)
def test_a_replica_set_is_healthy_when_available(
    spec: Object, status: Object, expected: str
) -> None:
    assert _health("apps/v1", "ReplicaSet", spec, status) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "Healthy"),
        ({"desiredNumberScheduled": 4}, "Unhealthy"),
        ({"numberAvailable": 2}, "Unhealthy"),
        ({"observedGeneration": 1}, "Unhealthy"),
    ],
)
def test_a_daemon_set_is_healthy_when_updated_everywhere(changes: Object, expected: str) -> None:
    assert _health("apps/v1", "DaemonSet", {}, DAEMONS | changes) == expected


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "status", "expected"),
    [
        ("v1", "Service", {"type": "ClusterIP"}, {}, "Healthy"),
        ("v1", "Service", {}, {}, "Healthy"),
        ("v1", "Service", {"type": "LoadBalancer"}, {"loadBalancer": {}}, "Unhealthy"),
        (
            "v1",
            "Service",
            {"type": "LoadBalancer"},
            {"loadBalancer": {"ingress": [{}, {"ip": "1.2.3.4"}]}},
            "Healthy",
        ),
        (
            "v1",
            "Service",
            {"type": "LoadBalancer"},
            {"loadBalancer": {"ingress": [{"hostname": "h"}]}},
            "Healthy",
        ),
        ("networking.k8s.io/v1", "Ingress", {}, {}, "Unhealthy"),
        (
            "networking.k8s.io/v1",
            "Ingress",
            {},
            {"loadBalancer": {"ingress": [{"ports": []}]}},
            "Unhealthy",
        ),
        (
            "networking.k8s.io/v1",
            "Ingress",
            {},
            {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
            "Healthy",
        ),
        ("v1", "PersistentVolumeClaim", {}, {"phase": "Bound"}, "Healthy"),
        ("v1", "PersistentVolumeClaim", {}, {"phase": "Pending"}, "Unhealthy"),
        ("v1", "PersistentVolumeClaim", {}, {}, "Unhealthy"),
        ("v1", "Pod", {}, {"phase": "Succeeded"}, "Healthy"),
        ("v1", "Pod", {}, {"phase": "Failed"}, "Unhealthy"),
        ("v1", "Pod", {}, {"phase": "Running"}, "Unhealthy"),
        (
            "v1",
            "Pod",
            {},
            {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]},
            "Unhealthy",
        ),
        (
            "v1",
            "Pod",
            {},
            {"phase": "Pending", "conditions": [{"type": "Ready", "status": "True"}]},
            "Unhealthy",
        ),
        (
            "v1",
            "Pod",
            {},
            {
                "phase": "Running",
                "conditions": [
                    {"type": "Initialized", "status": "True"},
                    {"type": "Ready", "status": "True"},
                ],
            },
            "Healthy",
        ),
        (
            "v1",
            "Pod",
            {},
            {
                "phase": "Running",
                "conditions": [
                    {"type": "Initialized", "status": "True"},
                    {"type": "Ready", "status": "False"},
                ],
            },
            "Unhealthy",
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            {},
            {"currentHealthy": 2, "desiredHealthy": 2},
            "Healthy",
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            {},
            {"currentHealthy": 1, "desiredHealthy": 2},
            "Unhealthy",
        ),
        ("batch/v1", "Job", {}, {"failed": 3}, "Healthy"),
        ("v1", "Namespace", {}, {"phase": "Terminating"}, "Healthy"),
        ("apps/v1beta1", "Deployment", {"replicas": 3}, {}, "Healthy"),
    ],
)
def test_other_kinds_are_healthy_as_in_the_table(
    api_version: str, kind: str, spec: Object, status: Object, expected: str
) -> None:
    assert _health(api_version, kind, spec, status) == expected


def test_an_object_of_odd_shape_is_an_interpretation_error() -> None:
    live = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": "many"}}
    with pytest.raises(InterpretationError) as failed:
        built_in_rules.interpret_health(live)
    assert (failed.value.level, failed.value.operation) == ("native", "InterpretHealth")
