"""Objects without namespace, and custom kinds.

Our agent lets a virtual cluster have few kinds without namespace, since it shares its host
(rewriting-rules 5.1); what it makes of the others shows here.
"""

from e2e.differential.cases import shapes
from e2e.differential.cases.registry import case, written
from e2e.differential.scene import Play, Scene
from e2e.lab.api import Object

_RBAC = "rbac.authorization.k8s.io"


def _cluster_role(scene: Scene) -> Object:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    return shapes.wide(scene, f"{_RBAC}/v1", "ClusterRole", rules=rules)


def _cluster_role_binding(scene: Scene) -> Object:
    return shapes.wide(
        scene,
        f"{_RBAC}/v1",
        "ClusterRoleBinding",
        subjects=[{"kind": "User", "name": "ann", "apiGroup": _RBAC}],
        roleRef={"kind": "ClusterRole", "name": scene.wide_name, "apiGroup": _RBAC},
    )


def _volume(scene: Scene) -> Object:
    claim = {"claimRef": {"namespace": "default", "name": f"{scene.wide_name}-of-nobody"}}
    return _unclaimed_volume(scene, **claim)


def _unclaimed_volume(scene: Scene, **more: Object) -> Object:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/data"},
        "storageClassName": "of-no-claim",
        **more,
    }
    return shapes.wide(scene, "v1", "PersistentVolume", spec=spec)


written("cluster-role", _cluster_role)
written("cluster-role-binding", _cluster_role_binding)
written("volume", _volume)
written("unclaimed-volume", _unclaimed_volume)
written(
    "storage-class",
    lambda scene: shapes.wide(
        scene, "storage.k8s.io/v1", "StorageClass", provisioner="differential.example/none"
    ),
)
written(
    "priority-class",
    lambda scene: shapes.wide(scene, "scheduling.k8s.io/v1", "PriorityClass", value=100),
)
written(
    "ingress-class",
    lambda scene: shapes.wide(
        scene,
        "networking.k8s.io/v1",
        "IngressClass",
        spec={"controller": "differential.example/none"},
    ),
)
written("custom-definition", lambda scene: shapes.custom_definition(scene, "Gadget"))


@case
def custom_object(scene: Scene) -> Play:
    """A kind that hub and host have, with a status."""
    yield from _define(scene, "Widget")
    manifest = shapes.custom(scene, "Widget")
    work = scene.work(manifest)
    yield scene.work_applied(work)
    scene.report_on_host(manifest, phase="Fine", since="2026-01-01T00:00:00Z")
    yield scene.work_gets(work, lambda found: "Fine" in str(found["status"]))


@case
def custom_object_updated(scene: Scene) -> Play:
    """Nothing of a custom kind is retained."""
    yield from _define(scene, "Gizmo")
    manifest = shapes.custom(scene, "Gizmo")
    work = scene.work(manifest)
    yield scene.work_applied(work)
    yield scene.work_reports(work, 1)
    scene.patch_host(manifest, {"spec": {"size": 7, "more": True}})
    yield scene.on_host(manifest, lambda live: live["metadata"]["generation"] >= 3)


@case
def custom_kind_appears_on_host(scene: Scene) -> Play:
    """A kind that the hub has and the host has not; later it has."""
    definition = shapes.custom_definition(scene, "Sprocket")
    scene.lane.hub.create(definition)
    yield scene.has_definition(scene.lane.on_hub, definition)
    work = scene.work(shapes.custom(scene, "Sprocket"))
    yield scene.work_applied(work, "False")
    scene.lane.host.create(definition)
    yield scene.work_applied(work)


def _define(scene: Scene, kind: str) -> Play:
    definition = shapes.custom_definition(scene, kind)
    scene.lane.hub.create(definition)
    scene.lane.host.create(definition)
    yield scene.has_definition(scene.lane.on_hub, definition)
    yield scene.has_definition(scene.lane.on_host, definition)
