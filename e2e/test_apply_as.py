"""A branch whose manifests are written with the rights of an account of the host."""

from contextlib import suppress

import pytest

from e2e.lab import accounts, objects
from e2e.lab.api import ApiError, Object, collection, path_of
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import PERIODIC_S, wait_until_deleted, within

RBAC = "rbac.authorization.k8s.io/v1"


@pytest.fixture
def group(lab: Lab) -> Group:
    """Serve a branch whose account may write ConfigMaps and Deployments, but not Secrets."""
    group = lab.group("a")
    tenants = f"{lab.id}-agent"  # made by the test, removed with the agent's own
    lab.host.create(objects.namespace(tenants))
    lab.host.create(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "branch", "namespace": tenants},
        }
    )
    for right in _right_to_act_as(lab, tenants, "branch"):
        lab.host.create(right)
    lab.serve(
        group.settings(
            applyAs={"namespace": tenants, "name": "branch", "clusterRole": _role(lab)},
        )
    )
    return group


def _right_to_act_as(lab: Lab, namespace: str, account: str) -> tuple[Object, Object]:
    """Return what manifests/samples/apply-as.yaml gives the agent: one name to impersonate."""
    metadata = {"name": f"{lab.id}-acts-as", "namespace": namespace}
    rule = {
        "apiGroups": [""],
        "resources": ["serviceaccounts"],
        "resourceNames": [account],
        "verbs": ["impersonate"],
    }
    return (
        {"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": [rule]},
        {
            "apiVersion": RBAC,
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": metadata["name"],
            },
            "subjects": [
                {"kind": "ServiceAccount", "name": lab.id, "namespace": f"{lab.id}-agent"}
            ],
        },
    )


def test_what_the_account_may_not_do_is_refused_by_the_server(lab: Lab, group: Group) -> None:
    lab.host.create(_cluster_role(lab))
    try:
        namespace = lab.namespace()
        settings = objects.config_map(namespace)
        lab.propagate([settings], group)
        lab.wait_data(settings, group, key="value")
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "token", "namespace": namespace},
        }
        work = lab.create_work(group, "secret", secret)
        lab.wait_applied(
            work,
            "False",
            "Failed to apply all manifests (0/1): "
            f'virtual cluster "{group.name}" may not create secrets in namespace {namespace}: its '
            'account on the host lacks the rule {apiGroups: [""], resources: [secrets], '
            "verbs: [create]}",
        )
        assert lab.host.find(lab.host_path(secret, group)) is None
        role = {
            "apiVersion": RBAC,
            "kind": "Role",
            "metadata": {"name": "strong", "namespace": namespace},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
        }
        found = lab.wait_applied(lab.create_work(group, "role", role), "False")
        assert "is attempting to grant RBAC permissions not currently held" in _message(found)
        assert "serviceaccount" not in _message(found)
        lab.hub.delete(path_of(settings))
        wait_until_deleted(lab.host, lab.host_path(settings, group))
    finally:
        lab.host.delete(f"{collection(RBAC, 'ClusterRole')}/{_role(lab)}")


def test_binding_of_the_account_is_put_right(lab: Lab, group: Group) -> None:
    path = collection(RBAC, "RoleBinding", group.host_namespace("default")) + "/vc:apply-as"
    made = within(PERIODIC_S, lab.host.get, path)
    lab.host.patch(path, {"subjects": []})

    def look() -> None:
        live = lab.host.get(path)
        assert (live["roleRef"], live["subjects"]) == (made["roleRef"], made["subjects"])

    within(PERIODIC_S, look)
    lab.host.delete(path)
    other = {**made, "roleRef": {**made["roleRef"], "name": "view"}, "metadata": _bare(made)}
    with suppress(ApiError):  # the agent may have put it right before it could be made wrong
        lab.host.create(other)
    within(PERIODIC_S, look)


def _role(lab: Lab) -> str:
    return f"{lab.id}-branch"


def _cluster_role(lab: Lab) -> Object:
    verbs = ["create", "update", "delete"]
    return {
        "apiVersion": RBAC,
        "kind": "ClusterRole",
        "metadata": {"name": _role(lab)},
        "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs},
            {"apiGroups": [RBAC.split("/", maxsplit=1)[0]], "resources": ["roles"], "verbs": verbs},
        ],
    }


def _bare(obj: Object) -> Object:
    return {key: obj["metadata"][key] for key in ("name", "namespace", "labels")}


def _message(work: Object) -> str:
    (found,) = (c["message"] for c in work["status"]["conditions"] if c["type"] == "Applied")
    return str(found)


@pytest.mark.smoke
@pytest.mark.strict
def test_in_strict_each_branch_has_an_account_by_default(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group, tenancy="Strict")
    namespace = lab.namespace()
    settings = objects.config_map(namespace)
    lab.propagate([settings], group)
    lab.wait_data(settings, group, key="value")
    home, role = group.host_namespace(namespace), f"vc-agent:{lab.id}:account"
    assert _bound(lab, home) == {
        f"vc-agent:{lab.id}": (f"vc-agent:{lab.id}:namespace", lab.id),
        "vc:apply-as": (role, f"{group.name}.{lab.id}"),
    }
    lab.host.patch(f"{collection(RBAC, 'ClusterRole')}/{role}", {"rules": []})
    account = accounts.Who(f"system:serviceaccount:{lab.id}-agent:{group.name}.{lab.id}")

    def has_lost_its_rights() -> None:
        assert not accounts.may(lab.host, account, "create", "configmaps", home)

    within(PERIODIC_S, has_lost_its_rights)
    later = lab.create_work(group, "later", objects.config_map(namespace, "later"))
    assert "its account on the host lacks the rule" in _message(lab.wait_applied(later, "False"))


def _bound(lab: Lab, namespace: str) -> dict[str, tuple[str, str]]:
    """Return the RoleBindings of a host namespace: the role and the only account of each."""
    bindings = {
        b["metadata"]["name"]: b for b in lab.host.list(collection(RBAC, "RoleBinding", namespace))
    }
    return {
        name: (binding["roleRef"]["name"], *[each["name"] for each in binding["subjects"]])
        for name, binding in bindings.items()
    }
