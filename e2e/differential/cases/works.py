"""Works written by hand: several manifests, suspension, preservation, deletion."""

import copy

from e2e.differential.cases import shapes
from e2e.differential.cases.registry import case
from e2e.differential.scene import Play, Scene
from e2e.lab import objects
from e2e.lab.api import Object
from e2e.lab.works import hand_written

_UID = "resourcetemplate.karmada.io/uid"


def _config_maps(scene: Scene, count: int) -> list[Object]:
    numbers = range(1, count + 1)
    return [objects.config_map(scene.namespace, f"{scene.name}-{n}") for n in numbers]


def _invalid(scene: Scene) -> Object:
    """Return a manifest that the hub stores in a Work and that the host refuses."""
    return shapes.service(scene, ports=[{"port": 99999}])


def _change(scene: Scene, work: Object, *manifests: Object) -> None:
    """Replace the manifests of a Work."""
    scene.update(work, {"spec": {"workload": {"manifests": list(manifests)}}})


def _manifests(scene: Scene, work: Object) -> list[Object]:
    """Return a copy of the manifests of a Work as they are on the hub."""
    found = scene.lane.hub.get(scene.path(work))["spec"]["workload"]["manifests"]
    return copy.deepcopy(found)


# --- how many manifests -------------------------------------------------------------------


@case
def work_of_none(scene: Scene) -> Play:
    work = scene.work()
    yield scene.work_applied(work)


@case
def work_of_one(scene: Scene) -> Play:
    work = scene.work(shapes.config_map(scene))
    yield scene.work_applied(work)
    yield scene.work_reports(work, 1)


@case
def work_of_three(scene: Scene) -> Play:
    """Karmada reports one of several manifests, we report all."""
    work = scene.work(*_config_maps(scene, 3))
    yield scene.work_applied(work)
    yield scene.work_reports(work, 1)


@case
def work_of_deployment_and_service(scene: Scene) -> Play:
    deployment = shapes.unplaced(shapes.deployment(scene), "spec", "template", "spec")
    work = scene.work(shapes.service(scene), deployment)
    yield scene.work_applied(work)
    yield scene.work_reports(work, 1)


@case
def work_failing_in_part(scene: Scene) -> Play:
    """Both templates are told, the one that is applied and the one that is not."""
    good, bad = shapes.config_map(scene), _invalid(scene)
    for template in (good, bad):
        template["metadata"]["annotations"] = {_UID: "11111111-2222-3333-4444-555555555555"}
    work = scene.work(good, bad)
    scene.compare(good, bad)
    yield scene.work_applied(work, "False")
    yield scene.on_host(good)


@case
def work_failing_twice_alike(scene: Scene) -> Play:
    work = scene.work(_invalid(scene), _invalid(scene))
    yield scene.work_applied(work, "False")


@case
def work_failing_in_two_ways(scene: Scene) -> Play:
    other = shapes.config_map(scene)
    other["metadata"]["name"] = "Not A Name"
    work = scene.work(_invalid(scene), other)
    yield scene.work_applied(work, "False")


@case
def work_with_one_manifest_twice(scene: Scene) -> Play:
    first, second = shapes.config_map(scene, key="1"), shapes.config_map(scene, key="2")
    work = scene.work(first, second)
    yield scene.work_applied(work)
    yield scene.on_host(first)


@case
def work_loses_a_manifest(scene: Scene) -> Play:
    """What is no longer in the Work stays on the host."""
    work = scene.work(*_config_maps(scene, 2))
    yield scene.work_applied(work)
    yield scene.on_host(_config_maps(scene, 2)[1])
    _change(scene, work, _manifests(scene, work)[0])
    yield scene.work_gets(work, lambda found: found["metadata"]["generation"] == 2)


@case
def work_corrected(scene: Scene) -> Play:
    work = scene.work(_invalid(scene))
    yield scene.work_applied(work, "False")
    (manifest,) = _manifests(scene, work)
    manifest["spec"]["ports"] = [{"port": 80}]
    _change(scene, work, manifest)
    yield scene.work_applied(work)


# --- what a manifest may lack -------------------------------------------------------------


