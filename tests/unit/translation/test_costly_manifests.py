"""What is small and would take long, or become large, is refused or cut (rewriting-rules 5.2)."""

from dataclasses import replace
from typing import Any

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.translation.kind_policy import Code, Refusal
from karmada_vc_agent.translation.own_steps import MANIFESTS_MAX
from karmada_vc_agent.translation.translate import HostObject, translate
from tests.fakes.gateway_view import two_branches

RBAC = "rbac.authorization.k8s.io/v1"
CONTEXT = replace(two_branches()[0].context(), work="karmada-es-branch-a/x")
METADATA = {"name": "x", "namespace": "edge"}


def _translated(manifest: Object) -> Any:
    return translate(manifest, namespaced=True, context=CONTEXT)


def _role(*rules: Object) -> Object:
    return {"apiVersion": RBAC, "kind": "Role", "metadata": METADATA, "rules": list(rules)}


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> Object:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "rules",
    [
        [_rule(["a"] * 100_000, ["b"] * 100_000, ["get"] * 100_000)],
        [_rule(["*"], ["*"], ["*"])] * 20_000,
        [_rule([""], ["*/scale"], ["get"])] * 20_000,
        [_rule([""], ["pods"], ["get"])] * 20_001,
    ],
)
def test_rules_that_combine_too_much_are_refused(rules: list[Object]) -> None:
    found = _translated(_role(*rules))
    assert isinstance(found, Refusal)
    assert (found.code, found.path) == (Code.RULE_FORBIDDEN, "rules")


@pytest.mark.parametrize(
    "rules",
    [
        [_rule(["*"], ["*"], ["*"])] * 10,
        [_rule([""], [f"r{i}" for i in range(50)], ["get", "list", "watch"])] * 100,
    ],
)
def test_large_roles_of_operators_pass(rules: list[Object]) -> None:
    assert isinstance(_translated(_role(*rules)), HostObject)


def test_all_accounts_are_bound_once() -> None:
    """They stand for one subject in each namespace."""
    subjects = [
        {"kind": "Group", "name": "system:serviceaccounts", "apiGroup": "rbac.authorization.k8s.io"}
    ] * 1000
    role = {"kind": "Role", "name": "x", "apiGroup": "rbac.authorization.k8s.io"}
    found = _translated(
        {
            "apiVersion": RBAC,
            "kind": "RoleBinding",
            "metadata": METADATA,
            "roleRef": role,
            "subjects": subjects,
        }
    )
    assert isinstance(found, HostObject)
    assert len(found.obj["subjects"]) == len(CONTEXT.claims)


def test_an_edge_application_has_few_manifests() -> None:
    embedded = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    manifests = [embedded] * (MANIFESTS_MAX + 1)
    found = _translated(
        {
            "apiVersion": "apps.kubeedge.io/v1alpha1",
            "kind": "EdgeApplication",
            "metadata": METADATA,
            "spec": {"workloadTemplate": {"manifests": manifests}},
        }
    )
    assert isinstance(found, Refusal)
    assert found.code is Code.MANIFEST_INVALID
