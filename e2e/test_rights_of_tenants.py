"""What RBAC of a template allows on the host: in the namespaces of its virtual cluster only."""

import pytest

from e2e.lab.accounts import RBAC, Who, cluster_role, may
from e2e.lab.api import Object
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import PERIODIC_S, within

GROUP, USER = "Group", "User"
SUBJECTS: dict[str, tuple[Object, Who, Who]] = {
    "user": ({"kind": USER, "name": "alice"}, Who("vc:{vc}:alice"), Who("alice")),
    "user-of-an-account": (
        {"kind": USER, "name": "system:serviceaccount:{virtual}:bot"},
        Who("system:serviceaccount:{ns}:bot"),
        Who("system:serviceaccount:{virtual}:bot"),
    ),
    "account": (
        {"kind": "ServiceAccount", "name": "robot", "namespace": "{virtual}"},
        Who("system:serviceaccount:{ns}:robot"),
        Who("system:serviceaccount:{virtual}:robot"),
    ),
    "group": (
        {"kind": GROUP, "name": "devs"},
        Who(groups=("vc:{vc}:devs",)),
        Who(groups=("devs",)),
    ),
    "masters": (
        {"kind": GROUP, "name": "system:masters"},
        Who(groups=("vc:{vc}:system:masters",)),
        Who(groups=("vc:{vc}:masters",)),
    ),
    "accounts-of-a-namespace": (
        {"kind": GROUP, "name": "system:serviceaccounts:{virtual}"},
        Who(groups=("system:serviceaccounts:{ns}",)),
        Who(groups=("system:serviceaccounts:{virtual}",)),
    ),
    "all-accounts": (
        {"kind": GROUP, "name": "system:serviceaccounts"},
        Who(groups=("system:serviceaccounts:default-v-{vc}",)),
        Who(groups=("system:serviceaccounts",)),
    ),
    "everybody": (
        {"kind": GROUP, "name": "system:authenticated"},
        Who(groups=("vc:{vc}",)),
        Who(groups=("system:authenticated",)),
    ),
}
"""Row of 5.2 -> subject of the template, who it is on the host, and who it is not."""

ROLES: dict[str, tuple[tuple[bool, str, str], ...]] = {
    "view": (
        (True, "get", "configmaps"),
        (False, "get", "secrets"),
        (False, "create", "configmaps"),
    ),
    "edit": (
        (True, "create", "configmaps"),
        (True, "get", "secrets"),
        (False, "create", f"rolebindings.{RBAC}"),
    ),
    "admin": (
        (True, "create", f"rolebindings.{RBAC}"),
        (False, "patch", "namespaces"),
        (False, "escalate", f"roles.{RBAC}"),
    ),
    "cluster-admin": (
        (True, "deletecollection", "deployments.apps"),
        (True, "create", "pods/exec"),
        (True, "get", "resourcequotas"),
        (False, "update", "resourcequotas"),
        (False, "delete", "limitranges"),
        (False, "create", "serviceaccounts/token"),
        (False, "patch", "namespaces"),
        (False, "delete", "namespaces"),
        (False, "escalate", f"roles.{RBAC}"),
        (False, "bind", f"clusterroles.{RBAC}"),
        (False, "impersonate", "serviceaccounts"),
        (False, "*", "*"),
    ),
    "{own}": (
        (True, "delete", "deployments.apps"),
        (True, "get", "namespaces"),
        (False, "patch", "namespaces"),
        (False, "get", "secrets"),
        (False, "escalate", "deployments.apps"),
    ),
}
"""ClusterRole of a roleRef -> what it allows on the host and what not; {own} = one by a Work."""


