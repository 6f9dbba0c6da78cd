"""Which live objects may be written."""

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.rules import ownership

MANAGED = "karmada.io/managed"
CLUSTER = "virtualcluster.kubeedge.io/cluster"
CONFLICT = "work.karmada.io/conflict-resolution"


def _object(labels: dict[str, str] | None = None, conflict: str | None = None) -> Object:
    annotations = {CONFLICT: conflict} if conflict is not None else {}
    return {"metadata": {"labels": labels or {}, "annotations": annotations}}


@pytest.mark.parametrize(
    ("live_labels", "conflict", "expected"),
    [
        ({MANAGED: "true"}, None, True),
        ({MANAGED: "true"}, "abort", True),
        ({MANAGED: "true", CLUSTER: "vc1"}, None, True),
        ({}, None, False),
        ({}, "abort", False),
        ({}, "", False),
        ({MANAGED: "false"}, None, False),
        ({}, "overwrite", True),
        ({CLUSTER: "vc1"}, "overwrite", True),
        ({MANAGED: "true", CLUSTER: "vc2"}, None, False),
        ({MANAGED: "true", CLUSTER: "vc2"}, "overwrite", False),
        ({CLUSTER: "vc2"}, "overwrite", False),
    ],
)
def test_update_is_allowed_as_in_karmada_but_never_across_virtual_clusters(
    live_labels: dict[str, str], conflict: str | None, expected: bool
) -> None:
    desired = _object({CLUSTER: "vc1"}, conflict)
    assert ownership.may_replace(desired, _object(live_labels)) is expected


def test_conflict_resolution_of_the_live_object_does_not_count() -> None:
    live = _object({}, "overwrite")
    assert not ownership.may_replace(_object({CLUSTER: "vc1"}), live)


@pytest.mark.parametrize(
    ("live_labels", "expected"),
    [
        ({MANAGED: "true"}, False),
        ({MANAGED: "true", CLUSTER: "vc1"}, True),
        ({MANAGED: "true", CLUSTER: "vc2"}, False),
        ({CLUSTER: "vc1"}, False),
        ({}, False),
    ],
)
def test_delete_needs_the_managed_label_and_the_same_virtual_cluster(
    live_labels: dict[str, str], expected: bool
) -> None:
    desired = _object({CLUSTER: "vc1"}, "overwrite")
    assert ownership.may_delete(desired, _object(live_labels)) is expected


def test_object_of_another_virtual_cluster_is_never_replaced() -> None:
    live = _object({CLUSTER: "vc2"})
    assert not ownership.may_replace(_object({CLUSTER: "vc1"}, "overwrite"), live)
    assert not ownership.may_replace(_object({}, "overwrite"), live)
    assert ownership.may_replace(_object({CLUSTER: "vc2"}, "overwrite"), live)
    assert ownership.may_replace(_object({CLUSTER: "vc1"}, "overwrite"), live, ("vc2",))
    assert ownership.may_replace(_object({CLUSTER: "vc2"}, "overwrite"), _object({}))


def test_conflict_text_is_that_of_karmada() -> None:
    assert ownership.conflict_text("ConfigMap", "edge", "app-cfg", "vc1") == (
        "resource(kind=ConfigMap, edge/app-cfg) already exists in the cluster vc1 and the "
        "work.karmada.io/conflict-resolution strategy value is empty, Karmada will not manage "
        "this resource"
    )


def test_conflict_text_keeps_the_slash_of_cluster_scoped_objects() -> None:
    text = ownership.conflict_text("ClusterRole", "", "reader", "vc1")
    assert text.startswith("resource(kind=ClusterRole, /reader) already exists")


def test_what_a_former_name_has_is_its_own() -> None:
    desired, live = _object({CLUSTER: "vc1"}), _object({MANAGED: "true", CLUSTER: "vc0"})
    assert not ownership.may_replace(desired, live)
    assert ownership.may_replace(desired, live, ("vc0",))
    assert not ownership.may_delete(desired, live), "not before it was taken over"
