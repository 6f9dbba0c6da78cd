"""Manifests of many kinds, as small as the API server takes them."""

from typing import Any

from e2e.differential.scene import Scene
from e2e.lab import objects
from e2e.lab.api import Object


def manifest(scene: Scene, api_version: str, kind: str, **content: Any) -> Object:
    """Return an object in the namespace of the cases."""
    metadata = {"name": scene.name, "namespace": scene.namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def wide(scene: Scene, api_version: str, kind: str, **content: Any) -> Object:
    """Return an object without namespace."""
    metadata = {"name": scene.wide_name}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def deployment(scene: Scene, replicas: int = 2, **spec: Any) -> Object:
    made = objects.deployment(scene.namespace, scene.name, replicas)
    made["spec"].update(spec)
    return made


def config_map(scene: Scene, **data: str) -> Object:
    return objects.config_map(scene.namespace, scene.name, **data)


def service(scene: Scene, **spec: Any) -> Object:
    made = objects.service(scene.namespace, scene.name)
    made["spec"].update(spec)
    return made


def service_account(scene: Scene, **content: Any) -> Object:
    return manifest(scene, "v1", "ServiceAccount", **content)


def secret(scene: Scene, kind: str = "Opaque", **data: str) -> Object:
    return manifest(scene, "v1", "Secret", type=kind, stringData=data or {"key": "value"})


def pod(scene: Scene, **spec: Any) -> Object:
    content = objects.pod_template(scene.name)["spec"] | spec
    return manifest(scene, "v1", "Pod", spec=content)


def unplaced(template: Object, *path: str) -> Object:
    """Return the object with pods that no node takes; path: where its pod spec is."""
    spec = template
    for key in path:
        spec = spec[key]
    spec["nodeSelector"] = {"differential/no-such-node": "x"}
    return template


def replica_set(scene: Scene, replicas: int = 1) -> Object:
    labels = {"app": scene.name}
    template = objects.pod_template(scene.name)
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return manifest(scene, "apps/v1", "ReplicaSet", spec=spec)


def job(scene: Scene, **spec: Any) -> Object:
    made = objects.job(scene.namespace, scene.name)
    made["spec"].update(spec)
    return made


def volume_claim(scene: Scene, **spec: Any) -> Object:
    content = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "none-such",
    }
    return manifest(scene, "v1", "PersistentVolumeClaim", spec=content | spec)


def ingress(scene: Scene, **spec: Any) -> Object:
    backend = {"service": {"name": scene.name, "port": {"number": 80}}}
    return manifest(
        scene, "networking.k8s.io/v1", "Ingress", spec={"defaultBackend": backend} | spec
    )


def disruption_budget(scene: Scene) -> Object:
    selector = {"matchLabels": {"app": scene.name}}
    spec = {"minAvailable": 1, "selector": selector}
    return manifest(scene, "policy/v1", "PodDisruptionBudget", spec=spec)


def autoscaler(scene: Scene, target: str = "") -> Object:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target or scene.name}
    spec = {"scaleTargetRef": reference, "minReplicas": 1, "maxReplicas": 5}
    return manifest(scene, "autoscaling/v2", "HorizontalPodAutoscaler", spec=spec)


def role(scene: Scene) -> Object:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
    return manifest(scene, "rbac.authorization.k8s.io/v1", "Role", rules=rules)


def custom_definition(scene: Scene, kind: str) -> Object:
    """Return a definition whose group is the case's own: one that the host defines is its own."""
    return objects.custom_definition(group_of(scene), kind)


def group_of(scene: Scene) -> str:
    return f"{scene.case}.{scene.lane.tag}.differential.example"


def custom(scene: Scene, kind: str) -> Object:
    return manifest(scene, f"{group_of(scene)}/v1", kind, spec={"size": 3})
