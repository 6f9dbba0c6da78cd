"""Works: what reads Works bears any shape, and one that nobody can read is not gone."""

from typing import Any

import pytest

from karmada_vc_agent.features.service_export.feature import (
    exported_services,
    multi_cluster_services,
)
from karmada_vc_agent.kube.codec import RawCodec, Unreadable
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object, annotations_of, gvk_of, key_of, labels_of
from karmada_vc_agent.work.rules.ownership import namespaces_needed
from karmada_vc_agent.work.works import (
    Works,
    applied_of,
    binding_namespace,
    compose_work_status,
    is_applied,
    is_of_cluster,
    manifests_of,
    namespaces_used,
    new_store,
)

ODD: list[Any] = [None, 7, "text", [], {}, [7], [[]], {"a": 1}, [{"a": []}], [None]]


@pytest.mark.parametrize("odd", ODD)
def test_manifests_of_any_shape_are_read(odd: Any) -> None:
    manifests = [
        odd,
        {"metadata": odd},
        {"apiVersion": odd, "kind": odd, "metadata": {"namespace": odd, "name": odd}},
        {"metadata": {"labels": odd, "annotations": odd}},
        {"metadata": {"namespace": "edge"}},
    ]
    work: Object = {
        "metadata": {"name": "w"},
        "spec": {"workload": {"manifests": manifests}},
        "status": {"conditions": odd, "manifestStatuses": odd},
    }
    assert len(manifests_of(work)) == len(manifests)
    assert "edge" in namespaces_used(work)
    assert "edge" in namespaces_needed([work])
    for manifest in manifests_of(work):
        assert all(isinstance(part, str) for part in (*gvk_of(manifest), *key_of(manifest)[1:]))
        assert isinstance(labels_of(manifest), dict)
        assert isinstance(annotations_of(manifest), dict)
    assert exported_services(work) == multi_cluster_services(work) == set()
    assert not is_applied(work)
    assert applied_of(work["status"]) is None
    assert compose_work_status(work["status"], [], [], manifests_of(work), "now") is not None
    assert not is_of_cluster({"metadata": {"ownerReferences": odd}}, {"metadata": {"uid": "u"}})


@pytest.mark.parametrize("odd", ODD)
def test_work_of_any_shape_is_read(odd: Any) -> None:
    for work in (
        {"spec": odd},
        {"spec": {"workload": odd}},
        {"spec": {"workload": {"manifests": odd}}},
    ):
        assert set(namespaces_used(work)) == set()


def test_works_of_one_are_read_from_the_store_of_all_without_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One search through all for each of a thousand virtual clusters stops the loop for seconds."""
    store = new_store(RawCodec())
    works = Works(dict.fromkeys("ab", store))
    for cluster, name, namespace in (
        ("a", "two", "shop"),
        ("b", "two", "shop"),
        ("a", "one", "edge"),
        ("a-b", "one", "edge"),
    ):
        manifests = [{"metadata": {"name": "web", "namespace": namespace}}]
        metadata = {"name": name, "namespace": f"karmada-es-{cluster}", "uid": name}
        store.apply({"metadata": metadata, "spec": {"workload": {"manifests": manifests}}})
    monkeypatch.setattr(Store, "__iter__", None)
    assert works.names("a") == ["two", "one"]
    assert [work["metadata"]["name"] for work in works.of("a", "edge")] == ["one"]
    assert works.of("b", "edge") == works.of("a", "none") == works.of("c") == []


def test_work_that_cannot_be_read_is_there_for_who_asks_what_is_used() -> None:
    store = new_store(RawCodec())
    works = Works({"a": store})
    metadata = {"name": "known", "namespace": "karmada-es-a", "uid": "u"}
    known: Object = {"apiVersion": "v1", "kind": "Work", "metadata": metadata}
    odd = [
        Unreadable(("karmada-es-a", "known"), "odd"),
        Unreadable(("karmada-es-a", "new"), "odd"),
        Unreadable(("karmada-es-b", "other"), "odd"),
    ]
    store.replace_all([known], "1")
    store.replace_all([], "2", odd)
    assert works.names("a") == ["known"]
    assert works.unreadable("a") == ["new"]
    store.replace_all([], "3", [Unreadable(None, "no name")])
    assert works.unreadable("a") == [""]
    assert works.unreadable("elsewhere") == []


@pytest.mark.parametrize(
    ("annotations", "namespace"),
    [
        ({"resourcebinding.karmada.io/namespace": "edge"}, "edge"),
        ({"clusterresourcebinding.karmada.io/name": "web-deployment"}, ""),
        ({"example.com/a": "b"}, None),
        ("odd", None),
    ],
)
def test_binding_of_a_work_has_a_namespace(annotations: Any, namespace: str | None) -> None:
    assert binding_namespace({"metadata": {"annotations": annotations}}) == namespace
    assert binding_namespace(None) is None
