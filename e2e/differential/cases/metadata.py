"""Labels and annotations of the template, of Karmada and of the host, merged (contract 5.5)."""

import copy

from e2e.differential.cases import shapes
from e2e.differential.cases.registry import case
from e2e.differential.scene import Play, Scene
from e2e.lab.api import Object

_FIELDS = ("labels", "annotations")


def _marked(scene: Scene, **keys: str) -> Object:
    manifest = shapes.config_map(scene)
    manifest["metadata"] |= {field: dict(keys) for field in _FIELDS}
    return manifest


def _mark(scene: Scene, work: Object, **keys: str | None) -> None:
    """Set keys of the manifest of a Work, as a changed template does; None removes them."""
    (manifest,) = copy.deepcopy(
        scene.lane.hub.get(scene.path(work))["spec"]["workload"]["manifests"]
    )
    for field in _FIELDS:
        found = manifest["metadata"][field]
        found |= {key: value for key, value in keys.items() if value is not None}
        for key in [key for key, value in keys.items() if value is None]:
            found.pop(key, None)
    scene.update(work, {"spec": {"workload": {"manifests": [manifest]}}})


def _mark_host(scene: Scene, manifest: Object, **keys: str | None) -> None:
    scene.patch_host(manifest, {"metadata": dict.fromkeys(_FIELDS, keys)})


def _labels(live: Object) -> Object:
    found: Object = live["metadata"].get("labels") or {}
    return found


@case
def label_removed_upstream(scene: Scene) -> Play:
    manifest = _marked(scene, one="1", two="2")
    work = scene.work(manifest)
    yield scene.on_host(manifest, lambda live: _labels(live).get("one") == "1")
    _mark(scene, work, one=None)
    yield scene.on_host(manifest, lambda live: "one" not in _labels(live))


@case
def label_added_upstream(scene: Scene) -> Play:
    manifest = _marked(scene, one="1")
    work = scene.work(manifest)
    yield scene.on_host(manifest)
    _mark(scene, work, two="2")
    yield scene.on_host(manifest, lambda live: _labels(live).get("two") == "2")


@case
def label_added_on_host(scene: Scene) -> Play:
    """It stays, also through an update."""
    manifest = _marked(scene, one="1")
    work = scene.work(manifest)
    yield scene.on_host(manifest)
    _mark_host(scene, manifest, theirs="x")
    yield scene.on_host(manifest, lambda live: "theirs" in _labels(live))
    _mark(scene, work, two="2")
    yield scene.on_host(manifest, lambda live: _labels(live).get("two") == "2")


@case
def label_changed_on_host(scene: Scene) -> Play:
    manifest = _marked(scene, one="1")
    work = scene.work(manifest)
    yield scene.work_reports(work, 1)
    _mark_host(scene, manifest, one="other")
    yield scene.on_host(manifest, lambda live: _labels(live)["one"] == "1")


@case
def label_removed_on_host(scene: Scene) -> Play:
    manifest = _marked(scene, one="1")
    work = scene.work(manifest)
    yield scene.work_reports(work, 1)
    _mark_host(scene, manifest, one=None)
    yield scene.on_host(manifest, lambda live: _labels(live).get("one") == "1")


@case
def label_of_host_taken_over_upstream(scene: Scene) -> Play:
    """A key that the host added and the template then brings is the template's."""
    manifest = _marked(scene, one="1")
    work = scene.work(manifest)
    yield scene.on_host(manifest)
    _mark_host(scene, manifest, two="host")
    yield scene.on_host(manifest, lambda live: _labels(live).get("two") == "host")
    _mark(scene, work, two="hub")
    yield scene.on_host(manifest, lambda live: _labels(live)["two"] == "hub")


@case
def finalizer_of_host_kept(scene: Scene) -> Play:
    manifest = _marked(scene, one="1")
    work = scene.work(manifest)
    yield scene.on_host(manifest)
    scene.patch_host(manifest, {"metadata": {"finalizers": ["differential.example/keep"]}})
    _mark(scene, work, two="2")
    yield scene.on_host(manifest, lambda live: _labels(live).get("two") == "2")


@case
def managed_label_removed_on_host(scene: Scene) -> Play:
    """Who takes Karmada's label off takes the object away from Karmada."""
    manifest = _marked(scene, one="1")
    work = scene.work(manifest)
    yield scene.work_reports(work, 1)
    scene.patch_host(manifest, {"metadata": {"labels": {"karmada.io/managed": None}}})
    yield scene.on_host(manifest, lambda live: "karmada.io/managed" not in _labels(live))


@case
def mark_of_work_removed_on_host(scene: Scene) -> Play:
    """Karmada's agent sees no more of an object that lost the name of its Work."""
    manifest = _marked(scene, one="1")
    work = scene.work(manifest)
    yield scene.work_reports(work, 1)
    keys = ("work.karmada.io/namespace", "virtualcluster.kubeedge.io/work")
    scene.patch_host(manifest, {"metadata": {"annotations": dict.fromkeys(keys)}})
    scene.patch_host(manifest, {"data": {"key": "other"}})


@case
def deployment_label_added_on_host(scene: Scene) -> Play:
    """An object with a generation is told apart by its labels too."""
    manifest = shapes.unplaced(shapes.deployment(scene), "spec", "template", "spec")
    work = scene.work(manifest)
    yield scene.work_reports(work, 1)
    scene.patch_host(manifest, {"metadata": {"labels": {"theirs": "x"}}})
    yield scene.on_host(manifest, lambda live: "theirs" in _labels(live))
