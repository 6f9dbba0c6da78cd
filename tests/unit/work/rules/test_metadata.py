"""Merging of labels and annotations."""

import copy

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.rules import ownership

MANAGED_LABELS = "resourcetemplate.karmada.io/managed-labels"
MANAGED_ANNOTATIONS = "resourcetemplate.karmada.io/managed-annotations"


def _object(labels: dict[str, str] | None, annotations: dict[str, str] | None = None) -> Object:
    return {"metadata": {"labels": labels, "annotations": annotations}}


RECORDED_DESIRED = _object({"keep": "d"}, {"x": "1"})
RECORDED_LIVE = _object(
    {"keep": "o", "member": "1", "gone": "1"},
    {
        MANAGED_LABELS: "gone,keep",
        MANAGED_ANNOTATIONS: f"old,{MANAGED_LABELS},{MANAGED_ANNOTATIONS}",
        "old": "1",
        "mem": "2",
    },
)


def test_labels_merge_as_recorded_from_karmada() -> None:
    merged = ownership.merge_labels(RECORDED_DESIRED, RECORDED_LIVE)
    assert merged == {"keep": "d", "member": "1"}


def test_annotations_merge_as_recorded_from_karmada() -> None:
    merged = ownership.merge_annotations(RECORDED_DESIRED, RECORDED_LIVE)
    assert merged == {"x": "1", "mem": "2"}


def test_merging_does_not_change_its_input() -> None:
    desired, live = copy.deepcopy(RECORDED_DESIRED), copy.deepcopy(RECORDED_LIVE)
    ownership.merge_metadata(desired, live)
    assert (desired, live) == (RECORDED_DESIRED, RECORDED_LIVE)


def test_all_live_labels_are_kept_without_a_managed_list() -> None:
    assert ownership.merge_labels(_object({"a": "1"}), _object({"b": "2"})) == {"a": "1", "b": "2"}


def test_equal_labels_give_a_new_dict() -> None:
    desired = _object({"a": "1"})
    merged = ownership.merge_labels(desired, _object({"a": "1"}))
    assert merged == {"a": "1"}
    assert merged is not desired["metadata"]["labels"]


def test_live_version_finalizers_and_owners_replace_those_of_the_manifest() -> None:
    desired: Object = {"metadata": {"name": "a", "finalizers": ["mine"], "ownerReferences": [{}]}}
    live: Object = {
        "metadata": {"name": "a", "resourceVersion": "7", "finalizers": ["theirs"], "uid": "u"}
    }
    merged = ownership.merge_metadata(desired, live)
    kept = {"uid": "u", "resourceVersion": "7", "finalizers": ["theirs"]}
    assert merged == {"metadata": {"name": "a", **kept}}


def test_no_labels_field_is_created_where_there_are_no_labels() -> None:
    merged = ownership.merge_metadata({"metadata": {"name": "a"}}, {"metadata": {"name": "a"}})
    assert merged == {"metadata": {"name": "a"}}


CLAIMED_LABELS = {
    "app": "web",
    "karmada.io/managed": "true",
    "work.karmada.io/permanent-id": "1",
    "resourcebinding.karmada.io/permanent-id": "2",
    "clusterresourcebinding.karmada.io/permanent-id": "3",
    "propagationpolicy.karmada.io/permanent-id": "4",
    "clusterpropagationpolicy.karmada.io/permanent-id": "5",
    "virtualcluster.kubeedge.io/cluster": "vc1",
}
CLAIMED_ANNOTATIONS = {
    "note": "mine",
    MANAGED_LABELS: "x",
    MANAGED_ANNOTATIONS: "x",
    "resourcetemplate.karmada.io/uid": "u",
    "resourcetemplate.karmada.io/generation": "1",
    "resourcebinding.karmada.io/name": "b",
    "resourcebinding.karmada.io/namespace": "ns",
    "clusterresourcebinding.karmada.io/name": "b",
    "work.karmada.io/name": "w",
    "work.karmada.io/namespace": "karmada-es-vc1",
    "work.karmada.io/conflict-resolution": "abort",
    "propagationpolicy.karmada.io/name": "p",
    "propagationpolicy.karmada.io/namespace": "ns",
    "clusterpropagationpolicy.karmada.io/name": "cp",
    "virtualcluster.kubeedge.io/work": "karmada-es-vc1/w",
}


def test_a_released_namespaced_object_keeps_only_what_karmada_leaves() -> None:
    manifest = _object(CLAIMED_LABELS, CLAIMED_ANNOTATIONS)
    manifest["metadata"]["namespace"] = "edge"
    released = ownership.without_claims(manifest)["metadata"]
    assert released["labels"] == {
        "app": "web",
        "clusterresourcebinding.karmada.io/permanent-id": "3",
        "clusterpropagationpolicy.karmada.io/permanent-id": "5",
    }
    assert released["annotations"] == {
        "note": "mine",
        "clusterresourcebinding.karmada.io/name": "b",
        "work.karmada.io/conflict-resolution": "abort",
        "clusterpropagationpolicy.karmada.io/name": "cp",
    }


def test_a_released_cluster_scoped_object_loses_the_cluster_policy_claim() -> None:
    released = ownership.without_claims(_object(CLAIMED_LABELS, CLAIMED_ANNOTATIONS))["metadata"]
    assert released["labels"] == {
        "app": "web",
        "clusterresourcebinding.karmada.io/permanent-id": "3",
        "propagationpolicy.karmada.io/permanent-id": "4",
    }
    assert released["annotations"] == {
        "note": "mine",
        "clusterresourcebinding.karmada.io/name": "b",
        "work.karmada.io/conflict-resolution": "abort",
        "propagationpolicy.karmada.io/name": "p",
        "propagationpolicy.karmada.io/namespace": "ns",
    }


def test_releasing_does_not_change_its_input() -> None:
    manifest = _object(dict(CLAIMED_LABELS), dict(CLAIMED_ANNOTATIONS))
    before = copy.deepcopy(manifest)
    ownership.without_claims(manifest)
    assert manifest == before
