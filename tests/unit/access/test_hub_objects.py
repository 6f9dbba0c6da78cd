"""The rights on the hub: no wildcard, no secrets, names wherever Kubernetes knows them."""

from functools import partial
from pathlib import Path

import pytest
import yaml

from karmada_vc_agent.access.rights import (
    GATEWAY,
    OPTIONAL_CONTROLLERS,
    HubAccess,
    hub_objects,
    hub_reasons,
    named_clusters,
)
from karmada_vc_agent.feature_list import HUB_ROLES
from karmada_vc_agent.install.apply_objects import manifest_text
from karmada_vc_agent.model.objects import Object, dig, key_of

ROOT = Path(__file__).resolve().parents[3]
access_of = partial(HubAccess, of_features=HUB_ROLES)
ACCESS = access_of("edge", ("branch-a", "branch-b"))


def rules_of(access: HubAccess, key: str) -> list[Object]:
    (role,) = [obj for obj in hub_objects(access) if str(key_of(obj)) == key]
    rules: list[Object] = role["rules"]
    return rules


def all_rules(access: HubAccess) -> list[Object]:
    return [rule for obj in hub_objects(access) for rule in obj.get("rules", ())]


@pytest.mark.parametrize("access", [ACCESS, access_of("e", ("a",), works_cluster_wide=True)])
def test_no_rule_has_a_wildcard_or_reaches_secrets_or_roles(access: HubAccess) -> None:
    assert len(all_rules(access)) > 5
    for rule in all_rules(access):
        for values in rule.values():
            assert "*" not in values
        assert not {"secrets", "roles", "clusterroles", "users"} & set(rule["resources"])
        assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule["verbs"])


def test_every_right_has_a_reason() -> None:
    access = access_of("edge", ("a",), works_cluster_wide=True, objects=True, gateway=True)
    why = hub_reasons(access)
    for obj in hub_objects(access):
        if "rules" in obj and obj["metadata"]["name"] != access.auth_role:
            assert len(why[str(key_of(obj))]) == len(obj["rules"])
            assert all(why[str(key_of(obj))])


def test_what_has_a_name_is_granted_by_name() -> None:
    unnamed = [rule for rule in all_rules(ACCESS) if "resourceNames" not in rule]
    assert {"cluster.karmada.io"} in [set(rule["apiGroups"]) for rule in unnamed]
    for rule in unnamed:
        if rule["apiGroups"] == ["cluster.karmada.io"]:
            assert set(rule["verbs"]) == {"create", "list", "watch"}
        if rule["apiGroups"] == ["coordination.k8s.io"]:
            assert rule["verbs"] == ["create"]


def test_works_are_bound_inside_each_execution_namespace() -> None:
    keys = [str(key_of(obj)) for obj in hub_objects(ACCESS)]
    for cluster in ACCESS.clusters:
        namespace = keys.index(f"Namespace karmada-es-{cluster}")
        assert keys[namespace + 1] == f"RoleBinding karmada-es-{cluster}/vc-agent:edge:works"
    for rule in rules_of(ACCESS, "ClusterRole vc-agent:edge"):
        assert "works" not in rule["resources"]


def test_execution_namespaces_are_made_as_karmada_makes_them() -> None:
    made = [obj for obj in hub_objects(ACCESS) if obj["kind"] == "Namespace"]
    assert made.pop(0)["metadata"] == {"name": "karmada-cluster"}
    assert [obj["metadata"]["labels"] for obj in made] == [{"karmada.io/system": "true"}] * 2


def test_cluster_wide_opens_reading_and_nothing_else() -> None:
    wide = access_of("edge", ("branch-a",), works_cluster_wide=True)
    narrow = access_of("edge", ("branch-a",))
    role = "ClusterRole vc-agent:edge"
    added = [rule for rule in rules_of(wide, role) if rule not in rules_of(narrow, role)]
    works = {"apiGroups": ["work.karmada.io"], "resources": ["works"], "verbs": ["list", "watch"]}
    assert added == [works]


@pytest.mark.parametrize(
    ("controllers", "resource"),
    [
        (("interpreter",), "resourceinterpretercustomizations"),
        (("certRotation",), "certificatesigningrequests"),
        (("certRotation",), "certificatesigningrequests/selfclusteragent"),
    ],
)
def test_rights_of_a_controller_go_with_it(controllers: tuple[str, ...], resource: str) -> None:
    def grants(running: tuple[str, ...]) -> bool:
        rules = all_rules(access_of("edge", ("a",), running))
        return any(resource in rule["resources"] for rule in rules)

    assert grants(controllers)
    assert not grants(tuple(name for name in OPTIONAL_CONTROLLERS if name not in controllers))


def test_rights_of_features_are_granted_with_what_join_knows() -> None:
    assert set(HUB_ROLES) <= {GATEWAY, *OPTIONAL_CONTROLLERS}
    without = HubAccess("edge", ("a",), gateway=True)
    assert not any("certificates.k8s.io" in rule["apiGroups"] for rule in all_rules(without))
    assert f"ClusterRole {without.auth_role}" not in map(str, map(key_of, hub_objects(without)))


