"""RoleBindings that come before their roles, as Karmada sends them: in no order."""

import pytest

from e2e.lab.accounts import RBAC, Who, cluster_role, may
from e2e.lab.api import Object, collection, path_of
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import BACKED_OFF_S, within
from e2e.lab.works import condition, execution_namespace

API = f"{RBAC}/v1"
READS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
_OF_NONE = "which no virtual cluster may"
STRONG: dict[str, tuple[Object, str]] = {
    "quotas": ({"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["update"]}, _OF_NONE),
    "tokens": (
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
        _OF_NONE,
    ),
    "all": ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, _OF_NONE),
    "unknown": (
        {"apiGroups": ["unknown.example.org"], "resources": ["things"], "verbs": ["create"]},
        "is attempting to grant RBAC permissions not currently held",
    ),
}
"""What a role of the host holds -> why no Work binds it; in Strict all are _OF_NONE."""
PROFILES = ("Shared", pytest.param("Strict", marks=pytest.mark.strict))


def _binding(kind: str, namespace: str, name: str, role_kind: str, role: str) -> Object:
    """Return a binding for a user of its own name."""
    scope = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": {"name": name} | scope,
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": name}],
    }


def _role(namespace: str, name: str, *rules: Object) -> Object:
    made = cluster_role(name, *rules) | {"kind": "Role"}
    made["metadata"]["namespace"] = namespace
    return made


def _warnings(lab: Lab, group: Group, work: str) -> list[str]:
    name = work.rsplit("/", 1)[1]
    events = lab.hub.list(collection("v1", "Event", execution_namespace(group.name)))
    about = [event for event in events if event["involvedObject"]["name"] == name]
    return [event["message"] for event in about if event["type"] == "Warning"]


@pytest.mark.parametrize("tenancy", PROFILES)
def test_role_arrives_one_work_later(lab: Lab, tenancy: str) -> None:
    group = lab.group("a")
    lab.serve(group, tenancy=tenancy)
    namespace, wide = lab.namespace(), f"{lab.id}-reader"
    home = group.host_namespace(namespace)
    bindings = {
        "to-role": _binding("RoleBinding", namespace, "to-role", "Role", "reader"),
        "to-wide": _binding("RoleBinding", namespace, "to-wide", "ClusterRole", wide),
        "everywhere": _binding("ClusterRoleBinding", "", f"{lab.id}-all", "ClusterRole", wide),
    }
    works = [lab.create_work(group, name, binding) for name, binding in bindings.items()]
    for work in works:
        lab.wait_applied(work)
        assert _warnings(lab, group, work) == []
    made = {"to-role", "to-wide", f"vc:crb:{lab.id}-all"}
    within(BACKED_OFF_S, _assert_bound, lab, home, made)
    cluster_roles = collection(API, "ClusterRole")
    within(BACKED_OFF_S, _assert_no_stand_in, lab, home, f"{cluster_roles}/{wide}-v-{group.name}")
    users = [Who(f"vc:{group.name}:{name}") for name in ("to-role", "to-wide", f"{lab.id}-all")]
    assert not any(may(lab.host, user, "get", "configmaps", home) for user in users)
    try:
        roles = [_role(namespace, "reader", READS), cluster_role(wide, READS)]
        for number, role in enumerate(roles):
            lab.wait_applied(lab.create_work(group, f"role-{number}", role))
        for user in users:
            within(BACKED_OFF_S, _may_read, lab, user, home)
            assert not may(lab.host, user, "get", "configmaps", "kube-system")
    finally:
        lab.host.delete(f"{cluster_roles}/{wide}-v-{group.name}")


def _assert_bound(lab: Lab, home: str, names: set[str]) -> None:
    bindings = lab.host.list(collection(API, "RoleBinding", home))
    assert names <= {binding["metadata"]["name"] for binding in bindings}


def _assert_no_stand_in(lab: Lab, home: str, wide: str) -> None:
    assert lab.host.list(collection(API, "Role", home)) == []
    assert lab.host.find(wide) is None


def _may_read(lab: Lab, user: Who, home: str) -> None:
    assert may(lab.host, user, "get", "configmaps", home), user


def test_one_work_brings_binding_and_role_in_this_order(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    namespace = lab.namespace()
    binding = _binding("RoleBinding", namespace, "bound", "Role", "reader")
    work = lab.create_work(group, "both", binding, _role(namespace, "reader", READS))
    lab.wait_applied(work)
    assert _warnings(lab, group, work) == []
    role = f"{collection(API, 'Role', group.host_namespace(namespace))}/reader"
    assert lab.host.get(role)["rules"] == [READS]


@pytest.mark.parametrize("tenancy", PROFILES)
def test_role_of_the_host_that_holds_more_is_not_bound(lab: Lab, tenancy: str) -> None:
    """The host refuses what the agent may not do, the agent what no virtual cluster may."""
    group = lab.group("a")
    lab.serve(group, tenancy=tenancy)
    namespace = lab.namespace()
    home = group.host_namespace(namespace)
    within(BACKED_OFF_S, lab.host.get, f"/api/v1/namespaces/{home}")
    wide = {name: f"{lab.id}-{name}" for name in STRONG}
    roles = [
        made
        for name, (rule, _) in STRONG.items()
        for made in (
            _role(home, name, rule),
            cluster_role(f"{wide[name]}-v-{group.name}", rule),
        )
    ]
    before = [lab.host.create(role) for role in roles]
    try:
        for name, (_, why) in STRONG.items():
            for kind, role in (("Role", name), ("ClusterRole", wide[name])):
                binding = _binding("RoleBinding", namespace, f"{name}-{kind}".lower(), kind, role)
                work = lab.create_work(group, binding["metadata"]["name"], binding)
                said = condition(lab.wait_applied(work, "False"), "Applied")["message"]
                assert (_OF_NONE if tenancy == "Strict" else why) in said
                assert f"-v-{group.name}" not in said
                assert lab.host.find(lab.host_path(binding, group)) is None
        assert [lab.host.get(path_of(role)) for role in roles] == before
    finally:
        for made in roles:
            lab.host.delete(path_of(made))