@case
def deployment_without_generation(scene: Scene) -> Play:
    """Without the template's generation the status of a Deployment cannot be told."""
    manifest = shapes.unplaced(shapes.deployment(scene), "spec", "template", "spec")
    work = hand_written(scene.lane.cluster, scene.name, manifest)
    annotations = work["spec"]["workload"]["manifests"][0]["metadata"]["annotations"]
    del annotations["resourcetemplate.karmada.io/generation"]
    work = scene.create_work(work)
    yield scene.work_applied(work)


@case
def deployment_with_odd_generation(scene: Scene) -> Play:
    manifest = shapes.unplaced(shapes.deployment(scene), "spec", "template", "spec")
    work = hand_written(scene.lane.cluster, scene.name, manifest)
    annotations = work["spec"]["workload"]["manifests"][0]["metadata"]["annotations"]
    annotations["resourcetemplate.karmada.io/generation"] = "many"
    work = scene.create_work(work)
    yield scene.work_applied(work)


@case
def manifest_without_managed_label(scene: Scene) -> Play:
    """It is created, but neither updated nor deleted afterwards."""
    work = hand_written(scene.lane.cluster, scene.name, shapes.config_map(scene))
    del work["spec"]["workload"]["manifests"][0]["metadata"]["labels"]
    work = scene.create_work(work)
    yield scene.work_applied(work)


@case
def manifest_to_be_named_by_the_host(scene: Scene) -> Play:
    manifest = shapes.config_map(scene)
    manifest["metadata"] = {"generateName": f"{scene.name}-", "namespace": scene.namespace}
    work = scene.work(manifest)
    yield scene.work_has_any(work, "Applied")


# --- suspended ----------------------------------------------------------------------------


@case
def work_suspended(scene: Scene) -> Play:
    work = scene.work(shapes.config_map(scene), suspendDispatching=True)
    yield scene.work_has(work, "Dispatching", "False")


@case
def work_resumed(scene: Scene) -> Play:
    work = scene.work(shapes.config_map(scene), suspendDispatching=True)
    yield scene.work_has(work, "Dispatching", "False")
    scene.update(work, {"spec": {"suspendDispatching": False}})
    yield scene.work_applied(work)


@case
def work_suspended_later(scene: Scene) -> Play:
    """A suspended Work does not repair, but still reports."""
    manifest = shapes.config_map(scene)
    work = scene.work(manifest)
    yield scene.work_applied(work)
    yield scene.work_reports(work, 1)
    scene.update(work, {"spec": {"suspendDispatching": True}})
    yield scene.work_has(work, "Dispatching", "False")
    scene.patch_host(manifest, {"data": {"key": "other"}})
    yield scene.on_host(manifest, lambda live: live["data"] == {"key": "other"})


@case
def work_resumed_after_drift(scene: Scene) -> Play:
    manifest = shapes.config_map(scene)
    work = scene.work(manifest)
    yield scene.work_applied(work)
    yield scene.work_reports(work, 1)
    scene.update(work, {"spec": {"suspendDispatching": True}})
    yield scene.work_has(work, "Dispatching", "False")
    scene.patch_host(manifest, {"data": {"key": "other"}})
    yield scene.on_host(manifest, lambda live: live["data"] == {"key": "other"})
    scene.update(work, {"spec": {"suspendDispatching": False}})
    yield scene.on_host(manifest, lambda live: live["data"] == {"key": "value"})


@case
def suspended_status_reported(scene: Scene) -> Play:
    manifest = shapes.ingress(scene)
    work = scene.work(manifest)
    yield scene.work_reports(work, 1)
    scene.update(work, {"spec": {"suspendDispatching": True}})
    yield scene.work_has(work, "Dispatching", "False")
    scene.report_on_host(manifest, loadBalancer={"ingress": [{"ip": "192.0.2.9"}]})
    yield scene.work_gets(work, lambda found: "192.0.2.9" in str(found["status"]))


# --- deleted, preserved -------------------------------------------------------------------


