"""What is deleted or edited on the host comes back; what others add there stays."""

from collections.abc import Callable

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, path_of
from e2e.lab.lab import Lab
from e2e.lab.wait import BACKED_OFF_S, GONE_S, eventually, within
from e2e.lab.works import condition

pytestmark = pytest.mark.shared_agent

KINDS = pytest.mark.parametrize(
    "make",
    [objects.config_map, objects.deployment, objects.service],
    ids=["ConfigMap", "Deployment", "Service"],
)
EDITS: dict[str, Object] = {
    "ConfigMap": {"data": {"key": "edited", "extra": "key"}},
    "Deployment": {"spec": {"template": {"spec": {"nodeSelector": {"elsewhere": "yes"}}}}},
    "Service": {"spec": {"selector": {"app": "other"}}},
}


@KINDS
def test_object_deleted_on_the_host_returns(lab: Lab, make: Callable[[str], Object]) -> None:
    group = lab.group("a")
    lab.serve(group)
    template = make(lab.namespace())
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    before = lab.on_host(template, group)
    lab.host.delete(lab.host_path(template, group))
    eventually(lambda: _is_another(lab.on_host(template, group), before))


@KINDS
def test_an_object_edited_on_the_host_is_put_right(lab: Lab, make: Callable[[str], Object]) -> None:
    group = lab.group("a")
    lab.serve(group)
    template = make(lab.namespace())
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    path = lab.host_path(template, group)
    before = lab.host.get(path)
    edited = lab.host.patch(path, EDITS[template["kind"]])
    assert _desired_state(edited) != _desired_state(before)
    eventually(lambda: _is_as_before(lab.host.get(path), before))
    assert lab.host.get(path)["metadata"]["uid"] == before["metadata"]["uid"]


def test_replicas_changed_on_the_host_go_back_to_those_of_the_hub(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    template = objects.deployment(lab.namespace(), replicas=2)
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    path = lab.host_path(template, group)
    edited = lab.host.patch(path, {"spec": {"replicas": 5}})
    eventually(lambda: _has_replicas(lab.host.get(path), 2, edited["metadata"]["generation"]))


def test_a_recreated_object_says_so_on_the_hub(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    manifest = objects.config_map(lab.namespace())
    work = lab.create_work(group, "by-hand", manifest)
    lab.wait_applied(work)
    lab.host.delete(lab.host_path(manifest, group))
    eventually(lambda: _has_reason(lab.hub.get(work), "ReCreateSuccessful"))


def test_labels_and_annotations_that_others_add_on_the_host_stay(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    template = objects.config_map(lab.namespace())
    template["metadata"]["labels"] = {"from": "hub", "dropped": "later"}
    lab.propagate([template], group)
    lab.wait_fully_applied(template)
    path = lab.host_path(template, group)
    foreign = {"labels": {"team": "edge", "from": "host"}, "annotations": {"note": "by hand"}}
    lab.host.patch(path, {"metadata": foreign})
    lab.hub.patch(
        path_of(template), {"data": {"key": "new"}, "metadata": {"labels": {"dropped": None}}}
    )
    live = eventually(lambda: _with_data(lab.host.get(path), {"key": "new"}))
    assert live["metadata"]["labels"]["team"] == "edge"
    assert live["metadata"]["labels"]["from"] == "hub"
    assert "dropped" not in live["metadata"]["labels"]
    assert live["metadata"]["annotations"]["note"] == "by hand"


@pytest.mark.smoke
def test_a_host_namespace_deleted_by_hand_returns_with_all_that_was_in_it(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    name = lab.namespace()
    templates = [objects.deployment(name), objects.config_map(name), objects.service(name)]
    lab.propagate(templates, group)
    for template in templates:
        lab.wait_fully_applied(template)
    namespace = f"/api/v1/namespaces/{group.host_namespace(name)}"
    before = eventually(_is_taken_by_its_work, lab, namespace)
    lab.as_agent().delete(namespace)
    within(GONE_S, lambda: _is_another(lab.host.get(namespace), before))
    for template in templates:
        within(BACKED_OFF_S, lab.on_host, template, group)
    # Who needs it first makes it; then its own Work takes it over.
    within(BACKED_OFF_S, lambda: _has_marks(lab.host.get(namespace), before))
    within(BACKED_OFF_S, lambda: _has_ready(lab.on_host(templates[0], group), 2))


def test_the_node_selector_of_a_host_namespace_is_put_right(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    path = f"/api/v1/namespaces/{group.host_namespace(lab.namespace())}"
    key = "scheduler.alpha.kubernetes.io/node-selector"
    before = eventually(lambda: lab.host.get(path)["metadata"]["annotations"][key])
    lab.as_agent().patch(path, {"metadata": {"annotations": {key: "elsewhere=yes"}}})

    def look() -> None:
        assert lab.host.get(path)["metadata"]["annotations"].get(key) == before

    eventually(look)


def _is_taken_by_its_work(lab: Lab, path: str) -> Object:
    live = lab.host.get(path)
    assert live["metadata"]["annotations"]["virtualcluster.kubeedge.io/work"]
    return live


def _is_another(live: Object, before: Object) -> None:
    assert live["metadata"]["uid"] != before["metadata"]["uid"], "it was not deleted yet"
    assert not live["metadata"].get("deletionTimestamp")


def _has_marks(live: Object, before: Object) -> None:
    assert _own_marks(live["metadata"]) == _own_marks(before["metadata"])


def _desired_state(obj: Object) -> tuple[object, object]:
    return obj.get("data"), obj.get("spec")


def _is_as_before(live: Object, before: Object) -> None:
    assert _desired_state(live) == _desired_state(before)


def _has_replicas(deployment: Object, replicas: int, after_generation: int) -> None:
    assert deployment["spec"]["replicas"] == replicas
    assert deployment["metadata"]["generation"] > after_generation


def _has_ready(deployment: Object, replicas: int) -> None:
    assert deployment["status"].get("readyReplicas") == replicas, deployment["status"]


def _has_reason(work: Object, reason: str) -> None:
    assert condition(work, "Applied")["reason"] == reason, work["status"]["conditions"]


def _with_data(config_map: Object, data: dict[str, str]) -> Object:
    assert config_map["data"] == data
    return config_map


def _own_marks(metadata: Object) -> dict[str, str]:
    marks = metadata["labels"] | metadata["annotations"]
    return {key: value for key, value in marks.items() if "virtualcluster.kubeedge.io" in key}
