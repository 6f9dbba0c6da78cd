"""What the gateway's account may do on the host: be callers of virtual clusters, and read.

A real API server is asked, as that account.
"""

import pytest

from e2e.lab.api import Api, ApiError, Object
from e2e.lab.gateway import Gateway, Way
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import PERIODIC_S, within

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RBAC = "rbac.authorization.k8s.io"
ROLES = f"/apis/{RBAC}/v1/clusterroles"


@pytest.fixture(name="joined", scope="module")
def join(shared_lab: Lab) -> tuple[Lab, Group, Api]:
    """Serve a virtual cluster with the gateway on; nobody answers at its endpoint."""
    lab = shared_lab
    group = lab.group("a")
    gateway = Gateway(lab, Way(lab.directory, by_proxy=False))
    agent = lab.serve(group, gateway=gateway.settings)
    account = Api(gateway.kubeconfig(agent))
    within(PERIODIC_S, lambda: lab.host.get(f"{ROLES}/vc:gateway-v-{group.name}"))
    within(PERIODIC_S, _assert_may, account, "impersonate", "", "users", f"vc:{group.name}:karmada")
    for name in ("karmada-access", "system:masters"):
        caller = _review(lab, group, f"vc:{{}}:{name}")
        for space in (group.host_namespace("default"), group.host_namespace("vc-system")):
            within(PERIODIC_S, _assert_reported, caller, "delete", "apps", "deployments", space)
        within(PERIODIC_S, _assert_reported, caller, "list", "", "nodes", "")
    return lab, group, account


def test_it_may_be_callers_of_its_virtual_clusters(joined: tuple[Lab, Group, Api]) -> None:
    _, group, account = joined
    prefix = f"vc:{group.name}"
    _assert_may(account, "impersonate", "", "groups", prefix)
    _assert_may(account, "impersonate", "", "groups", f"{prefix}:karmada-access")
    space = group.host_namespace("default")
    within(PERIODIC_S, _assert_may, account, "impersonate", "", "serviceaccounts", "web", space)


@pytest.mark.parametrize(
    ("resource", "name", "namespace"),
    [
        ("groups", "system:masters", ""),
        ("groups", "system:nodes", ""),
        ("groups", "vc:neighbour", ""),
        ("users", "system:admin", ""),
        ("users", "system:kube-controller-manager", ""),
        ("users", "vc:neighbour:karmada", ""),
        ("users", "", ""),
        ("groups", "", ""),
        ("serviceaccounts", "default", "kube-system"),
        ("serviceaccounts", "", ""),
    ],
)
def test_gateway_may_impersonate_no_other(
    joined: tuple[Lab, Group, Api], resource: str, name: str, namespace: str
) -> None:
    assert not _may(joined[2], "impersonate", "", resource, name, namespace)


@pytest.mark.parametrize("user", ["system:masters", "system:admin", "vc:neighbour:karmada"])
def test_who_it_may_not_be_is_refused_to_it(joined: tuple[Lab, Group, Api], user: str) -> None:
    with pytest.raises(ApiError, match="cannot impersonate") as refused:
        joined[2].acting_as(user).get("/api/v1/nodes")
    assert refused.value.code == 403


def test_it_lists_what_callers_may_share(joined: tuple[Lab, Group, Api]) -> None:
    account = joined[2]
    for group, resource in (("", "pods"), ("apps", "deployments"), ("", "nodes"), (RBAC, "roles")):
        _assert_may(account, "list", group, resource)
        _assert_may(account, "watch", group, resource)
    _assert_may(account, "create", "authorization.k8s.io", "subjectaccessreviews")


@pytest.mark.parametrize(
    ("verb", "group", "resource"),
    [
        ("list", "", "secrets"),
        ("get", "", "secrets"),
        ("create", "", "pods"),
        ("update", "", "nodes"),
        ("create", "", "pods/exec"),
        ("get", "", "nodes/proxy"),
        ("create", "", "serviceaccounts/token"),
        ("create", RBAC, "clusterrolebindings"),
        ("escalate", RBAC, "clusterroles"),
        ("bind", RBAC, "clusterroles"),
        ("*", "*", "*"),
    ],
)
def test_it_may_neither_write_nor_read_secrets(
    joined: tuple[Lab, Group, Api], verb: str, group: str, resource: str
) -> None:
    assert not _may(joined[2], verb, group, resource)


def test_it_reads_its_secret_and_no_other_of_the_agent(joined: tuple[Lab, Group, Api]) -> None:
    lab, _, account = joined
    space = f"/api/v1/namespaces/{lab.id}-agent/secrets"
    assert account.get(f"{space}/{lab.id}-gateway")["data"]
    for path in (space, f"{space}/karmada-kubeconfig"):
        with pytest.raises(ApiError) as refused:
            account.get(path)
        assert refused.value.code == 403


