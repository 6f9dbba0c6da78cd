"""Pruning of what the server sets."""

import copy

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.rules.server_changes import prune

SERVER_METADATA = {
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "deletionTimestamp": "2026-01-01T00:00:00Z",
    "deletionGracePeriodSeconds": 30,
    "generation": 3,
    "managedFields": [{}],
    "resourceVersion": "7",
    "selfLink": "/x",
    "uid": "u",
    "ownerReferences": [{"name": "o"}],
    "finalizers": ["f"],
}


@pytest.mark.parametrize("field", sorted(SERVER_METADATA))
def test_server_metadata_is_removed(field: str) -> None:
    obj = {"kind": "Any", "metadata": {"name": "a", field: SERVER_METADATA[field]}}
    assert prune(obj) == {"kind": "Any", "metadata": {"name": "a"}}


def test_status_is_removed_and_the_rest_stays() -> None:
    obj = {"kind": "Any", "metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}, "status": {"y": 1}}
    assert prune(obj) == {"kind": "Any", "metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}}


JOB_LABELS = {
    "controller-uid": "u",
    "batch.kubernetes.io/controller-uid": "u",
    "job-name": "j",
    "batch.kubernetes.io/job-name": "j",
    "app": "x",
}


def _job(**spec: object) -> Object:
    return {
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {
            "selector": {"matchLabels": dict(JOB_LABELS)},
            "template": {"metadata": {"labels": dict(JOB_LABELS)}},
            "ttlSecondsAfterFinished": 60,
            **spec,
        },
    }


def test_generated_labels_of_a_job_go() -> None:
    assert prune(_job())["spec"] == {
        "selector": {
            "matchLabels": {
                "job-name": "j",
                "batch.kubernetes.io/job-name": "j",
                "app": "x",
            }
        },
        "template": {"metadata": {"labels": {"app": "x"}}},
    }


def test_labels_of_a_job_with_a_manual_selector_stay() -> None:
    spec = prune(_job(manualSelector=True))["spec"]
    assert spec["selector"]["matchLabels"] == JOB_LABELS
    assert spec["template"]["metadata"]["labels"] == JOB_LABELS
    assert "ttlSecondsAfterFinished" not in spec


PRUNED_BY_KIND: list[tuple[Object, Object]] = [
    (
        {
            "kind": "Deployment",
            "metadata": {
                "annotations": {
                    "deployment.kubernetes.io/revision": "3",
                    "deployment.kubernetes.io/revision-history": "1,2",
                    "mine": "x",
                }
            },
        },
        {"kind": "Deployment", "metadata": {"annotations": {"mine": "x"}}},
    ),
    (
        {
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {"annotations": {"kubernetes.io/service-account.uid": "u", "a": "b"}},
            "data": {"token": "x"},
        },
        {
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {"annotations": {"a": "b"}},
            "data": None,
        },
    ),
    (
        {"kind": "Secret", "type": "Opaque", "data": {"a": "eA=="}},
        {"kind": "Secret", "type": "Opaque", "data": {"a": "eA=="}},
    ),
    (
        {
            "kind": "ServiceAccount",
            "metadata": {"name": "sa"},
            "secrets": [
                {"name": "sa-token-a"},
                {"name": "sa-token-b"},
                {"name": "sa-token"},
                {"name": "other-token-c"},
            ],
        },
        {
            "kind": "ServiceAccount",
            "metadata": {"name": "sa"},
            "secrets": [{"name": "sa-token"}, {"name": "other-token-c"}],
        },
    ),
    (
        {"kind": "Service", "spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "a": 1}},
        {"kind": "Service", "spec": {"a": 1}},
    ),
    (
        {"kind": "Service", "spec": {"clusterIP": "None", "clusterIPs": ["None"]}},
        {"kind": "Service", "spec": {"clusterIP": "None", "clusterIPs": ["None"]}},
    ),
    (
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1", "a": "b"}},
        },
        {"kind": "PersistentVolumeClaim", "metadata": {"annotations": {"a": "b"}}},
    ),
]


@pytest.mark.parametrize(("obj", "expected"), PRUNED_BY_KIND)
def test_kind_rules_prune_as_karmada(obj: Object, expected: Object) -> None:
    assert prune(obj) == expected


@pytest.mark.parametrize("api_version", ["v1", "serving.knative.dev/v1"])
def test_kind_rules_look_at_the_kind_name_only(api_version: str) -> None:
    obj = {"apiVersion": api_version, "kind": "Service", "spec": {"clusterIP": "10.0.0.1"}}
    assert prune(obj)["spec"] == {}


@pytest.mark.parametrize("obj", [*(obj for obj, _ in PRUNED_BY_KIND), _job()])
def test_pruning_does_not_change_its_input_and_is_idempotent(obj: Object) -> None:
    before = copy.deepcopy(obj)
    pruned = prune(obj)
    assert obj == before
    assert prune(pruned) == pruned


@pytest.mark.parametrize(
    "kind", ["Deployment", "Job", "Secret", "ServiceAccount", "Service", "PersistentVolumeClaim"]
)
@pytest.mark.parametrize("value", [None, "text", [], 3])
def test_odd_shapes_pass_through(kind: str, value: object) -> None:
    obj = {"kind": kind, "metadata": value, "spec": value, "secrets": value}
    assert prune(obj) == obj
