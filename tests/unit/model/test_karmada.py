"""Names that Karmada computes."""

import pytest

from karmada_vc_agent.model import vocabulary


@pytest.mark.parametrize(
    ("kind", "name", "namespace", "expected"),
    [
        ("Deployment", "nginx", "edge", "nginx-867c85cb75"),
        ("Deployment", "nginx", "default", "nginx-687f7fb96f"),
        ("ConfigMap", "app-cfg", "edge", "app-cfg-6cd8c6dd5b"),
        ("Namespace", "edge", "", "edge-7b7bcfcb58"),
        ("ClusterRole", "system:Foo", "", "system.foo-5f7d88f69"),
        ("ClusterRole", "karmada-impersonator", "", "karmada-impersonator-7cbb6bd5c9"),
        ("ClusterRoleBinding", "karmada-impersonator", "", "karmada-impersonator-84f8c8f8c6"),
        ("EndpointSlice", "web-abc12", "edge", "web-abc12-6c5d679d97"),
    ],
)
def test_work_name_is_the_recorded_one(kind: str, name: str, namespace: str, expected: str) -> None:
    assert vocabulary.work_name(kind, name, namespace) == expected


def test_execution_namespace_and_cluster_map_both_ways() -> None:
    assert vocabulary.execution_namespace("vc1") == "karmada-es-vc1"
    assert vocabulary.cluster_of_execution_namespace("karmada-es-vc1") == "vc1"


def test_other_namespaces_belong_to_no_cluster() -> None:
    assert vocabulary.cluster_of_execution_namespace("karmada-system") is None
    assert vocabulary.cluster_of_execution_namespace("x-karmada-es-vc1") is None
