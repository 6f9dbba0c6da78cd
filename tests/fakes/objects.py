"""Kubernetes and Karmada objects that tests put on the fake servers."""

from collections.abc import Mapping
from typing import Any

from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import LabelSelector, VirtualCluster
from karmada_vc_agent.model.vocabulary import AGENT_LABEL, CLUSTER_LABEL, NAMESPACE_LABEL

SINCE = "2026-01-01T00:00:00Z"


def virtual_cluster(name: str = "branch-a", **fields: Any) -> VirtualCluster:
    """Return a virtual cluster whose nodes are those with `branch` = the end of its name."""
    fields.setdefault("node_selector", LabelSelector({"branch": name.removeprefix("branch-")}))
    return VirtualCluster(name, **fields)


def ready(status: str = "True") -> Object:
    reason, message = {
        "True": ("ClusterReady", "cluster is healthy and ready to accept workloads"),
        "False": ("ClusterNotReachable", "cluster is not reachable"),
        "Unknown": (
            "ClusterStatusUnknown",
            "Cluster status controller stopped posting cluster status.",
        ),
    }[status]
    return condition("Ready", status, reason, message)


def condition(kind: str, status: str, reason: str, message: str) -> Object:
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": SINCE,
        "reason": reason,
        "message": message,
    }


def cluster(
    name: str, cluster_id: str, *, conditions: list[Object] | None = None, **spec: Any
) -> Object:
    """Return a Cluster that the control plane has accepted."""
    obj: Object = {
        "apiVersion": vocabulary.CLUSTER_API,
        "kind": "Cluster",
        "metadata": {"name": name, "finalizers": [vocabulary.CLUSTER_FINALIZER]},
        "spec": {"id": cluster_id, "syncMode": "Pull", **spec},
    }
    if conditions:
        obj["status"] = {"conditions": conditions}
    return obj


def namespace(name: str, labels: Mapping[str, str] | None = None, **metadata: Any) -> Object:
    meta: Object = {"name": name, "labels": dict(labels or {}), **metadata}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def claimed(
    vc: str = "branch-a",
    virtual: str = "edge",
    host: str = "",
    agent: str = "karmada-vc-agent",
    **metadata: Any,
) -> Object:
    """Return a host namespace that is claimed."""
    labels = {CLUSTER_LABEL: vc, NAMESPACE_LABEL: virtual, AGENT_LABEL: agent}
    return namespace(host or f"{virtual}-v-{vc}", labels, **metadata)


def node(
    name: str, labels: Mapping[str, str] | None = None, status: str = "True", **allocatable: str
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "status": {
            "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110", **allocatable},
            "conditions": [{"type": "Ready", "status": status}],
        },
    }


def pod(name: str, ns: str, node_name: str = "", phase: str = "Running", **spec: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    placed = {"nodeName": node_name} if node_name else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": ns},
        "spec": {"containers": [container], **placed, **spec},
        "status": {"phase": phase},
    }


def managed(name: str, ns: str = "", **labels: str) -> Object:
    """Return metadata as Karmada sends it, with its lists of what it manages."""
    all_labels = {vocabulary.MANAGED_LABEL: "true", **labels}
    annotations = {
        vocabulary.TEMPLATE_UID_ANNOTATION: "template-uid",
        vocabulary.TEMPLATE_GENERATION_ANNOTATION: "1",
        vocabulary.MANAGED_LABELS_ANNOTATION: ",".join(sorted(all_labels)),
    }
    keys = sorted((*annotations, vocabulary.MANAGED_ANNOTATIONS_ANNOTATION))
    annotations[vocabulary.MANAGED_ANNOTATIONS_ANNOTATION] = ",".join(keys)
    placed = {"namespace": ns} if ns else {}
    return {"name": name, **placed, "labels": all_labels, "annotations": annotations}


def config_map(name: str = "settings", ns: str = "edge", value: str = "1") -> Object:
    """Return a manifest as Karmada sends it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": managed(name, ns),
        "data": {"value": value},
    }


def secret(name: str, ns: str = "edge") -> Object:
    """Return a manifest as Karmada sends it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": managed(name, ns),
        "data": {"value": "MQ=="},
    }


def deployment(name: str = "web", ns: str = "edge", replicas: int = 2, **pod_spec: Any) -> Object:
    """Return a manifest as Karmada sends it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": managed(name, ns),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "i"}], **pod_spec},
            },
        },
    }


def job(name: str = "once", ns: str = "edge", **pod_spec: Any) -> Object:
    """Return a manifest as Karmada sends it."""
    containers = [{"name": "c", "image": "i"}]
    spec = {"containers": containers, "restartPolicy": "Never", **pod_spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": managed(name, ns),
        "spec": {"template": {"spec": spec}},
    }


def namespace_manifest(name: str = "edge") -> Object:
    """Return the manifest of a Namespace as Karmada sends it."""
    metadata = managed(name, **{"kubernetes.io/metadata.name": name})
    spec = {"finalizers": ["kubernetes"]}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "spec": spec}


def work(
    *manifests: Object, vc: str = "branch-a", name: str = "web-1", spec: Object | None = None
) -> Object:
    """Return a Work in the execution namespace of a virtual cluster."""
    return {
        "apiVersion": vocabulary.WORK_API,
        "kind": "Work",
        "metadata": {
            "name": name,
            "namespace": vocabulary.execution_namespace(vc),
            "finalizers": [vocabulary.EXECUTION_FINALIZER],
            "labels": {vocabulary.WORK_PERMANENT_ID_LABEL: "permanent"},
        },
        "spec": {"workload": {"manifests": list(manifests)}, **(spec or {})},
    }
