"""Notices: what is applied all the same, and what a user should know of it."""

import pytest

from karmada_vc_agent.model.objects import Object, gvk_of
from karmada_vc_agent.translation.context import Notice, NoticeCode
from karmada_vc_agent.translation.kind_policy import NamespaceReferences
from karmada_vc_agent.translation.references import REFERENCES_MAX, unknown_references
from tests.unit.translation import given


def custom(kind: str = "Widget", /, **spec: object) -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": kind,
        "metadata": {"name": "w", "namespace": "edge"},
        "spec": spec,
    }


def references(obj: Object, *configured: NamespaceReferences) -> list[Notice]:
    return list(unknown_references(obj, gvk_of(obj), {"edge", "ops"}, configured))


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"namespace": "ops"}, "spec.namespace"),
        ({"target": {"watchNamespaces": ["x", "ops"]}}, "spec.target.watchNamespaces[1]"),
        ({"targetNamespace": "ops"}, "spec.targetNamespace"),
        ({"refs": [{"namespace": "edge"}]}, "spec.refs[0].namespace"),
    ],
)
def test_what_looks_like_an_own_namespace_is_noticed(spec: dict[str, object], path: str) -> None:
    [notice] = references(custom(**spec))
    assert notice.code is NoticeCode.REFERENCE_NOT_REWRITTEN
    assert notice.detail.startswith(f'{path} is "')


@pytest.mark.parametrize(
    "spec", [{"namespace": "kube-system"}, {"name": "ops"}, {"namespace": ""}, {"namespace": 1}]
)
def test_what_is_no_own_namespace_is_not(spec: dict[str, object]) -> None:
    assert references(custom(**spec)) == []


def test_configured_path_is_not_noticed() -> None:
    row = NamespaceReferences("example.com", "Widget", ("spec.refs[].namespace",))
    assert references(custom(refs=[{"namespace": "ops"}]), row) == []
    assert len(references(custom(namespace="ops"), row)) == 1


def test_path_of_the_table_is_not_noticed() -> None:
    monitor = custom("ServiceMonitor", namespaceSelector={"matchNames": ["ops"]})
    monitor["apiVersion"] = "monitoring.coreos.com/v1"
    assert references(monitor) == []


def test_built_in_kinds_are_served_whole() -> None:
    obj = custom(namespace="ops") | {"apiVersion": "apps/v1", "kind": "Deployment"}
    assert references(obj) == []


def test_notices_are_few() -> None:
    many = custom(refs=[{"namespace": "ops"}] * 50)
    assert len(references(many)) == REFERENCES_MAX


@pytest.mark.parametrize(
    ("mode", "count"), [("Immediate", 1), (None, 1), ("WaitForFirstConsumer", 0)]
)
def test_class_that_binds_at_once_is_noticed(mode: str | None, count: int) -> None:
    storage: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
    }
    obj = storage if mode is None else storage | {"volumeBindingMode": mode}
    found = [notice.code for notice in given.translated(obj, namespaced=False).notices]
    assert found == [NoticeCode.IMMEDIATE_BINDING] * count
    others = [notice.code for notice in given.translated(custom()).notices]
    assert NoticeCode.IMMEDIATE_BINDING not in others