@pytest.mark.smoke
def test_each_row_of_the_table_holds_in_its_own_namespaces_only(lab: Lab) -> None:
    first, second = lab.group("a"), lab.group("b")
    lab.serve(first, second)
    namespace = lab.namespace()
    own = f"{lab.id}-own"
    rules: list[Object] = [
        {"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "patch"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]
    everywhere = _binding(
        "ClusterRoleBinding", "", "everywhere", "ClusterRole", own, _user("carol")
    )
    everywhere["metadata"]["name"] = f"{lab.id}-everywhere"
    rows = [m for row in SUBJECTS for m in _row(namespace, row)]
    roles = [_binding_to(namespace, name.format(own=own)) for name in ROLES]
    for group in (first, second):
        # RoleBindings come before the ClusterRole that they name.
        works = [
            lab.create_work(group, "rows", *rows),
            lab.create_work(group, "roles", *roles, everywhere),
        ]
        works.append(lab.create_work(group, "own", cluster_role(own, *rules)))
        for work in works:
            lab.wait_applied(work)
    try:
        for group, other in ((first, second), (second, first)):
            for row in SUBJECTS:
                within(PERIODIC_S, _assert_row, lab, group, other, namespace, row)
            for name in ROLES:
                within(
                    PERIODIC_S,
                    _assert_role,
                    lab,
                    group,
                    other,
                    namespace,
                    name.format(own=own),
                    name,
                )
            within(PERIODIC_S, _assert_everywhere, lab, group, other, namespace)

        later = lab.namespace("-later")
        for group, other in ((first, second), (second, first)):
            within(PERIODIC_S, _assert_everywhere, lab, group, other, later)
    finally:
        for group in (first, second):
            lab.host.delete(f"/apis/{RBAC}/v1/clusterroles/{own}-v-{group.name}")


def test_what_would_widen_rights_is_refused(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    namespace = lab.namespace()
    verbs = {
        verb: {"apiGroups": [RBAC], "resources": ["roles"], "verbs": ["get", verb]}
        for verb in ("escalate", "bind", "impersonate")
    }
    anonymous = {"kind": GROUP, "apiGroup": RBAC, "name": "system:unauthenticated"}
    refused = {
        f'Role {namespace}/{verb}: RuleForbidden: rules[0].verbs contains "{verb}", which no role '
        "of a virtual cluster may grant": _role(namespace, verb, rule)
        for verb, rule in verbs.items()
    }
    everybody = _binding("RoleBinding", namespace, "all", "ClusterRole", "view", anonymous)
    refused[
        f"RoleBinding {namespace}/all: SubjectForbidden: subjects[0] is group "
        '"system:unauthenticated", which is not allowed'
    ] = everybody
    for number, (text, manifest) in enumerate(refused.items()):
        work = lab.create_work(group, f"refused-{number}", manifest)
        start = f'Failed to apply all manifests (0/1): virtual cluster "{group.name}" refused '
        lab.wait_applied(work, "False", start + text)
        assert lab.host.find(lab.host_path(manifest, group)) is None


def _row(namespace: str, row: str) -> list[Object]:
    """Return a Role for one ConfigMap, named after the row, and a RoleBinding to it."""
    template = SUBJECTS[row][0]
    subject = {key: value.format(virtual=namespace) for key, value in template.items()}
    if subject["kind"] != "ServiceAccount":
        subject["apiGroup"] = RBAC
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [row],
        "verbs": ["get"],
    }
    role = _role(namespace, row, rule)
    return [role, _binding("RoleBinding", namespace, row, "Role", row, subject)]


def _role(namespace: str, name: str, *rules: Object) -> Object:
    made = cluster_role(name, *rules) | {"kind": "Role"}
    made["metadata"]["namespace"] = namespace
    return made


def _binding_to(namespace: str, role: str) -> Object:
    """Return a RoleBinding to a ClusterRole for a user named after it."""
    return _binding("RoleBinding", namespace, f"to-{role}", "ClusterRole", role, _user(role))


def _binding(
    kind: str, namespace: str, name: str, role_kind: str, role: str, *subjects: Object
) -> Object:
    scope = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name} | scope,
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role},
        "subjects": list(subjects),
    }


def _user(name: str) -> Object:
    return {"kind": USER, "apiGroup": RBAC, "name": name}


def _assert_row(lab: Lab, group: Group, other: Group, namespace: str, row: str) -> None:
    _, who, nobody = SUBJECTS[row]
    home, elsewhere = group.host_namespace(namespace), other.host_namespace(namespace)
    names = {"vc": group.name, "ns": home, "virtual": namespace}
    known, unknown = who.named(**names), nobody.named(**names)

    def may_get(asked: Who, where: str) -> bool:
        return may(lab.host, asked, "get", "configmaps", where, row)

    assert may_get(known, home), f"{row}: {known} may not in {home}"
    assert not may_get(known, elsewhere), f"{row}: {known} may in {elsewhere}"
    assert not may_get(known, ""), f"{row}: {known} may everywhere"
    assert not may_get(unknown, home), f"{row}: {unknown} may in {home}"


def _assert_role(
    lab: Lab, group: Group, other: Group, namespace: str, role: str, name: str
) -> None:
    who = Who(f"vc:{group.name}:{role}")
    home, elsewhere = group.host_namespace(namespace), other.host_namespace(namespace)
    for allowed, verb, resource in ROLES[name]:
        about = home if resource == "namespaces" else ""
        assert may(lab.host, who, verb, resource, home, about) is allowed, (role, verb, resource)
        assert not may(lab.host, who, verb, resource, elsewhere), (role, verb, resource)
        assert not may(lab.host, who, verb, resource), (role, verb, resource)


def _assert_everywhere(lab: Lab, group: Group, other: Group, namespace: str) -> None:
    """Assert what a ClusterRoleBinding gives: the role in each namespace of its own."""
    carol = Who(f"vc:{group.name}:carol")
    for own in (namespace, "default"):
        assert may(lab.host, carol, "list", "deployments.apps", group.host_namespace(own))
        assert not may(lab.host, carol, "list", "deployments.apps", other.host_namespace(own))
    for verb, resource in (("list", "deployments.apps"), ("list", "nodes"), ("get", "namespaces")):
        assert not may(lab.host, carol, verb, resource)
