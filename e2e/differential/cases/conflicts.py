"""Objects of somebody else, objects nobody takes, and namespaces that are not there."""

from e2e.differential.cases import shapes
from e2e.differential.cases.registry import case, written
from e2e.differential.scene import Play, Scene
from e2e.lab.api import Object
from e2e.lab.works import hand_written

_CONFLICT = "work.karmada.io/conflict-resolution"


def _foreign(scene: Scene) -> Object:
    """Return an object that is on the host already, without Karmada's label."""
    return shapes.config_map(scene, key="foreign")


# --- foreign objects ----------------------------------------------------------------------


@case
def foreign_object_aborts(scene: Scene) -> Play:
    scene.create_on_host(_foreign(scene))
    template = shapes.config_map(scene)
    scene.propagate(template)
    yield scene.applied(template, "False")


@case
def foreign_object_overwritten_by_policy(scene: Scene) -> Play:
    scene.create_on_host(_foreign(scene))
    template = shapes.config_map(scene)
    scene.propagate(template, conflictResolution="Overwrite")
    yield scene.applied(template)


@case
def foreign_object_overwritten_by_template(scene: Scene) -> Play:
    scene.create_on_host(_foreign(scene))
    template = shapes.config_map(scene)
    template["metadata"]["annotations"] = {_CONFLICT: "overwrite"}
    scene.propagate(template)
    yield scene.applied(template)


@case
def foreign_object_and_no_word(scene: Scene) -> Play:
    scene.create_on_host(_foreign(scene))
    work = scene.work(shapes.config_map(scene))
    yield scene.work_applied(work, "False")


@case
def foreign_object_goes(scene: Scene) -> Play:
    foreign = _foreign(scene)
    scene.create_on_host(foreign)
    template = shapes.config_map(scene)
    scene.propagate(template)
    yield scene.applied(template, "False")
    scene.delete_on_host(foreign)
    yield scene.applied(template)


@case
def foreign_object_with_the_label(scene: Scene) -> Play:
    """Who has Karmada's label is taken for Karmada's."""
    foreign = _foreign(scene)
    foreign["metadata"]["labels"] = {"karmada.io/managed": "true"}
    scene.create_on_host(foreign)
    template = shapes.config_map(scene)
    scene.propagate(template)
    yield scene.applied(template)


@case
def foreign_object_is_not_deleted(scene: Scene) -> Play:
    scene.create_on_host(_foreign(scene))
    work = scene.work(shapes.config_map(scene))
    yield scene.work_applied(work, "False")
    scene.remove(work)
    yield scene.work_absent(work)


# --- bad manifests ------------------------------------------------------------------------


written("invalid-spec", lambda scene: shapes.service(scene, ports=[{"port": 99999}]))
written(
    "invalid-selector",
    lambda scene: shapes.deployment(scene, selector={"matchLabels": {"app": "other"}}),
)
written("unknown-kind", lambda scene: shapes.manifest(scene, "differential.example/v1", "Nonsense"))
written("unknown-version", lambda scene: shapes.manifest(scene, "apps/v7", "Deployment"))


@case
def invalid_name(scene: Scene) -> Play:
    manifest = shapes.config_map(scene)
    manifest["metadata"]["name"] = "Not_a_name"
    work = scene.work(manifest)
    yield scene.work_applied(work, "False")


@case
def immutable_field_updated(scene: Scene) -> Play:
    manifest = shapes.unplaced(shapes.deployment(scene), "spec", "template", "spec")
    work = scene.work(manifest)
    yield scene.work_applied(work)
    yield scene.work_reports(work, 1)
    changed = hand_written(scene.lane.cluster, scene.name, manifest)["spec"]["workload"]
    labels = {"app": scene.name, "more": "x"}
    spec = changed["manifests"][0]["spec"]
    spec["selector"] = {"matchLabels": labels}
    spec["template"]["metadata"]["labels"] = labels
    scene.update(work, {"spec": {"workload": changed}})
    yield scene.work_applied(work, "False")


@case
def recreation_fails(scene: Scene) -> Play:
    """Somebody deletes an object, and the host has no room for it any more."""
    template = shapes.manifest(
        scene, "resource.k8s.io/v1", "ResourceClaimTemplate", spec={"spec": {}}
    )
    scene.propagate(template)
    yield scene.applied(template)
    yield scene.on_host(template)
    hard = {"count/resourceclaimtemplates.resource.k8s.io": "0"}
    quota = shapes.manifest(scene, "v1", "ResourceQuota", spec={"hard": hard})
    scene.create_on_host(quota)
    yield scene.on_host(quota, lambda live: "used" in (live.get("status") or {}))
    scene.delete_on_host(template)
    yield scene.applied(template, "False", "ReCreateFailed")


# --- namespaces ---------------------------------------------------------------------------


@case
def namespace_missing(scene: Scene) -> Play:
    """Our agent makes the namespace, for Works come in no order."""
    manifest = shapes.config_map(scene)
    manifest["metadata"]["namespace"] = f"{scene.namespace}-{scene.name}"
    work = scene.work(manifest)
    yield scene.work_has_any(work, "Applied")


@case
def namespace_forbidden(scene: Scene) -> Play:
    manifest = shapes.config_map(scene)
    manifest["metadata"] = {"name": scene.wide_name, "namespace": "kube-system"}
    work = scene.work(manifest)
    yield scene.work_has_any(work, "Applied")


@case
def namespace_sent(scene: Scene) -> Play:
    namespace = _namespace(scene)
    scene.lane.hub.create(namespace)
    scene.compare(namespace)
    yield scene.applied(namespace)
    yield scene.on_host(namespace)


@case
def namespace_updated(scene: Scene) -> Play:
    namespace = _namespace(scene)
    scene.lane.hub.create(namespace)
    scene.compare(namespace)
    yield scene.applied(namespace)
    scene.update(namespace, {"metadata": {"labels": {"team": "a"}}})
    yield scene.on_host(namespace, lambda live: live["metadata"]["labels"].get("team") == "a")


@case
def namespace_deleted(scene: Scene) -> Play:
    namespace = _namespace(scene)
    scene.lane.hub.create(namespace)
    scene.compare(namespace)
    yield scene.applied(namespace)
    yield scene.on_host(namespace)
    scene.remove(namespace)
    yield scene.no_work_of(namespace)
    yield scene.not_on_host(namespace)


@case
def namespace_foreign(scene: Scene) -> Play:
    """A namespace that was there before, and that nobody gave to Karmada."""
    namespace = _namespace(scene)
    scene.create_on_host(namespace)
    scene.lane.hub.create(namespace)
    scene.compare(namespace)
    yield scene.applied(namespace, "False")


def _namespace(scene: Scene) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scene.wide_name}}