def test_works_are_created_only_for_collected_endpoint_slices() -> None:
    without = access_of("edge", ("a",), ("interpreter",))
    verbs = {
        verb
        for rule in rules_of(without, "ClusterRole vc-agent:edge:works")
        for verb in rule["verbs"]
        if "works" in rule["resources"]
    }
    assert verbs == {"get", "list", "watch", "patch"}
    with_one = access_of("edge", ("a",), ("endpointsliceCollect",))
    assert any(
        "create" in rule["verbs"] for rule in rules_of(with_one, "ClusterRole vc-agent:edge:works")
    )


def test_rule_that_would_name_no_one_is_left_out() -> None:
    for rule in all_rules(access_of("edge", (), objects=True)):
        if rule["apiGroups"] == ["cluster.karmada.io"]:
            assert rule["verbs"] == ["create", "list", "watch"]
        if rule["apiGroups"] == ["coordination.k8s.io"]:
            assert rule["verbs"] == ["create"]


def test_objects_let_their_own_clusters_be_deleted() -> None:
    role = "ClusterRole vc-agent:edge"
    with_objects = access_of("edge", ("branch-a",), objects=True)
    without = access_of("edge", ("branch-a",))
    added = [rule for rule in rules_of(with_objects, role) if rule not in rules_of(without, role)]
    assert added == [
        {
            "apiGroups": ["cluster.karmada.io"],
            "resources": ["clusters"],
            "resourceNames": ["branch-a"],
            "verbs": ["delete"],
        }
    ]


def test_any_name_is_every_name_and_no_other_kind() -> None:
    access = access_of("edge", ("branch-a",), objects=True, any_name=True)
    assert not [rule for rule in all_rules(access) if "branch-a" in rule.get("resourceNames", ())]
    keys = [str(key_of(obj)) for obj in hub_objects(access)]
    assert "ClusterRoleBinding vc-agent:edge:works" in keys
    named = access_of("edge", ("branch-a",), objects=True)
    kinds = [[rule["resources"] for rule in all_rules(each)] for each in (access, named)]
    assert kinds[0] == kinds[1]


def test_role_lists_the_clusters_it_names() -> None:
    role = next(obj for obj in hub_objects(ACCESS) if obj["kind"] == "ClusterRole")
    assert named_clusters(role) == ["branch-a", "branch-b"]


def test_text_gives_back_the_objects_and_says_why() -> None:
    access = access_of("edge", ("branch-a", "branch-b"), objects=True, gateway=True)
    text = manifest_text(hub_objects(access), hub_reasons(access), "For the hub.")
    assert list(yaml.safe_load_all(text)) == hub_objects(access)
    assert text.startswith("# For the hub.\n")
    for each in (why for rules in hub_reasons(access).values() for why in rules if why):
        assert f"# {each}\n" in text


def test_gateway_opens_the_secrets_of_its_own_clusters_and_one_role() -> None:
    on = access_of("edge", ("branch-a", "branch-b"), gateway=True)
    off = access_of("edge", ("branch-a", "branch-b"))
    leases, everywhere = "Role karmada-cluster/vc-agent:edge", "ClusterRole vc-agent:edge"
    create, named = [rule for rule in rules_of(on, leases) if rule not in rules_of(off, leases)]
    assert create == {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}
    assert named["verbs"] == ["get", "patch", "delete"]
    assert named["resourceNames"] == [
        "branch-a",
        "branch-a-impersonator",
        "branch-b",
        "branch-b-impersonator",
    ]
    patch, held = [r for r in rules_of(on, everywhere) if r not in rules_of(off, everywhere)]
    assert [held] == rules_of(on, "ClusterRole vc-agent:edge:unified-auth")
    assert held["verbs"] == ["announce"]
    assert (patch["resources"], patch["verbs"]) == (["clusterroles"], ["patch"])
    assert patch["resourceNames"] == ["vc-agent:edge:unified-auth"]


def test_role_that_karmada_checks_is_bound_to_no_one() -> None:
    on = access_of("edge", ("branch-a",), gateway=True)
    (rule,) = rules_of(on, "ClusterRole vc-agent:edge:unified-auth")
    assert (rule["resources"], rule["resourceNames"]) == (["clusters/proxy"], ["branch-a"])
    bound = {dig(obj, "roleRef", "name") for obj in hub_objects(on)}
    assert "vc-agent:edge:unified-auth" not in bound


def test_secrets_and_roles_are_named_after_no_virtual_cluster() -> None:
    on = access_of("edge", ("branch-a",), gateway=True)
    roles = [obj for obj in hub_objects(on) if "rules" in obj and "works" not in str(key_of(obj))]
    assert len(roles) == 3
    assert [named_clusters(role) for role in roles] == [["branch-a"]] * 3
