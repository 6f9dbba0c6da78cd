"""Roles of a gateway: it is nobody's administrator, and its callers only read what they share."""

from karmada_vc_agent.access.rights import HostAccess, host_bindings, host_reasons, host_roles
from karmada_vc_agent.model.objects import Object, key_of
from karmada_vc_agent.model.virtual_cluster import STRICT

KINDS = (("", "configmaps"), ("", "pods"), ("", "secrets"), ("apps", "deployments"))
CALLERS = ("vc:branch-a:system:masters", "vc:branch-a:karmada-access")
ACCESS = HostAccess(
    "a",
    "home",
    (),
    namespaced=KINDS,
    shared=(("storage.k8s.io", "storageclasses"),),
    gateway_callers=CALLERS,
)
OWN, READER = "ClusterRole vc-agent:a:gateway", "ClusterRole virtual-cluster-reader"


def by_key(objects: list[Object]) -> dict[str, Object]:
    return {str(key_of(obj)): obj for obj in objects}


def of_gateway(objects: list[Object]) -> dict[str, Object]:
    return {key: obj for key, obj in by_key(objects).items() if ":gateway" in key or key == READER}


ROLES = of_gateway(host_roles(ACCESS))
BINDINGS = of_gateway(host_bindings(ACCESS))


def granted(role: str) -> set[tuple[str, str, str]]:
    """Return (group, resource, verb) of a role."""
    return {
        (group, resource, verb)
        for rule in ROLES[role]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_no_rule_has_a_wildcard() -> None:
    for role in ROLES.values():
        for rule in role.get("rules", ()):
            assert not any("*" in values for values in rule.values()), role["metadata"]


def test_gateway_writes_nothing_but_questions() -> None:
    writes = {each for each in granted(OWN) if each[2] not in ("get", "list", "watch")}
    assert writes == {
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
        ("authentication.k8s.io", "tokenreviews", "create"),
    }


def test_gateway_reads_no_secrets_but_its_own() -> None:
    assert not any(resource == "secrets" for _, resource, _ in granted(OWN))
    (rule,) = ROLES["Role home/vc-agent:a:gateway"]["rules"]
    assert rule["resourceNames"] == ["a-gateway"]
    assert rule["verbs"] == ["get", "list", "watch"]


def test_identities_are_listed_by_the_roles_of_virtual_clusters_alone() -> None:
    role = ROLES["ClusterRole vc-agent:a:gateway:identities"]
    assert "rules" not in role
    (selector,) = role["aggregationRule"]["clusterRoleSelectors"]
    assert selector == {"matchLabels": {"virtualcluster.kubeedge.io/gateway": "a"}}
    impersonating = [
        name
        for name, each in ROLES.items()
        if any("impersonate" in rule["verbs"] for rule in each.get("rules", ()))
    ]
    assert impersonating == ["ClusterRole vc-agent:a:gateway:accounts"]


def test_accounts_role_is_bound_by_nothing_cluster_wide() -> None:
    bound = {binding["roleRef"]["name"] for binding in BINDINGS.values()}
    assert "vc-agent:a:gateway:accounts" not in bound


def test_callers_read_what_has_no_namespace() -> None:
    readers = BINDINGS["ClusterRoleBinding vc-agent:a:gateway:readers"]
    assert readers["roleRef"]["name"] == "virtual-cluster-reader"
    assert [each["name"] for each in readers["subjects"]] == list(CALLERS)
    assert {verb for _, _, verb in granted(READER)} == {"get", "list", "watch"}
    found = {(group, resource) for group, resource, _ in granted(READER)}
    assert {("", "nodes"), ("", "namespaces"), ("storage.k8s.io", "storageclasses")} <= found
    assert ("", "secrets") not in found


def test_every_rule_has_a_reason() -> None:
    reasons = host_reasons(ACCESS)
    for name, role in ROLES.items():
        if "rules" in role:
            assert len(reasons[name]) == len(role["rules"])
            assert all(reasons[name])


def test_agent_has_more_rights_only_while_the_gateway_is_on() -> None:
    ceiling: tuple[Object, ...] = ()
    off = by_key(host_roles(HostAccess("a", "home", ceiling, tenancy=STRICT)))
    on = by_key(
        host_roles(HostAccess("a", "home", ceiling, tenancy=STRICT, gateway_callers=CALLERS))
    )
    assert set(on) - set(off) == set(ROLES)
    binds = [r for r in on["ClusterRole vc-agent:a"]["rules"] if r["verbs"] == ["bind"]]
    assert {"virtual-cluster-admin", "virtual-cluster-reader", "vc-agent:a:gateway:accounts"} <= {
        *binds[0]["resourceNames"]
    }
    added = [
        rule
        for rule in on["Role home/vc-agent:a"]["rules"]
        if rule not in off["Role home/vc-agent:a"]["rules"]
    ]
    assert [rule["resourceNames"] for rule in added] == [["a-gateway"]]
    bound = by_key(host_bindings(HostAccess("a", "home", ceiling, gateway_callers=CALLERS)))
    assert set(BINDINGS) <= set(bound)
