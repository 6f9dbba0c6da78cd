"""Roles of the agent on the host: what is in them, and what is not."""

from typing import Any

import pytest

from karmada_vc_agent.access.rights import HostAccess, host_bindings, host_reasons, host_roles
from karmada_vc_agent.model.objects import Object, key_of
from karmada_vc_agent.model.virtual_cluster import STRICT
from karmada_vc_agent.model.vocabulary import TENANT_ROLES, account_role

CEILING: tuple[Object, ...] = (
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create"]},
)
RBAC = "rbac.authorization.k8s.io"
EVERYWHERE, CLAIMED = "ClusterRole vc-agent:a", "ClusterRole vc-agent:a:namespace"
ACCOUNT = "ClusterRole vc-agent:a:account"


def rules(**access: Any) -> dict[str, list[Object]]:
    made = host_roles(HostAccess("a", "home", CEILING, **access))
    return {str(key_of(role)): role.get("rules", []) for role in made}


def verbs(granted: list[Object], group: str, resource: str) -> set[str]:
    found = [r for r in granted if group in r.get("apiGroups", ()) and resource in r["resources"]]
    return {verb for rule in found for verb in rule["verbs"]}


def bindable(granted: list[Object]) -> set[str]:
    """Return the ClusterRoles that may be bound; "*" = all of them."""
    found = [rule for rule in granted if "bind" in rule["verbs"]]
    return {name for rule in found for name in rule.get("resourceNames", ["*"])}


def test_nothing_is_a_wildcard_but_kinds_of_approved_groups() -> None:
    made = rules(api_groups=("example.com",))
    assert len(made) > 2
    for role, granted in made.items():
        for rule in granted:
            assert "*" not in rule["verbs"], role
            assert "*" not in rule.get("apiGroups", ()), role
            if "*" in rule.get("resources", ()):
                assert rule["apiGroups"] == ["example.com"], role


def test_secrets_are_readable_in_claimed_namespaces_only() -> None:
    made = rules(namespaced=(("", "configmaps"), ("", "secrets")))
    assert verbs(made[EVERYWHERE], "", "configmaps") == {"list", "watch"}
    assert verbs(made[EVERYWHERE], "", "secrets") == set()


def test_escalate_needs_the_policy() -> None:
    assert "escalate" in verbs(rules()[EVERYWHERE], RBAC, "clusterroles")
    unconfined = verbs(rules(is_confined=False)[EVERYWHERE], RBAC, "clusterroles")
    assert unconfined == {"get", "list", "watch", "bind"}


def test_only_roles_for_namespaces_are_bound_by_name() -> None:
    built_in = {"vc-agent:a:namespace", "vc-admin", "vc-edit", "vc-view"}
    made = rules(bound_roles=("tenants",))
    assert bindable(made[EVERYWHERE]) == built_in | {"tenants", "virtual-cluster-admin"}
    assert bindable(rules(tenancy=STRICT)[EVERYWHERE]) == built_in
    assert bindable(made[CLAIMED]) == set()


def test_accounts_of_tenants_may_what_works_bring_and_bind_what_users_are_given() -> None:
    assert ACCOUNT not in rules()
    made = rules(tenancy=STRICT, bound_roles=(account_role("a"),), api_groups=("x.io",))
    granted = made[ACCOUNT]
    assert CEILING[0] in granted
    assert "create" in verbs(granted, "x.io", "*")
    assert bindable(granted) == {"vc-admin", "vc-edit", "vc-view", "virtual-cluster-admin"}
    assert verbs(granted, "", "resourcequotas") == set(), "the agent's own bounds"
    assert "create" in verbs(made[CLAIMED], "", "resourcequotas")
    assert "vc-agent:a:account" in bindable(made[EVERYWHERE])


def test_accounts_are_impersonated_by_name_where_they_are() -> None:
    made = rules(acts_as=(("home", "b.a"), ("tenants", "c")))
    for role, name in (("Role home/vc-agent:a", "b.a"), ("Role tenants/vc-agent:a", "c")):
        [rule] = [rule for rule in made[role] if rule["verbs"] == ["impersonate"]]
        assert (rule["resources"], rule["resourceNames"]) == (["serviceaccounts"], [name])
    assert "impersonate" not in str(made[EVERYWHERE] + made[CLAIMED])


def test_rights_of_its_own_namespace_are_by_name_where_rbac_knows_names() -> None:
    names = ("features/service_names/roles.yaml",)
    made = rules(kubeconfig_namespace="hub", dns_namespace="kube-system", of_features=names)
    assert set(made) == {
        *(EVERYWHERE, CLAIMED, "Role home/vc-agent:a"),
        *(f"ClusterRole {name}" for name in TENANT_ROLES.values()),
        *("Role hub/vc-agent:a", "Role kube-system/vc-agent:a"),
    }
    local = [rule for key, granted in made.items() if key.startswith("Role ") for rule in granted]
    assert [r for r in local if "resourceNames" not in r and r["verbs"] != ["create"]] == []


def test_a_checkpoint_is_read_and_changed_by_name_only() -> None:
    without, found = (
        rules()["Role home/vc-agent:a"],
        rules(of_features=("features/checkpoint/roles.yaml",))["Role home/vc-agent:a"],
    )
    added = [rule for rule in found if rule not in without]
    assert [(rule["verbs"], len(rule.get("resourceNames", ()))) for rule in added] == [
        (["get", "patch", "delete"], 32),
        (["create"], 0),
    ]
    assert all(rule["resources"] == ["secrets"] for rule in added)
    assert added[0]["resourceNames"][0] == "a-checkpoint-0"


def test_each_role_is_bound_where_it_is_and_those_of_claimed_namespaces_are_not() -> None:
    access = HostAccess("a", "home", CEILING, kubeconfig_namespace="hub")
    bound = {str(key_of(each)): each["roleRef"]["kind"] for each in host_bindings(access)}
    assert bound == {
        "ClusterRoleBinding vc-agent:a": "ClusterRole",
        "RoleBinding home/vc-agent:a": "Role",
        "RoleBinding hub/vc-agent:a": "Role",
    }
    account = {"kind": "ServiceAccount", "name": "a", "namespace": "home"}
    assert all(each["subjects"] == [account] for each in host_bindings(access))


def test_every_rule_has_a_reason() -> None:
    access = HostAccess("a", "home", CEILING, bound_roles=(account_role("a"),))
    reasons = host_reasons(access)
    for role in host_roles(access):
        if role["metadata"]["name"] not in TENANT_ROLES.values():
            assert len(reasons[str(key_of(role))]) == len(role["rules"])


@pytest.mark.parametrize("is_confined", [True, False])
def test_rules_of_tenants_have_one_writer(*, is_confined: bool) -> None:
    """The agent follows what the host serves; where it may not write roles, `join` gives them."""
    granted = dict.fromkeys(TENANT_ROLES.values(), CEILING)
    access = HostAccess("a", "home", CEILING, granted=granted, is_confined=is_confined)
    roles = {role["metadata"]["name"]: role for role in host_roles(access)}
    assert all(("rules" in roles[name]) != is_confined for name in granted)
