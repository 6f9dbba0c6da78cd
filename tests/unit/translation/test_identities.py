"""Whom the gateway may impersonate: names of one virtual cluster, and nobody of the host."""

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualNamespace
from karmada_vc_agent.translation.context import Names, NamespaceTemplate
from karmada_vc_agent.translation.rbac import Callers, absorbed_name, admin_groups

CLAIMS = {VirtualNamespace("edge"): HostNamespace("edge-adopted")}
CALLERS = Callers(
    "branch-a", Names("branch-a", NamespaceTemplate.parse("{namespace}-v-{cluster}"), CLAIMS)
)


def rule(resource: str, *names: str, verb: str = "impersonate") -> Object:
    found: Object = {"apiGroups": [""], "resources": [resource], "verbs": [verb]}
    return found | ({"resourceNames": list(names)} if names else {})


def allowed(*rules: Object) -> dict[str, list[str]]:
    """Return the names that may be impersonated, by resource."""
    role = CALLERS.role("agent", {"rules": list(rules)})
    assert all(each["verbs"] == ["impersonate"] for each in role["rules"])
    return {each["resources"][0]: each["resourceNames"] for each in role["rules"]}


@pytest.mark.parametrize(
    ("user", "host"),
    [
        ("alice", "vc:branch-a:alice"),
        ("system:admin", "vc:branch-a:system:admin"),
        ("vc:branch-b:alice", "vc:branch-a:vc:branch-b:alice"),
        ("system:serviceaccount:edge:web", "system:serviceaccount:edge-adopted:web"),
        ("system:serviceaccount:shop:web", "system:serviceaccount:shop-v-branch-a:web"),
        (
            "system:serviceaccount:kube-system:web",
            "system:serviceaccount:kube-system-v-branch-a:web",
        ),
        ("system:serviceaccount:edge", "vc:branch-a:system:serviceaccount:edge"),
    ],
)
def test_user_of_the_hub_is_another_one_on_the_host(user: str, host: str) -> None:
    assert CALLERS.user(user) == host


@pytest.mark.parametrize(
    ("group", "host"),
    [
        ("system:masters", "vc:branch-a:system:masters"),
        ("system:serviceaccounts", "system:serviceaccounts"),
        ("system:serviceaccounts:edge", "system:serviceaccounts:edge-adopted"),
        ("developers", "vc:branch-a:developers"),
    ],
)
def test_group_of_the_hub_is_another_one_on_the_host(group: str, host: str) -> None:
    assert CALLERS.group(group) == host


def test_without_rules_of_karmada_only_karmada_itself_and_operators_are_allowed() -> None:
    assert CALLERS.role("agent", None) == CALLERS.role("agent", {"rules": None})
    assert allowed() == {
        "users": ["vc:branch-a:karmada", "vc:branch-a:operator"],
        "groups": ["vc:branch-a", "vc:branch-a:karmada-access"],
    }


def test_users_and_groups_of_karmadas_rules_are_allowed_under_their_host_names() -> None:
    found = allowed(rule("users", "alice", "bob"), rule("groups", "system:masters"))
    users = ("alice", "bob", "karmada", "operator")
    assert found["users"] == [f"vc:branch-a:{user}" for user in users]
    assert found["groups"] == [
        "vc:branch-a",
        "vc:branch-a:karmada-access",
        "vc:branch-a:system:masters",
    ]


def test_invalid_list_of_names_to_impersonate_allows_no_one() -> None:
    found = allowed(rule("users"), rule("users", "alice", verb="get"), rule("groups"), {})
    assert found == allowed()


def test_accounts_are_not_allowed_by_name_everywhere() -> None:
    found = allowed(rule("serviceaccounts", "web"), rule("users", "system:serviceaccount:edge:web"))
    assert found == allowed()


def test_role_is_of_its_virtual_cluster_and_of_the_gateway_of_its_agent() -> None:
    assert CALLERS.role("agent", None)["metadata"] == {
        "name": "vc:gateway-v-branch-a",
        "labels": {
            "virtualcluster.kubeedge.io/cluster": "branch-a",
            "virtualcluster.kubeedge.io/gateway": "agent",
        },
    }
    assert absorbed_name("branch-a") == "karmada-impersonator-v-branch-a"


def test_renamed_virtual_cluster_keeps_its_roles_but_not_its_prefix() -> None:
    callers = Callers("north", CALLERS.names)
    assert callers.role("agent", None)["metadata"]["name"] == "vc:gateway-v-branch-a"
    assert callers.user("alice") == "vc:north:alice"
    assert admin_groups("north") == ("vc:north:system:masters", "vc:north:karmada-access")
