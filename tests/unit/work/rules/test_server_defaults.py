"""What a server completes in kinds without a generation costs no PUT; what differs does.

The live objects are as kube-apiserver v1.34 answered (e2e/test_restart.py sees the same).
"""

import copy
from typing import Any

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.rules import apply_plan

CHOSEN = {
    "clusterIP": "10.0.0.7",
    "clusterIPs": ["10.0.0.7"],
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
}
PORT = {"port": 80, "protocol": "TCP", "targetPort": 80}
SERVICE = {
    **CHOSEN,
    "type": "ClusterIP",
    "sessionAffinity": "None",
    "internalTrafficPolicy": "Cluster",
    "selector": {"app": "web"},
    "ports": [PORT],
}
NODE_PORT = {
    **SERVICE,
    "type": "NodePort",
    "externalTrafficPolicy": "Cluster",
    "ports": [{**PORT, "nodePort": 30_001}],
}
CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "volumeMode": "Filesystem",
    "storageClassName": "standard",
}
SCALED = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3}
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
ASKED_PORT = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
ROWS: list[tuple[str, str, Object, Object]] = [
    # kind, manifest, as the server has it
    ("v1", "Service", {"spec": ASKED_PORT}, {"spec": SERVICE}),
    ("v1", "Service", {"spec": {**ASKED_PORT, "type": "NodePort"}}, {"spec": NODE_PORT}),
    (
        *("v1", "Service"),
        {"spec": {**ASKED_PORT, "clusterIP": "None"}},
        {"spec": {**SERVICE, "clusterIP": "None", "clusterIPs": ["None"]}},
    ),
    (
        *("v1", "Service"),
        {"spec": {"type": "ExternalName", "externalName": "a.example"}},
        {"spec": {"type": "ExternalName", "externalName": "a.example", "sessionAffinity": "None"}},
    ),
    (
        *("v1", "PersistentVolumeClaim"),
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1024Mi"}},
            }
        },
        {"spec": CLAIM},
    ),
    (
        *("autoscaling/v2", "HorizontalPodAutoscaler"),
        {"spec": SCALED},
        {"spec": {**SCALED, "minReplicas": 1, "metrics": [CPU]}},
    ),
    ("v1", "Secret", {"stringData": {"a": "b"}}, {"type": "Opaque", "data": {"a": "Yg=="}}),
    (
        *("v1", "LimitRange"),
        {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
        {
            "spec": {
                "limits": [
                    {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}
                ]
            }
        },
    ),
    ("v1", "ResourceQuota", {"spec": {"hard": {"cpu": "1000m"}}}, {"spec": {"hard": {"cpu": "1"}}}),
    ("v1", "Namespace", {}, {"spec": {"finalizers": ["kubernetes"]}}),
    (
        *("rbac.authorization.k8s.io/v1", "RoleBinding"),
        {"subjects": [{"kind": "User", "name": "a"}]},
        {
            "subjects": [
                {"kind": "User", "name": "a", "apiGroup": "rbac.authorization.k8s.io"},
            ]
        },
    ),
]
SERVED = pytest.mark.parametrize(
    ("api_version", "kind", "asked", "found"),
    ROWS,
    ids=[f"{row[1]}-{n}" for n, row in enumerate(ROWS)],
)


def made(api_version: str, kind: str, content: Object) -> Object:
    labels = {"karmada.io/managed": "true", "kubernetes.io/metadata.name": "x"}
    metadata = {"name": "x", "labels": labels, "annotations": {"a": "b"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **copy.deepcopy(content)}


@SERVED
def test_an_object_as_the_server_completed_it_is_kept(
    api_version: str, kind: str, asked: Object, found: Object
) -> None:
    live = made(api_version, kind, found)
    assert apply_plan.decide(made(api_version, kind, asked), live) is None


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"spec": ASKED_PORT}, {"spec": {**SERVICE, "sessionAffinity": "ClientIP"}}),
        ({"spec": ASKED_PORT}, {"spec": NODE_PORT}),
        ({"spec": {**ASKED_PORT, "type": "NodePort"}}, {"spec": SERVICE}),
        ({"spec": ASKED_PORT}, {"spec": {**SERVICE, "internalTrafficPolicy": "Local"}}),
        ({"spec": ASKED_PORT}, {"spec": {**SERVICE, "externalIPs": ["10.1.1.1"]}}),
        ({"spec": ASKED_PORT}, {"spec": {**SERVICE, "ports": [{**PORT, "targetPort": 81}]}}),
        (
            {"spec": {**ASKED_PORT, "type": "NodePort"}},
            {"spec": {**NODE_PORT, "ports": [PORT, {**PORT, "port": 81}]}},
        ),
    ],
)
def test_what_a_put_would_change_of_a_service_is_put(asked: Object, found: Object) -> None:
    live = made("v1", "Service", found)
    assert apply_plan.decide(made("v1", "Service", asked), live) is not None


@pytest.mark.parametrize("value", [None, [], "text", 1, {"ports": 1, "type": []}, {"ports": [1]}])
@pytest.mark.parametrize("kind", sorted({(row[0], row[1]) for row in ROWS}))
def test_what_no_server_takes_is_left_to_it(kind: tuple[str, str], value: Any) -> None:
    """It answers with its own words."""
    odd = made(*kind, {"spec": value, "subjects": value, "stringData": value})
    live = made(*kind, {"spec": {"ports": [PORT]}})
    apply_plan.decide(odd, live)  # raises nothing
