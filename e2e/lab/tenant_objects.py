"""One object of each kind that tenants use most, by names that two virtual clusters may share."""

from typing import Any

from e2e.lab.api import Object

RBAC = "rbac.authorization.k8s.io"
IMAGE = "registry.example/app:1"
_LABELS = {"app": "web"}
_SELECTOR = {"matchLabels": _LABELS}
_POD: Object = {
    "automountServiceAccountToken": False,
    "schedulerName": "nobody",
    "containers": [{"name": "app", "image": IMAGE, "env": [{"name": "X", "value": "y"}]}],
}
_TEMPLATE: Object = {"metadata": {"labels": _LABELS}, "spec": _POD}
_ONCE: Object = {**_POD, "restartPolicy": "Never"}


def tenant_objects(namespace: str) -> list[Object]:
    """Return them in the order to create them."""

    def one(api_version: str, kind: str, name: str, **content: Any) -> Object:
        metadata = {"name": name, "namespace": namespace, "labels": dict(_LABELS)}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}

    account = {"kind": "ServiceAccount", "name": "bot", "namespace": namespace}
    role = {"kind": "Role", "apiGroup": RBAC, "name": "reader"}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    wish = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return [
        one("v1", "ConfigMap", "settings", data={"a": "b"}),
        one("v1", "Secret", "password", stringData={"a": "b"}),
        one("v1", "ServiceAccount", "bot"),
        one("v1", "Service", "web", spec={"selector": _LABELS, "ports": [{"port": 80}]}),
        one("v1", "PersistentVolumeClaim", "data", spec={**wish, "storageClassName": "none"}),
        one("v1", "Pod", "bare", spec=_POD),
        one("v1", "ReplicationController", "old", spec={"replicas": 0, "template": _TEMPLATE}),
        one("apps/v1", "Deployment", "web", spec={"selector": _SELECTOR, "template": _TEMPLATE}),
        one("apps/v1", "ReplicaSet", "set", spec={"selector": _SELECTOR, "template": _TEMPLATE}),
        one("apps/v1", "DaemonSet", "all", spec={"selector": _SELECTOR, "template": _TEMPLATE}),
        one(
            *("apps/v1", "StatefulSet", "db"),
            spec={"serviceName": "web", "selector": _SELECTOR, "template": _TEMPLATE},
        ),
        one("batch/v1", "Job", "once", spec={"template": {"spec": _ONCE}}),
        one(
            *("batch/v1", "CronJob", "yearly"),
            spec={
                "schedule": "0 0 1 1 *",
                "jobTemplate": {"spec": {"template": {"spec": _ONCE}}},
            },
        ),
        one(
            *("networking.k8s.io/v1", "Ingress", "web"),
            spec={"rules": [{"host": "example.com", "http": {"paths": [path]}}]},
        ),
        one("networking.k8s.io/v1", "NetworkPolicy", "own", spec={"podSelector": {}}),
        one(f"{RBAC}/v1", "Role", "reader", rules=[rule]),
        one(f"{RBAC}/v1", "RoleBinding", "read", subjects=[account], roleRef=role),
        one(
            *("autoscaling/v2", "HorizontalPodAutoscaler", "web"),
            spec={"scaleTargetRef": target, "maxReplicas": 3},
        ),
        one(
            *("policy/v1", "PodDisruptionBudget", "web"),
            spec={"selector": _SELECTOR, "minAvailable": 1},
        ),
        one("coordination.k8s.io/v1", "Lease", "turn", spec={"leaseDurationSeconds": 5}),
    ]
