"""In Strict a manifest is where the binding of its Work is, whatever an OverridePolicy says."""

from dataclasses import replace

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import SHARED, STRICT
from karmada_vc_agent.translation.kind_policy import Code, Refusal
from karmada_vc_agent.translation.translate import translate
from tests.unit.translation import given

CONFIG_MAP: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
ROLE: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "x"},
    "rules": [],
}
APPLICATION: Object = {
    "apiVersion": "apps.kubeedge.io/v1alpha1",
    "kind": "EdgeApplication",
    "metadata": {"name": "x", "namespace": "edge"},
    "spec": {
        "workloadScope": {"targetNodeGroups": [{"name": "own"}]},
        "workloadTemplate": {"manifests": [CONFIG_MAP]},
    },
}


def at(namespace: str, manifest: Object = CONFIG_MAP) -> Object:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def containing(namespace: str) -> Object:
    template = {"manifests": [at(namespace)]}
    return {**APPLICATION, "spec": {**APPLICATION["spec"], "workloadTemplate": template}}


def is_refused(manifest: Object, bound_to: str | None, tenancy: str = STRICT) -> bool:
    claims = {"edge": "edge-v-branch-a", "till": "till-v-branch-a"}
    facts = replace(given.context(settings={"tenancy": tenancy}, claims=claims), bound_to=bound_to)
    result = translate(manifest, "namespace" in manifest["metadata"], facts)
    if not isinstance(result, Refusal):
        return False
    assert (result.code, result.path[-18:]) == (Code.NAMESPACE_FORBIDDEN, "metadata.namespace")
    return True


@pytest.mark.parametrize(
    ("manifest", "bound_to"),
    [
        (at("till"), "edge"),
        (ROLE, "edge"),
        (at("till"), ""),
        (containing("till"), "edge"),
    ],
)
def test_what_an_override_moved_is_refused_in_strict(manifest: Object, bound_to: str) -> None:
    assert is_refused(manifest, bound_to)
    assert not is_refused(manifest, bound_to, SHARED)


@pytest.mark.parametrize(
    ("manifest", "bound_to"),
    [
        (at("edge"), "edge"),
        (ROLE, ""),
        (APPLICATION, "edge"),
        (containing("edge"), "edge"),
        (at("till"), None),
        (ROLE, None),
    ],
)
def test_what_is_where_its_binding_is_passes(manifest: Object, bound_to: str | None) -> None:
    assert not is_refused(manifest, bound_to)
