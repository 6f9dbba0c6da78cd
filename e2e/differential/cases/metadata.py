"""Labels and annotations of the template, of Karmada and of the host, merged (contract 5.5)."""

from e2e.differential.cases import shapes
from e2e.differential.cases.registry import case
from e2e.differential.scene import Play, Scene
from e2e.lab.api import Object


def _marked(scene: Scene, **labels: str) -> Object:
    template = shapes.config_map(scene)
    template["metadata"] |= {"labels": labels, "annotations": dict(labels)}
    return template


def _labels(live: Object) -> Object:
    found: Object = live["metadata"].get("labels") or {}
    return found


@case
def label_removed_upstream(scene: Scene) -> Play:
    template = _marked(scene, one="1", two="2")
    scene.propagate(template)
    yield scene.on_host(template, lambda live: _labels(live).get("one") == "1")
    gone = {"one": None}
    scene.update(template, {"metadata": {"labels": gone, "annotations": gone}})
    yield scene.on_host(template, lambda live: "one" not in _labels(live))


@case
def label_added_upstream(scene: Scene) -> Play:
    template = _marked(scene, one="1")
    scene.propagate(template)
    yield scene.on_host(template)
    added = {"two": "2"}
    scene.update(template, {"metadata": {"labels": added, "annotations": added}})
    yield scene.on_host(template, lambda live: _labels(live).get("two") == "2")


@case
def label_added_on_host(scene: Scene) -> Play:
    """It stays, also through an update."""
    template = _marked(scene, one="1")
    scene.propagate(template)
    yield scene.on_host(template)
    theirs = {"theirs": "x"}
    scene.patch_host(template, {"metadata": {"labels": theirs, "annotations": theirs}})
    yield scene.on_host(template, lambda live: "theirs" in _labels(live))
    scene.update(template, {"data": {"key": "new"}})
    yield scene.on_host(template, lambda live: live["data"] == {"key": "new"})


@case
def label_changed_on_host(scene: Scene) -> Play:
    template = _marked(scene, one="1")
    scene.propagate(template)
    yield scene.on_host(template)
    changed = {"one": "other"}
    scene.patch_host(template, {"metadata": {"labels": changed, "annotations": changed}})
    yield scene.on_host(template, lambda live: _labels(live)["one"] == "1")


@case
def label_removed_on_host(scene: Scene) -> Play:
    template = _marked(scene, one="1")
    scene.propagate(template)
    yield scene.on_host(template)
    gone = {"one": None}
    scene.patch_host(template, {"metadata": {"labels": gone, "annotations": gone}})
    yield scene.on_host(template, lambda live: _labels(live).get("one") == "1")


@case
def label_of_host_taken_over_upstream(scene: Scene) -> Play:
    """A key that the host added and the template then brings is the template's."""
    template = _marked(scene, one="1")
    scene.propagate(template)
    yield scene.on_host(template)
    scene.patch_host(template, {"metadata": {"labels": {"two": "host"}}})
    yield scene.on_host(template, lambda live: _labels(live).get("two") == "host")
    scene.update(template, {"metadata": {"labels": {"two": "hub"}}})
    yield scene.on_host(template, lambda live: _labels(live)["two"] == "hub")


@case
def finalizer_and_owner_of_host_kept(scene: Scene) -> Play:
    template = shapes.config_map(scene)
    scene.propagate(template)
    yield scene.on_host(template)
    scene.patch_host(template, {"metadata": {"finalizers": ["differential.example/keep"]}})
    scene.update(template, {"data": {"key": "new"}})
    yield scene.on_host(template, lambda live: live["data"] == {"key": "new"})


@case
def deployment_label_added_on_host(scene: Scene) -> Play:
    """An object with a generation is told apart by its labels too."""
    template = shapes.unplaced(shapes.deployment(scene), "spec", "template", "spec")
    scene.propagate(template)
    yield scene.reported(template, lambda entry: "status" in entry)
    scene.patch_host(template, {"metadata": {"labels": {"theirs": "x"}}})
    yield scene.on_host(template, lambda live: "theirs" in _labels(live))
