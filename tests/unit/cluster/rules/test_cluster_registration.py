"""The Cluster to register, and how an existing one must change (contract 1.1, 1.2)."""

from typing import Any

import pytest

from karmada_vc_agent.cluster.rules.cluster_objects import (
    cluster_changes,
    new_cluster,
    standard_models,
)
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.vocabulary import HOST_LABEL

MAX = "9223372036854775807"
CORDON = {"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}
EDGE = {"key": "edge", "effect": "NoSchedule"}


def model(grade: int, low: Any, high: Any) -> Object:
    return {"grade": grade, "ranges": [{"name": "cpu", "min": low, "max": high}]}


def existing(labels: dict[str, str] | None = None, **spec: Any) -> Object:
    metadata: Object = {"name": "branch-a"}
    if labels is not None:
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": {"id": "id", "syncMode": "Pull", **spec}}


def changes(vc: VirtualCluster, cluster: Object, *, settings_changed: bool = False) -> Object:
    return cluster_changes(cluster, vc, settings_changed=settings_changed)


def test_cluster_names_only_what_is_set() -> None:
    assert new_cluster(VirtualCluster("branch-a"), "id") == {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "branch-a"},
        "spec": {"id": "id", "syncMode": "Pull"},
    }


def test_cluster_that_was_just_made_needs_no_change() -> None:
    vc = VirtualCluster(
        "branch-a",
        cluster_labels={"tier": "edge"},
        provider="acme",
        region="south",
        zones=("s1",),
        taints=(EDGE,),
        resource_models=(model(1, "1", "2"), model(0, "0", "1")),
    )
    assert changes(vc, new_cluster(vc, "id"), settings_changed=True) == {}


@pytest.mark.parametrize(
    ("fields", "spec", "expected"),
    [
        ({"region": "south"}, {}, {"region": "south"}),
        ({"region": "south"}, {"region": "north"}, {"region": "south"}),
        ({}, {"region": "north"}, {}),
        ({"zones": ("a", "b")}, {"zones": ["b", "a"]}, {"zones": ["a", "b"]}),
        ({"zones": ("a",)}, {"zones": ["a"]}, {}),
        ({}, {"zones": ["a"]}, {}),
    ],
)
def test_description_is_overlaid_and_never_cleared(
    fields: dict[str, Any], spec: Object, expected: Object
) -> None:
    found = changes(VirtualCluster("branch-a", **fields), existing(**spec))
    assert found == ({"spec": expected} if expected else {})


def test_labels_of_others_stay_out_of_the_patch() -> None:
    vc = VirtualCluster("branch-a", cluster_labels={"tier": "edge"})
    assert changes(vc, existing({"mine": "x"})) == {"metadata": {"labels": {"tier": "edge"}}}
    assert changes(vc, existing({"mine": "x", "tier": "edge"})) == {}


def test_cluster_names_its_host() -> None:
    labels = new_cluster(VirtualCluster("branch-a"), "id", host="one")["metadata"]["labels"]
    assert labels == {HOST_LABEL: "one"}


def test_host_is_filled_in_and_left_to_who_wrote_another() -> None:
    vc = VirtualCluster("branch-a", cluster_labels={"tier": "edge"})
    edge = {"tier": "edge"}
    found = cluster_changes(existing(edge), vc, host="one", settings_changed=True)
    assert found == {"metadata": {"labels": {HOST_LABEL: "one", **edge}}}
    theirs = existing({HOST_LABEL: "theirs", **edge})
    assert cluster_changes(theirs, vc, host="one", settings_changed=True) == {}


def test_host_of_the_settings_wins() -> None:
    vc = VirtualCluster("branch-a", cluster_labels={HOST_LABEL: "plant"})
    plant = {"metadata": {"labels": {HOST_LABEL: "plant"}}}
    assert new_cluster(vc, "id", host="one")["metadata"]["labels"] == {HOST_LABEL: "plant"}
    for labels in ({}, {HOST_LABEL: "theirs"}):
        found = cluster_changes(existing(labels), vc, host="one", settings_changed=False)
        assert found == plant


def test_taint_that_an_operator_took_away_stays_away() -> None:
    vc = VirtualCluster("branch-a", taints=(EDGE,))
    assert changes(vc, existing()) == {}


def test_taints_of_changed_settings_join_those_that_are_there() -> None:
    vc = VirtualCluster("branch-a", taints=(EDGE,))
    found = changes(vc, existing(taints=[CORDON]), settings_changed=True)
    assert found == {"spec": {"taints": [CORDON, EDGE]}}


def test_taint_of_equal_key_and_effect_is_not_added_twice() -> None:
    vc = VirtualCluster("branch-a", taints=({**EDGE, "value": "new"},))
    assert changes(vc, existing(taints=[{**EDGE, "value": "old"}]), settings_changed=True) == {}


def test_taint_of_another_effect_is_another_taint() -> None:
    other = {**EDGE, "effect": "NoExecute"}
    vc = VirtualCluster("branch-a", taints=(other,))
    found = changes(vc, existing(taints=[EDGE]), settings_changed=True)
    assert found == {"spec": {"taints": [EDGE, other]}}


@pytest.mark.parametrize(
    "spec",
    [{}, *({"resourceModels": models} for models in ([], None, [model(0, "0", MAX)]))],
)
def test_any_models_are_right_where_none_are_set(spec: Object) -> None:
    assert changes(VirtualCluster("branch-a"), existing(**spec)) == {}


def test_models_are_put_into_the_form_in_which_the_server_keeps_them() -> None:
    vc = VirtualCluster(
        "branch-a",
        resource_models=(model(2, "2000m", 4), model(1, 1, "2"), model(0, "500m", "1000m")),
    )
    assert standard_models(vc) == [model(0, "0", "1"), model(1, "1", "2"), model(2, "2", MAX)]


def test_models_written_otherwise_are_no_change() -> None:
    vc = VirtualCluster("branch-a", resource_models=(model(0, "0", "1000m"), model(1, "1", "9")))
    kept = [model(0, "0", "1"), model(1, "1", MAX)]
    assert changes(vc, existing(resourceModels=kept)) == {}