def test_caller_has_all_of_its_virtual_cluster_and_nothing_beside(
    joined: tuple[Lab, Group, Api],
) -> None:
    lab, group, _ = joined
    caller = _review(lab, group, "vc:{}:karmada-access")
    own, anchor = group.host_namespace("default"), group.host_namespace("vc-system")
    for space in (own, anchor):
        assert caller("delete", "apps", "deployments", space)
        assert caller("get", "", "secrets", space)
        assert caller("create", "", "pods/exec", space)
        assert not caller("create", "", "serviceaccounts/token", space)
        assert not caller("update", "", "resourcequotas", space)
    assert caller("list", "", "nodes", "")
    assert not caller("update", "", "nodes", "")
    assert not caller("list", "", "pods", "")
    for space in ("kube-system", f"{lab.id}-agent", "default"):
        assert not caller("get", "", "pods", space)
        assert not caller("get", "", "secrets", space)


def test_masters_of_the_hub_are_masters_of_their_virtual_cluster_only(
    joined: tuple[Lab, Group, Api],
) -> None:
    lab, group, _ = joined
    caller = _review(lab, group, "vc:{}:system:masters")
    assert caller("delete", "apps", "deployments", group.host_namespace("default"))
    assert not caller("update", "", "nodes", "")
    assert not caller("get", "", "secrets", "kube-system")
    stranger = _review(lab, group, "vc:{}:developers")
    assert not stranger("get", "", "pods", group.host_namespace("default"))


@pytest.mark.parametrize(
    "rule",
    [
        {"apiGroups": [""], "resources": ["groups"], "resourceNames": ["system:masters"]},
        {"apiGroups": [""], "resources": ["users"], "resourceNames": ["vc:neighbour:karmada"]},
        {"apiGroups": [""], "resources": ["users"]},
        {"apiGroups": [""], "resources": ["users"], "resourceNames": []},
        {
            "apiGroups": [""],
            "resources": ["groups"],
            "resourceNames": ["system:serviceaccounts:kube-system"],
        },
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    ],
)
def test_agent_can_grant_the_gateway_no_other_identity(
    joined: tuple[Lab, Group, Api], rule: Object
) -> None:
    lab, group, _ = joined
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": f"{lab.id}-more",
            "labels": {
                "virtualcluster.kubeedge.io/cluster": group.name,
                "virtualcluster.kubeedge.io/gateway": lab.id,
            },
        },
        "rules": [{"verbs": ["impersonate"], **rule}],
    }
    with pytest.raises(ApiError, match="agent-confines"):
        lab.as_agent().create(role)


def test_tenant_cannot_change_who_is_bound(joined: tuple[Lab, Group, Api]) -> None:
    lab, group, _ = joined
    space = group.host_namespace("default")
    path = f"/apis/{RBAC}/v1/namespaces/{space}/rolebindings"
    within(PERIODIC_S, lambda: lab.host.get(f"{path}/vc:admin"))
    tenant = _impersonating(lab, group)
    within(PERIODIC_S, tenant.list, path)  # the host sees its binding a moment later
    for name in ("vc:admin", "vc:gateway"):
        with pytest.raises(ApiError, match="belongs to karmada-vc-agent"):
            tenant.delete(f"{path}/{name}")


def _impersonating(lab: Lab, group: Group) -> Api:
    """Return a client with the rights of an administrator of the virtual cluster."""
    space = group.host_namespace("default")
    lab.host.create(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "tenant", "namespace": space},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "virtual-cluster-admin"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": f"{lab.id}-tenant"}],
        }
    )
    return lab.host.acting_as(f"{lab.id}-tenant")


class _review:  # noqa: N801 - reads as a function that returns one
    """Asks what somebody with a group of a virtual cluster may do."""

    def __init__(self, lab: Lab, group: Group, name: str) -> None:
        self._host = lab.host
        self._group = name.format(group.name)

    def __call__(self, verb: str, group: str, resource: str, namespace: str) -> bool:
        plural, _, sub = resource.partition("/")
        attributes = {
            "verb": verb,
            "group": group,
            "resource": plural,
            "subresource": sub,
            "namespace": namespace,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {"name": ""},
            "spec": {
                "user": "vc:somebody",
                "groups": [self._group],
                "resourceAttributes": attributes,
            },
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self._host.post(path, review)["status"]["allowed"])


def _assert_reported(caller: _review, *attributes: str) -> None:
    assert caller(*attributes), attributes


def _assert_may(
    api: Api, verb: str, group: str, resource: str, name: str = "", namespace: str = ""
) -> None:
    assert _may(api, verb, group, resource, name, namespace), f"{verb} {resource} {name}"


def _may(
    api: Api, verb: str, group: str, resource: str, name: str = "", namespace: str = ""
) -> bool:
    plural, _, sub = resource.partition("/")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": plural,
        "subresource": sub,
        "name": name,
        "namespace": namespace,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return bool(api.post(REVIEWS, review)["status"]["allowed"])
