"""Which write makes the live object right."""

import copy
from typing import Any

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.rules import apply_plan
from karmada_vc_agent.work.rules.apply_plan import ForeignError
from tests.fakes import built_in_rules
from tests.fakes.planned import plan_apply, plan_release

MANAGED_LABELS = "resourcetemplate.karmada.io/managed-labels"
MANAGED_ANNOTATIONS = "resourcetemplate.karmada.io/managed-annotations"
CLUSTER = "virtualcluster.kubeedge.io/cluster"
WORK = "virtualcluster.kubeedge.io/work"


def _no_retain(desired: Object, _live: Object) -> Object:
    return desired


def _desired(**changes: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "cfg",
            "namespace": "edge-v-vc1",
            "labels": {"karmada.io/managed": "true", CLUSTER: "vc1", "app": "web"},
            "annotations": {
                WORK: "karmada-es-vc1/cfg",
                MANAGED_LABELS: "app,karmada.io/managed",
                MANAGED_ANNOTATIONS: f"{MANAGED_ANNOTATIONS},{MANAGED_LABELS}",
            },
        },
        "data": {"a": "1"},
        **changes,
    }


def _live(desired: Object) -> Object:
    live = copy.deepcopy(desired)
    live["metadata"] |= {
        "resourceVersion": "41",
        "uid": "u",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{}],
        "generation": 4,
    }
    return live


def test_a_missing_object_is_created_from_the_manifest() -> None:
    assert plan_apply(_desired(), None, _no_retain) == _desired()


def test_an_equal_object_is_kept() -> None:
    desired = _desired()
    assert plan_apply(desired, _live(desired), _no_retain) is None


def test_what_others_added_on_the_host_is_kept() -> None:
    desired = _desired()
    live = _live(desired)
    live["metadata"]["labels"]["added-on-host"] = "1"
    live["metadata"]["annotations"]["added-on-host"] = "1"
    live["metadata"]["finalizers"] = ["host/f"]
    assert apply_plan.needs_update(desired, live, "gen:4")
    assert plan_apply(desired, live, _no_retain) is None


def test_changed_content_replaces_the_object_with_its_live_metadata() -> None:
    live = _live(_desired())
    live["metadata"]["finalizers"] = ["host/f"]
    live["metadata"]["ownerReferences"] = [{"name": "o"}]
    live["metadata"]["labels"]["added-on-host"] = "1"
    plan = plan_apply(_desired(data={"a": "2"}), live, _no_retain)
    assert plan is not None
    assert plan["data"] == {"a": "2"}
    assert plan["metadata"] == {
        "name": "cfg",
        "namespace": "edge-v-vc1",
        "uid": "u",
        "resourceVersion": "41",
        "finalizers": ["host/f"],
        "ownerReferences": [{"name": "o"}],
        "labels": {**_desired()["metadata"]["labels"], "added-on-host": "1"},
        "annotations": _desired()["metadata"]["annotations"],
    }


def test_a_label_removed_upstream_is_removed_on_the_host() -> None:
    live = _live(_desired())
    desired = _desired()
    del desired["metadata"]["labels"]["app"]
    plan = plan_apply(desired, live, _no_retain)
    assert plan is not None
    assert "app" not in plan["metadata"]["labels"]


def test_a_default_of_the_server_is_a_difference_as_in_karmada() -> None:
    desired = _desired()
    live = _live(desired) | {"immutable": False}
    plan = plan_apply(desired, live, _no_retain)
    assert plan is not None
    assert not apply_plan.needs_update(desired, live, apply_plan.version_of(live))


def test_retain_gets_the_merged_object_and_its_result_is_planned() -> None:
    seen: list[Object] = []

    def retain(desired: Object, live: Object) -> Object:
        seen.append(desired)
        return {**desired, "data": live["data"]}

    live = _live(_desired())
    assert plan_apply(_desired(data={"a": "2"}), live, retain) is None
    assert seen[0]["metadata"]["resourceVersion"] == "41"
    assert seen[0]["data"] == {"a": "2"}


def test_an_object_without_the_managed_label_is_foreign() -> None:
    live = _live(_desired())
    live["metadata"]["labels"] = {}
    with pytest.raises(ForeignError):
        plan_apply(_desired(), live, _no_retain)


