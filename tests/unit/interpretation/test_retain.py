"""Native retention, row by row of contract 7.2."""

import copy
from typing import Any

import pytest

from karmada_vc_agent.interpretation.user_hooks import InterpretationError
from karmada_vc_agent.model.objects import Object
from tests.fakes import built_in_rules

RETAIN_REPLICAS = {"labels": {"resourcetemplate.karmada.io/retain-replicas": "true"}}


def _retained(api_version: str, kind: str, desired: Object, live: Object) -> Object:
    identity = {"apiVersion": api_version, "kind": kind}
    desired, live = {**identity, **desired}, {**identity, **live}
    before = copy.deepcopy((desired, live))
    retained = built_in_rules.retain(desired, live)
    assert (desired, live) == before, "the input was changed"
    return {key: value for key, value in retained.items() if key not in identity}


def test_deployment_replicas_are_retained_where_the_label_asks() -> None:
    retained = _retained(
        "apps/v1",
        "Deployment",
        {"metadata": RETAIN_REPLICAS, "spec": {"replicas": 1, "paused": True}},
        {"spec": {"replicas": 5}},
    )
    assert retained["spec"] == {"replicas": 5, "paused": True}


@pytest.mark.parametrize(
    ("api_version", "kind", "value"),
    [
        ("apps/v1", "Deployment", "false"),
        ("apps/v1", "StatefulSet", "true"),
        ("apps/v1beta1", "Deployment", "true"),
    ],
)
def test_replicas_are_overwritten_elsewhere(api_version: str, kind: str, value: str) -> None:
    labels = {"resourcetemplate.karmada.io/retain-replicas": value}
    desired = {"metadata": {"labels": labels}, "spec": {"replicas": 1}}
    assert _retained(api_version, kind, desired, {"spec": {"replicas": 5}}) == desired


def test_retaining_replicas_fails_where_the_live_deployment_has_none() -> None:
    desired: Object = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": RETAIN_REPLICAS}
    with pytest.raises(InterpretationError, match=r"failed to get spec\.replicas") as failed:
        built_in_rules.retain(desired, {"spec": {}})
    assert (failed.value.level, failed.value.operation) == ("native", "Retain")


def test_pod_keeps_its_node_account_volumes_and_mounts() -> None:
    retained = _retained(
        "v1",
        "Pod",
        {
            "spec": {
                "serviceAccountName": "mine",
                "newField": 1,
                "containers": [
                    {"name": "a", "image": "new", "volumeMounts": [{"name": "mine"}]},
                    {"name": "b", "volumeMounts": [{"name": "mine"}]},
                    {"name": "c", "volumeMounts": [{"name": "mine"}]},
                ],
                "initContainers": [{"name": "a"}],
            }
        },
        {
            "spec": {
                "nodeName": "n1",
                "serviceAccountName": "default",
                "volumes": [{"name": "token"}],
                "containers": [
                    {"name": "a", "image": "old", "volumeMounts": [{"name": "token"}]},
                    {"name": "b"},
                ],
                "initContainers": [{"name": "a", "volumeMounts": [{"name": "init"}]}],
            }
        },
    )
    assert retained["spec"] == {
        "nodeName": "n1",
        "serviceAccountName": "default",
        "volumes": [{"name": "token"}],
        "newField": 1,
        "containers": [
            {"name": "a", "image": "new", "volumeMounts": [{"name": "token"}]},
            {"name": "b"},
            {"name": "c", "volumeMounts": [{"name": "mine"}]},
        ],
        "initContainers": [{"name": "a", "volumeMounts": [{"name": "init"}]}],
    }


def test_pod_loses_volumes_that_the_live_one_lacks() -> None:
    retained = _retained("v1", "Pod", {"spec": {"volumes": [{"name": "v"}]}}, {"spec": {}})
    assert retained == {"spec": {}}


