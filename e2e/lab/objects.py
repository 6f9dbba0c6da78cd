"""Objects as users write them: templates, policies, nodes."""

from collections.abc import Sequence
from typing import Any

from e2e.lab.api import Object

IMAGE = "registry.example/app:1"


def config_map(namespace: str, name: str = "settings", **data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data or {"key": "value"},
    }


def secret(namespace: str, name: str = "key") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"key": "MQ=="},
    }


def namespace(name: str, labels: dict[str, str] | None = None) -> Object:
    metadata: Object = {"name": name} | ({"labels": labels} if labels else {})
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def service(namespace: str, name: str = "web") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    }


def pod_template(app: str, cpu: str = "", node_selector: dict[str, str] | None = None) -> Object:
    container: Object = {"name": "app", "image": IMAGE}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    spec: Object = {"containers": [container]}
    if node_selector:
        spec["nodeSelector"] = node_selector
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def deployment(
    namespace: str,
    name: str = "web",
    replicas: int = 2,
    *,
    cpu: str = "",
    node_selector: dict[str, str] | None = None,
) -> Object:
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": pod_template(name, cpu, node_selector),
    }
    return _workload("apps/v1", "Deployment", namespace, name, spec)


def stateful_set(namespace: str, name: str = "db", replicas: int = 1) -> Object:
    spec = {
        "replicas": replicas,
        "serviceName": name,
        "selector": {"matchLabels": {"app": name}},
        "template": pod_template(name),
    }
    return _workload("apps/v1", "StatefulSet", namespace, name, spec)


def bystander(name: str, node: str) -> Object:
    """Return a pod of no virtual cluster, on a node."""
    spec = {"containers": [{"name": "app", "image": IMAGE}], "nodeName": node}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def daemon_set(namespace: str, name: str = "probe") -> Object:
    spec = {"selector": {"matchLabels": {"app": name}}, "template": pod_template(name)}
    return _workload("apps/v1", "DaemonSet", namespace, name, spec)


def job(namespace: str, name: str = "once") -> Object:
    return _workload("batch/v1", "Job", namespace, name, _job_spec(name))


def cron_job(namespace: str, name: str = "nightly") -> Object:
    spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": _job_spec(name)}}
    return _workload("batch/v1", "CronJob", namespace, name, spec)


def _job_spec(app: str) -> Object:
    template = pod_template(app)
    template["spec"]["restartPolicy"] = "Never"
    return {"template": template}


def _workload(api_version: str, kind: str, namespace: str, name: str, spec: Object) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": spec,
    }


def policy(
    namespace: str, name: str, templates: list[Object], placement: Object, **spec: Any
) -> Object:
    """Return a PropagationPolicy that selects these very templates."""
    selectors = [
        {
            "apiVersion": template["apiVersion"],
            "kind": template["kind"],
            "name": template["metadata"]["name"],
        }
        for template in templates
    ]
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"resourceSelectors": selectors, "placement": placement} | spec,
    }


def to_clusters(*clusters: str) -> Object:
    """Return the placement that puts everything on each of the Clusters."""
    return {"clusterAffinity": {"clusterNames": list(clusters)}}


def custom_definition(
    group: str, kind: str = "Widget", *, versions: Sequence[str] = ("v1",)
) -> Object:
    """Return the definition of a namespaced kind that takes anything.

    kind: in lower case and with an s its plural. versions: the first one is stored.
    """
    singular = kind.lower()
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": f"{singular}s", "singular": singular, "kind": kind},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[0],
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
                for version in versions
            ],
        },
    }


def node(name: str, labels: dict[str, str], cpu: str = "4", *, is_simulated: bool = True) -> Object:
    """Return a Node as an edge registers it.

    is_simulated: whether kwok simulates it; otherwise nobody touches it but the test.
    """
    resources = {"cpu": cpu, "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    basic = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node-role.kubernetes.io/edge": "",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"} if is_simulated else {},
            "labels": basic | labels,
        },
        "status": {"capacity": resources, "allocatable": resources},
    }


def federated_quota(namespace: str, pods: dict[str, str]) -> Object:
    """Return a FederatedResourceQuota of pods, by Cluster; each gets ResourceQuota `shared`."""
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "FederatedResourceQuota",
        "metadata": {"name": "shared", "namespace": namespace},
        "spec": {
            "overall": {"pods": "8"},
            "staticAssignments": [
                {"clusterName": name, "hard": {"pods": count}} for name, count in pods.items()
            ],
        },
    }