def test_an_object_of_another_virtual_cluster_is_foreign_with_its_owner() -> None:
    live = _live(_desired())
    live["metadata"]["labels"][CLUSTER] = "vc2"
    desired = _desired()
    desired["metadata"]["annotations"]["work.karmada.io/conflict-resolution"] = "overwrite"
    with pytest.raises(ForeignError):
        plan_apply(desired, live, _no_retain)


def test_overwrite_takes_an_object_over() -> None:
    desired = _desired()
    desired["metadata"]["annotations"]["work.karmada.io/conflict-resolution"] = "overwrite"
    live = _live(_desired())
    live["metadata"]["labels"] = {"theirs": "1"}
    plan = plan_apply(desired, live, _no_retain)
    assert plan is not None
    assert plan["metadata"]["labels"] == {**desired["metadata"]["labels"], "theirs": "1"}


def test_a_service_with_its_host_address_is_kept() -> None:
    desired = _desired(kind="Service", data=None, spec={"ports": [{"port": 80}]})
    live = _live(desired)
    live["spec"] = {**desired["spec"], "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}
    assert plan_apply(desired, live, built_in_rules.retain) is None


def test_a_changed_service_keeps_its_host_address() -> None:
    desired = _desired(kind="Service", data=None, spec={"ports": [{"port": 80}]})
    live = _live(desired)
    live["spec"] = {"ports": [{"port": 81}], "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}
    plan = plan_apply(desired, live, built_in_rules.retain)
    assert plan is not None
    assert plan["spec"] == {"ports": [{"port": 80}], "clusterIP": "10.0.0.1"}


def test_a_deployment_whose_revision_the_host_counts_is_kept() -> None:
    desired = _desired(apiVersion="apps/v1", kind="Deployment", data=None, spec={"replicas": 1})
    live = _live(desired) | {"status": {"replicas": 1}}
    live["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "2"
    assert plan_apply(desired, live, built_in_rules.retain) is None


def test_planning_does_not_change_its_input() -> None:
    desired, live = _desired(data={"a": "2"}), _live(_desired())
    before = copy.deepcopy((desired, live))
    plan_apply(desired, live, _no_retain)
    plan_release(desired, live, _no_retain)
    apply_plan.needs_update(desired, live, "gen:4")
    assert (desired, live) == before


def test_release_takes_every_mark_off() -> None:
    live = _live(_desired())
    live["metadata"]["labels"]["added-on-host"] = "1"
    plan = plan_release(_desired(), live, _no_retain)
    assert plan is not None
    assert plan["metadata"] == {
        "name": "cfg",
        "namespace": "edge-v-vc1",
        "uid": "u",
        "resourceVersion": "41",
        "labels": {"app": "web", "added-on-host": "1"},
        "annotations": {},
    }
    assert plan["data"] == {"a": "1"}


def test_release_leaves_foreign_objects_alone() -> None:
    live = _live(_desired())
    live["metadata"]["labels"][CLUSTER] = "vc2"
    with pytest.raises(ForeignError):
        plan_release(_desired(), live, _no_retain)


@pytest.mark.parametrize(
    ("metadata", "version"),
    [
        ({"generation": 3, "resourceVersion": "9"}, "gen:3"),
        ({"generation": 0, "resourceVersion": "9"}, "rv:9"),
        ({"resourceVersion": "9"}, "rv:9"),
        ({}, "rv:"),
    ],
)
def test_version_is_the_generation_where_there_is_one(metadata: Object, version: str) -> None:
    assert apply_plan.version_of({"metadata": metadata}) == version


def test_an_unknown_version_needs_an_update() -> None:
    live = _live(_desired())
    assert apply_plan.needs_update(_desired(), live, None)
    assert apply_plan.needs_update(_desired(), live, "gen:3")
    assert not apply_plan.needs_update(_desired(), live, "gen:4")


@pytest.mark.parametrize(
    ("field", "value"), [("name", "other"), ("namespace", "other"), ("labels", {"only": "this"})]
)
def test_changed_names_or_labels_need_an_update_where_there_is_a_generation(
    field: str, value: Any
) -> None:
    live = _live(_desired())
    live["metadata"][field] = value
    assert apply_plan.needs_update(_desired(), live, "gen:4")
    del live["metadata"]["generation"]
    assert not apply_plan.needs_update(_desired(), live, "rv:41")


def test_no_labels_and_empty_labels_are_the_same() -> None:
    desired: Object = {"metadata": {"name": "a"}}
    live: Object = {"metadata": {"name": "a", "labels": {}, "generation": 1}}
    assert not apply_plan.needs_update(desired, live, "gen:1")