@case
def work_deleted(scene: Scene) -> Play:
    manifest = shapes.config_map(scene)
    work = scene.work(manifest)
    yield scene.work_applied(work)
    yield scene.on_host(manifest)
    scene.remove(work)
    yield scene.work_absent(work)
    yield scene.not_on_host(manifest)


@case
def work_deleted_while_suspended(scene: Scene) -> Play:
    manifest = shapes.config_map(scene)
    work = scene.work(manifest)
    yield scene.work_applied(work)
    yield scene.on_host(manifest)
    scene.update(work, {"spec": {"suspendDispatching": True}})
    yield scene.work_has(work, "Dispatching", "False")
    scene.remove(work)
    yield scene.work_absent(work)
    yield scene.not_on_host(manifest)


@case
def work_deleted_without_finalizer(scene: Scene) -> Play:
    manifest = shapes.config_map(scene)
    work = hand_written(scene.lane.cluster, scene.name, manifest)
    del work["metadata"]["finalizers"]
    work = scene.create_work(work)
    yield scene.work_applied(work)
    yield scene.on_host(manifest)
    scene.remove(work)
    yield scene.work_absent(work)


@case
def work_deleted_that_never_worked(scene: Scene) -> Play:
    work = scene.work(_invalid(scene))
    yield scene.work_applied(work, "False")
    scene.remove(work)
    yield scene.work_absent(work)


@case
def work_deleted_with_object_gone(scene: Scene) -> Play:
    manifest = shapes.config_map(scene)
    work = scene.work(manifest, suspendDispatching=True)
    yield scene.work_has(work, "Dispatching", "False")
    scene.remove(work)
    yield scene.work_absent(work)


@case
def work_of_unmanaged_object_deleted(scene: Scene) -> Play:
    """What lost the label of Karmada is not deleted with its Work."""
    manifest = shapes.config_map(scene)
    work = scene.work(manifest)
    yield scene.work_applied(work)
    yield scene.work_reports(work, 1)
    scene.update(work, {"spec": {"suspendDispatching": True}})
    yield scene.work_has(work, "Dispatching", "False")
    scene.patch_host(manifest, {"metadata": {"labels": {"karmada.io/managed": None}}})
    yield scene.on_host(
        manifest, lambda live: "karmada.io/managed" not in (live["metadata"].get("labels") or {})
    )
    scene.remove(work)
    yield scene.work_absent(work)


@case
def work_preserved(scene: Scene) -> Play:
    manifest = shapes.config_map(scene)
    manifest["metadata"]["labels"] = {"kept": "yes"}
    work = scene.work(manifest, preserveResourcesOnDeletion=True)
    yield scene.work_applied(work)
    yield scene.on_host(manifest)
    scene.remove(work)
    yield scene.work_absent(work)
    yield scene.on_host(
        manifest, lambda live: "karmada.io/managed" not in live["metadata"]["labels"]
    )


@case
def propagated_and_preserved(scene: Scene) -> Play:
    template = shapes.deployment(scene, 0)
    scene.propagate(template, preserveResourcesOnDeletion=True)
    yield scene.applied(template)
    scene.remove(template)
    yield scene.no_work_of(template)
    yield scene.on_host(
        template, lambda live: "karmada.io/managed" not in live["metadata"]["labels"]
    )


@case
def preserved_object_vanished(scene: Scene) -> Play:
    """Karmada's agent waits for ever for an object that is gone."""
    manifest = shapes.config_map(scene)
    work = scene.work(manifest, preserveResourcesOnDeletion=True)
    yield scene.work_applied(work)
    yield scene.on_host(manifest)
    scene.update(work, {"spec": {"suspendDispatching": True}})
    yield scene.work_has(work, "Dispatching", "False")
    scene.delete_on_host(manifest)
    yield scene.not_on_host(manifest)
    scene.remove(work)
    yield scene.is_marked_or_deleted(work)


@case
def object_of_work_deleted_on_host(scene: Scene) -> Play:
    """A Work with a name of its own is not found again by Karmada's rule of names."""
    manifest = shapes.config_map(scene)
    work = scene.work(manifest)
    yield scene.work_applied(work)
    yield scene.work_reports(work, 1)
    scene.delete_on_host(manifest)
