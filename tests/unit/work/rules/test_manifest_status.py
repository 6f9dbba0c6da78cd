"""Entries of manifestStatuses."""

import copy

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work import works
from karmada_vc_agent.work.works import ManifestStatus


def _manifest(api_version: str, kind: str, namespace: str, name: str) -> Object:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


WEB = _manifest("apps/v1", "Deployment", "edge", "web")
CONFIG = _manifest("v1", "ConfigMap", "edge", "cfg")
ROLE = _manifest("rbac.authorization.k8s.io/v1", "ClusterRole", "", "reader")
QUOTA = _manifest("v1", "ResourceQuota", "edge", "quota")


def test_an_entry_has_the_shape_of_karmada() -> None:
    assert works.manifest_status(0, WEB, {"replicas": 2}, "Unhealthy") == {
        "identifier": {
            "ordinal": 0,
            "group": "apps",
            "version": "v1",
            "kind": "Deployment",
            "resource": "",
            "namespace": "edge",
            "name": "web",
        },
        "status": {"replicas": 2},
        "health": "Unhealthy",
    }


def test_group_is_left_out_for_core_and_status_where_there_is_none() -> None:
    assert works.manifest_status(1, CONFIG, None, "Healthy") == {
        "identifier": {
            "ordinal": 1,
            "version": "v1",
            "kind": "ConfigMap",
            "resource": "",
            "namespace": "edge",
            "name": "cfg",
        },
        "health": "Healthy",
    }


def test_namespace_is_left_out_for_cluster_scoped_objects() -> None:
    identifier = works.manifest_status(0, ROLE, None, "Healthy")["identifier"]
    assert "namespace" not in identifier
    assert identifier["group"] == "rbac.authorization.k8s.io"


def test_an_object_named_twice_counts_as_the_first() -> None:
    odd: Object = {"kind": ["ConfigMap"], "metadata": "none"}
    manifests = [odd, CONFIG, WEB, copy.deepcopy(CONFIG)]
    assert works.ordinals(manifests) == [0, 1, 2, 1]
    old, new = (works.manifest_status(1, CONFIG, {"n": n}, "Healthy") for n in (1, 2))
    assert works.merge_entries(None, [old, new], manifests) == [new]


def test_an_empty_status_is_sent() -> None:
    assert works.manifest_status(0, WEB, {}, "Healthy")["status"] == {}


def test_a_quota_always_has_a_status() -> None:
    assert works.manifest_status(0, QUOTA, None, "Healthy")["status"] == {}
    assert works.manifest_status(0, QUOTA, {"hard": {}}, "Healthy")["status"] == {"hard": {}}


def test_a_quota_of_another_group_may_have_none() -> None:
    other = _manifest("example.io/v1", "ResourceQuota", "edge", "quota")
    assert "status" not in works.manifest_status(0, other, None, "Healthy")


def _entry(ordinal: int, manifest: Object, health: str = "Healthy") -> ManifestStatus:
    return works.manifest_status(ordinal, manifest, None, health)


def test_an_entry_replaces_the_one_of_its_ordinal() -> None:
    live = [_entry(0, WEB), _entry(1, CONFIG)]
    new = _entry(0, WEB, "Unhealthy")
    assert works.merge_entries(live, [new], [WEB, CONFIG]) == [new, _entry(1, CONFIG)]


def test_entries_are_ordered_by_ordinal() -> None:
    live = [_entry(2, ROLE), _entry(0, WEB)]
    updated = works.merge_entries(live, [_entry(1, CONFIG)], [WEB, CONFIG, ROLE])
    assert [entry["identifier"]["ordinal"] for entry in updated] == [0, 1, 2]


def test_the_first_entry_makes_the_list() -> None:
    assert works.merge_entries(None, [_entry(0, WEB)], [WEB]) == [_entry(0, WEB)]


def test_entries_that_name_no_manifest_any_more_are_dropped() -> None:
    live = [_entry(0, WEB), _entry(1, ROLE), _entry(5, QUOTA)]
    manifests = [WEB, CONFIG, QUOTA]
    assert works.merge_entries(live, [_entry(2, QUOTA)], manifests) == [
        _entry(0, WEB),
        _entry(2, QUOTA),
    ]


@pytest.mark.parametrize(
    "other",
    [
        _manifest("apps/v1beta1", "Deployment", "edge", "web"),
        _manifest("apps/v1", "StatefulSet", "edge", "web"),
        _manifest("apps/v1", "Deployment", "other", "web"),
        _manifest("apps/v1", "Deployment", "edge", "other"),
    ],
)
def test_an_entry_stays_only_with_its_very_manifest(other: Object) -> None:
    assert works.merge_entries([_entry(0, WEB)], [], [WEB]) == [_entry(0, WEB)]
    assert works.merge_entries([_entry(0, WEB)], [], [other]) == []


def test_input_is_not_modified() -> None:
    live = [_entry(1, CONFIG)]
    before = copy.deepcopy(live)
    works.merge_entries(live, [_entry(0, WEB)], [WEB, CONFIG])
    assert live == before
