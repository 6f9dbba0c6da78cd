"""Rules of Roles are cut to what a virtual cluster may do, also where they name it."""

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.translation.notices import NoticeCode
from tests.unit.translation import given

ALL = ["get", "create", "delete"]


def cut(resource: str, verbs: list[str], group: str = "") -> tuple[list[Object], list[str]]:
    role: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "r", "namespace": "edge"},
        "rules": [{"apiGroups": [group], "resources": [resource, "pods"], "verbs": verbs}],
    }
    result = given.translated(role)
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
