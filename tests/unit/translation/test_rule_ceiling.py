"""Rules of Roles are cut to what a virtual cluster may do, also where they name it."""

from dataclasses import replace

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.translation import rbac_rules
from karmada_vc_agent.translation.context import NoticeCode
from tests.unit.translation import given

ALL = ["get", "create", "delete"]


def cut(
    resource: str, verbs: list[str], group: str = "", tenancy: str = "Shared", *allow: str
) -> tuple[list[Object], list[str]]:
    role: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "r", "namespace": "edge"},
        "rules": [{"apiGroups": [group], "resources": [resource, "pods"], "verbs": verbs}],
    }
    result = given.translated(
        role, given.context(vc={"allow": allow}, settings={"tenancy": tenancy})
    )
    return result.obj["rules"], [notice.code for notice in result.notices]


def granted(rules: list[Object], resource: str) -> list[str]:
    return [verb for rule in rules if resource in rule["resources"] for verb in rule["verbs"]]


@pytest.mark.parametrize("resource", ["resourcequotas", "limitranges", "resourcequotas/status"])
def test_bounds_are_only_read(resource: str) -> None:
    rules, notices = cut(resource, ALL)
    assert granted(rules, resource) == ["get"]
    assert granted(rules, "pods") == ALL
    assert notices == [NoticeCode.RULE_CUT]


@pytest.mark.parametrize("resource", ["serviceaccounts/token", "pods/binding", "bindings"])
def test_tokens_and_bindings_are_never_made(resource: str) -> None:
    rules, notices = cut(resource, ["create"])
    assert granted(rules, resource) == []
    assert granted(rules, "pods") == ["create"]
    assert notices == [NoticeCode.RULE_CUT]


@pytest.mark.parametrize("verb", ["*", "create"])
@pytest.mark.parametrize("resource", ["*", "*/token", "resourcequotas", "serviceaccounts/token"])
def test_wildcards_hold_no_more(resource: str, verb: str) -> None:
    rules, _ = cut(resource, [verb])
    assert granted(rules, "serviceaccounts/token") == []
    assert set(granted(rules, "resourcequotas")) <= {"get", "list", "watch"}


UNTRANSLATED = [
    ("", "services/status"),
    ("", "pods/status"),
    ("", "endpoints"),
    ("resource.k8s.io", "resourceclaims/status"),
    ("snapshot.storage.k8s.io", "volumesnapshots/status"),
    ("storage.k8s.io", "csistoragecapacities"),
    ("discovery.k8s.io", "endpointslices"),
    ("apps.kubeedge.io", "edgeapplications"),
    ("reliablesyncs.kubeedge.io", "objectsyncs"),
    ("reliablesyncs.kubeedge.io", "objectsyncs/status"),
    ("reliablesyncs.kubeedge.io", "reliablesyncs"),
    ("virtualcluster.kubeedge.io", "virtualclusters"),
    ("devices.kubeedge.io", "devices"),
    ("rules.kubeedge.io", "rules"),
    ("rules.kubeedge.io", "ruleendpoints"),
]
PROXIES = [("", "services/proxy"), ("", "pods/proxy")]
HELM_RELEASES = ("helm.toolkit.fluxcd.io", "helmreleases")


@pytest.mark.parametrize(("group", "resource"), UNTRANSLATED)
def test_what_is_translated_is_only_read(group: str, resource: str) -> None:
    rules, notices = cut(resource, ALL, group)
    assert granted(rules, resource) == ["get"]
    assert NoticeCode.RULE_CUT in notices


@pytest.mark.parametrize(("group", "resource"), PROXIES)
def test_nothing_is_reached_by_proxy(group: str, resource: str) -> None:
    rules, _ = cut(resource, ALL, group)
    assert granted(rules, resource) == []


def test_the_agent_holds_what_it_grants_and_what_works_bring() -> None:
    served = [*given.SERVED, *UNTRANSLATED, *PROXIES, HELM_RELEASES]
    for is_strict in (False, True):
        most = held(rbac_rules.admin_rules(served, is_strict=is_strict))
        assert most <= held(rbac_rules.agent_rules(served))
        assert not {(*each, "create") for each in (*UNTRANSLATED, *PROXIES)} & most
        assert ((*HELM_RELEASES, "create") in most) != is_strict
    assert (*UNTRANSLATED[2], "create") in held(rbac_rules.agent_rules(served))


def held(rules: tuple[Object, ...]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize(("tenancy", "verbs"), [("Shared", ALL), ("Strict", ["get"])])
def test_kinds_of_controllers_are_only_read_between_tenants(tenancy: str, verbs: list[str]) -> None:
    rules, _ = cut(HELM_RELEASES[1], ALL, HELM_RELEASES[0], tenancy)
    assert granted(rules, HELM_RELEASES[1]) == verbs


ISTIO = "networking.istio.io"


@pytest.mark.parametrize("verbs", [ALL, ["*"]])
@pytest.mark.parametrize(
    ("allow", "is_written"),
    [
        ((), False),
        ((f"{ISTIO}/Sidecar",), False),
        (("UnknownKinds",), True),
        ((f"{ISTIO}/*",), True),
        ((f"{ISTIO}/ServiceEntry",), True),
        ((f"apiextensions.k8s.io/CustomResourceDefinition/serviceentries.{ISTIO}",), True),
    ],
)
def test_kinds_that_no_table_knows_are_written_between_tenants_where_allow_has_them(
    allow: tuple[str, ...], verbs: list[str], *, is_written: bool
) -> None:
    for resource in ("serviceentries", "serviceentries/status"):
        rules, _ = cut(resource, verbs, ISTIO, "Strict", *allow)
        assert ("create" in granted(rules, resource)) == is_written
        assert "get" in granted(rules, resource)


@pytest.mark.parametrize(
    ("tenancy", "allow", "is_written"),
    [("Shared", (), True), ("Strict", (), False), ("Strict", ("monitoring.coreos.com/*",), True)],
)
def test_kinds_that_only_a_translation_confines_are_read_between_tenants(
    tenancy: str, allow: tuple[str, ...], *, is_written: bool
) -> None:
    rules, _ = cut("servicemonitors", ALL, "monitoring.coreos.com", tenancy, *allow)
    assert ("create" in granted(rules, "servicemonitors")) == is_written


def test_groups_that_are_the_hosts_are_only_read_by_wildcards_too() -> None:
    served = [*given.SERVED, ("reliablesyncs.kubeedge.io", "reliablesyncs")]
    context = replace(given.context(), admin_rules=rbac_rules.admin_rules(served))
    for groups in (["*"], ["reliablesyncs.kubeedge.io"]):
        for resources in (["*"], ["reliablesyncs"]):
            rule = {"apiGroups": groups, "resources": resources, "verbs": ["*"]}
            role: Object = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": "r", "namespace": "edge"},
                "rules": [rule],
            }
            rules = given.host_object(role, context)["rules"]
            assert granted(rules, "reliablesyncs") == ["get", "list", "watch"]


def test_every_group_holds_no_more() -> None:
    rules, _ = cut("resourcequotas", ALL, "*")
    assert granted(rules, "resourcequotas") == ["get"]


def test_what_is_within_stays_as_it_is_written() -> None:
    rules, notices = cut("resourcequotas", ["get", "list"])
    assert rules == [
        {"apiGroups": [""], "resources": ["resourcequotas", "pods"], "verbs": ["get", "list"]}
    ]
    assert notices == []


def test_resources_of_another_group_are_others() -> None:
    rules, notices = cut("resourcequotas", ALL, "example.com")
    assert granted(rules, "resourcequotas") == ALL
    assert notices == []
