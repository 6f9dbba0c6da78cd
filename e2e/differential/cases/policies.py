"""What policies of the hub do to what arrives: overrides, suspension, removal, dependencies."""

from typing import Any

from e2e.differential.cases import shapes
from e2e.differential.cases.registry import case
from e2e.differential.scene import Play, Scene
from e2e.lab import objects
from e2e.lab.api import Object

_POLICY_API = "policy.karmada.io/v1alpha1"


def _override(scene: Scene, template: Object, **overriders: Any) -> Object:
    """Return an OverridePolicy for one template in the lane's Cluster."""
    rule = {
        "targetCluster": objects.to_clusters(scene.lane.cluster)["clusterAffinity"],
        "overriders": overriders,
    }
    spec = {"resourceSelectors": [_selector(template)], "overrideRules": [rule]}
    return shapes.manifest(scene, _POLICY_API, "OverridePolicy", spec=spec)


def _selector(template: Object) -> Object:
    name = template["metadata"]["name"]
    return {"apiVersion": template["apiVersion"], "kind": template["kind"], "name": name}


@case
def override_of_image(scene: Scene) -> Play:
    template = shapes.deployment(scene, 0)
    change = {"component": "Registry", "operator": "replace", "value": "edge.example"}
    scene.lane.hub.create(_override(scene, template, imageOverrider=[change]))
    scene.propagate(template)
    yield scene.applied(template)


@case
def override_of_text(scene: Scene) -> Play:
    template = shapes.config_map(scene)
    change = {"path": "/data/key", "operator": "replace", "value": "here"}
    scene.lane.hub.create(_override(scene, template, plaintext=[change]))
    scene.propagate(template)
    yield scene.on_host(template, lambda live: live["data"] == {"key": "here"})


@case
def override_of_labels(scene: Scene) -> Play:
    template = shapes.config_map(scene)
    change = {"operator": "add", "value": {"site": "edge"}}
    scene.lane.hub.create(_override(scene, template, labelsOverrider=[change]))
    scene.propagate(template)
    yield scene.on_host(template, lambda live: live["metadata"]["labels"].get("site") == "edge")


@case
def override_removed(scene: Scene) -> Play:
    template = shapes.config_map(scene)
    change = {"path": "/data/key", "operator": "replace", "value": "here"}
    policy = _override(scene, template, plaintext=[change])
    scene.lane.hub.create(policy)
    scene.propagate(template)
    yield scene.on_host(template, lambda live: live["data"] == {"key": "here"})
    scene.remove(policy)
    yield scene.on_host(template, lambda live: live["data"] == {"key": "value"})


@case
def override_for_all_namespaces(scene: Scene) -> Play:
    template = shapes.config_map(scene)
    policy = _override(
        scene, template, plaintext=[{"path": "/data/key", "operator": "replace", "value": "here"}]
    )
    policy["kind"] = "ClusterOverridePolicy"
    policy["metadata"] = {"name": scene.wide_name}
    policy["spec"]["resourceSelectors"][0]["namespace"] = scene.namespace
    scene.lane.hub.create(policy)
    scene.propagate(template)
    yield scene.on_host(template, lambda live: live["data"] == {"key": "here"})


@case
def policy_removed(scene: Scene) -> Play:
    """What was propagated stays where it is."""
    template = shapes.config_map(scene)
    policy = scene.propagate(template)
    yield scene.applied(template)
    scene.remove(policy)

    def look() -> None:
        found = scene.lane.on_hub.find(template)
        assert found is not None
        labels = found["metadata"].get("labels") or {}
        assert "propagationpolicy.karmada.io/permanent-id" not in labels

    yield look


@case
def policy_that_suspends(scene: Scene) -> Play:
    template = shapes.config_map(scene)
    scene.propagate(template, suspension={"dispatching": True})
    yield scene.has_condition(template, "Dispatching")


@case
def policy_that_suspends_for_a_while(scene: Scene) -> Play:
    template = shapes.config_map(scene)
    policy = scene.propagate(template, suspension={"dispatching": True})
    yield scene.has_condition(template, "Dispatching")
    scene.update(policy, {"spec": {"suspension": {"dispatching": False}}})
    yield scene.applied(template)


@case
def policy_for_all_namespaces(scene: Scene) -> Play:
    template = shapes.config_map(scene)
    scene.lane.hub.create(template)
    scene.compare(template)
    selector = _selector(template) | {"namespace": scene.namespace}
    placement = objects.to_clusters(scene.lane.cluster)
    scene.lane.hub.create(
        {
            "apiVersion": _POLICY_API,
            "kind": "ClusterPropagationPolicy",
            "metadata": {"name": scene.wide_name},
            "spec": {"resourceSelectors": [selector], "placement": placement},
        }
    )
    yield scene.applied(template)


@case
def dependencies_follow(scene: Scene) -> Play:
    settings, account, claim = (
        shapes.config_map(scene),
        shapes.service_account(scene),
        shapes.volume_claim(scene),
    )
    secret = shapes.secret(scene)
    template = shapes.unplaced(shapes.deployment(scene, 1), "spec", "template", "spec")
    pod = template["spec"]["template"]["spec"]
    pod["serviceAccountName"] = scene.name
    pod["volumes"] = [
        {"name": "settings", "configMap": {"name": scene.name}},
        {"name": "data", "persistentVolumeClaim": {"claimName": scene.name}},
    ]
    pod["containers"][0]["envFrom"] = [{"secretRef": {"name": scene.name}}]
    for dependency in (settings, account, claim, secret):
        scene.lane.hub.create(dependency)
        scene.compare(dependency)
    scene.propagate(template, propagateDeps=True)
    for each in (template, settings, account, claim, secret):
        yield scene.applied(each)


@case
def dependency_updated(scene: Scene) -> Play:
    settings = shapes.config_map(scene)
    template = shapes.deployment(scene, 0)
    volume = {"name": "settings", "configMap": {"name": scene.name}}
    template["spec"]["template"]["spec"]["volumes"] = [volume]
    scene.lane.hub.create(settings)
    scene.compare(settings)
    scene.propagate(template, propagateDeps=True)
    yield scene.applied(settings)
    scene.update(settings, {"data": {"key": "new"}})
    yield scene.on_host(settings, lambda live: live["data"] == {"key": "new"})