ROWS: list[tuple[str, str, Object, Object, Object]] = [
    (
        "v1",
        "Service",
        {"spec": {"ports": []}},
        {
            "spec": {
                "clusterIP": "10.0.0.1",
                "clusterIPs": ["10.0.0.1"],
                "healthCheckNodePort": 30001,
                "ports": [{"nodePort": 30002}],
            }
        },
        {"spec": {"clusterIP": "10.0.0.1", "healthCheckNodePort": 30001, "ports": []}},
    ),
    (
        "v1",
        "Service",
        {"spec": {"clusterIP": "None"}},
        {"spec": {"clusterIP": "", "healthCheckNodePort": 0}},
        {"spec": {"clusterIP": "None"}},
    ),
    (
        "v1",
        "ServiceAccount",
        {"secrets": [{"name": "b"}, {"name": "a"}]},
        {"secrets": [{"name": "a"}, {"name": "c"}], "imagePullSecrets": [{"name": "pull"}]},
        {
            "secrets": [{"name": "b"}, {"name": "a"}, {"name": "c"}],
            "imagePullSecrets": [{"name": "pull"}],
        },
    ),
    ("v1", "ServiceAccount", {}, {}, {}),
    (
        "v1",
        "PersistentVolumeClaim",
        {"spec": {"accessModes": []}},
        {"spec": {"volumeName": "pv-1"}},
        {"spec": {"accessModes": [], "volumeName": "pv-1"}},
    ),
    (
        "v1",
        "PersistentVolumeClaim",
        {"spec": {"volumeName": "mine"}},
        {"spec": {"volumeName": ""}},
        {"spec": {"volumeName": "mine"}},
    ),
    (
        "v1",
        "PersistentVolume",
        {"spec": {"capacity": {}}},
        {"spec": {"claimRef": {"name": "c"}}},
        {"spec": {"capacity": {}, "claimRef": {"name": "c"}}},
    ),
    ("v1", "PersistentVolume", {"spec": {"a": 1}}, {"spec": {}}, {"spec": {"a": 1}}),
    (
        "batch/v1",
        "Job",
        {"spec": {"template": {"metadata": {"labels": {"app": "x"}}, "spec": {}}}},
        {
            "spec": {
                "selector": {"matchLabels": {"controller-uid": "u"}},
                "template": {"metadata": {"labels": {"controller-uid": "u", "app": "x"}}},
            }
        },
        {
            "spec": {
                "selector": {"matchLabels": {"controller-uid": "u"}},
                "template": {
                    "metadata": {"labels": {"controller-uid": "u", "app": "x"}},
                    "spec": {},
                },
            }
        },
    ),
    ("batch/v1", "Job", {"spec": {"a": 1}}, {"spec": {}}, {"spec": {"a": 1}}),
    (
        "v1",
        "Secret",
        {"type": "kubernetes.io/service-account-token", "data": None},
        {"data": {"token": "eA=="}},
        {"type": "kubernetes.io/service-account-token", "data": {"token": "eA=="}},
    ),
    (
        "v1",
        "Secret",
        {"type": "Opaque", "data": {"a": "1"}},
        {"data": {"a": "2"}},
        {"type": "Opaque", "data": {"a": "1"}},
    ),
    (
        "v1",
        "ConfigMap",
        {"data": {"a": "1"}},
        {"data": {"a": "2", "b": "3"}},
        {"data": {"a": "1"}},
    ),
    (
        "networking.k8s.io/v1",
        "Ingress",
        {"spec": {"rules": []}},
        {"spec": {"rules": [{}], "ingressClassName": "x"}},
        {"spec": {"rules": []}},
    ),
]


@pytest.mark.parametrize(("api_version", "kind", "desired", "live", "expected"), ROWS)
def test_each_kind_retains_what_the_host_owns(
    api_version: str, kind: str, desired: Object, live: Object, expected: Object
) -> None:
    assert _retained(api_version, kind, desired, live) == expected


def test_an_odd_manifest_is_an_interpretation_error() -> None:
    desired: dict[str, Any] = {"apiVersion": "v1", "kind": "Service", "spec": "text"}
    live = {"spec": {"clusterIP": "10.0.0.1"}}
    with pytest.raises(InterpretationError, match="spec is str, not a map"):
        built_in_rules.retain(desired, live)
