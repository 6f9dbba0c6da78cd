"""Who may ask on whose behalf, and who that is on the host."""

from typing import Any

import pytest

from karmada_vc_agent.features.gateway.identity import (
    ACCESS_KIND,
    IMPERSONATOR_KIND,
    Impersonation,
    denial_of,
    identity_of,
    is_confined,
)
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualNamespace
from karmada_vc_agent.translation.context import Names, NamespaceTemplate
from karmada_vc_agent.translation.rbac import Callers

NAMES = Names(
    "a",
    NamespaceTemplate.parse("{namespace}-v-{cluster}"),
    {VirtualNamespace("edge"): HostNamespace("edge-v-a")},
)
CALLERS = Callers("a", NAMES)
OWN = frozenset({"edge-v-a", "gone-v-a"}).__contains__


def _role(**names: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "rules": [
                {"apiGroups": [""], "verbs": ["impersonate"], "resources": [r], "resourceNames": n}
                for r, n in names.items()
            ]
        }
    ]


@pytest.mark.parametrize(
    ("user", "host"),
    [
        ("alice", "vc:a:alice"),
        ("system:masters", "vc:a:system:masters"),
        ("system:serviceaccount:edge:bot", "system:serviceaccount:edge-v-a:bot"),
        ("system:serviceaccount:gone:bot", "system:serviceaccount:gone-v-a:bot"),
        ("vc:b:alice", "vc:a:vc:b:alice"),
        ("system:serviceaccount:edge", "vc:a:system:serviceaccount:edge"),
    ],
)
def test_a_user_has_the_prefix_or_is_an_account_of_the_virtual_cluster(
    user: str, host: str
) -> None:
    who = identity_of(IMPERSONATOR_KIND, user, (), CALLERS)
    assert who.host_user == host
    assert who.host_groups == ("vc:a",)
    assert is_confined(who, OWN)


@pytest.mark.parametrize(
    ("group", "host"),
    [
        ("system:masters", "vc:a:system:masters"),
        ("system:serviceaccounts", "system:serviceaccounts"),
        ("system:serviceaccounts:edge", "system:serviceaccounts:edge-v-a"),
        ("system:authenticated", "vc:a"),
        ("vc:b", "vc:a:vc:b"),
    ],
)
def test_a_group_is_mapped_and_the_marker_is_there(group: str, host: str) -> None:
    who = identity_of(IMPERSONATOR_KIND, "u", (group,), CALLERS)
    assert set(who.host_groups) == {host, "vc:a"}
    assert is_confined(who, OWN)


def test_an_account_of_a_foreign_namespace_is_not_confined() -> None:
    who = identity_of(IMPERSONATOR_KIND, "system:serviceaccount:edge:x", (), CALLERS)
    assert not is_confined(who, frozenset[str]().__contains__)
    who = identity_of(IMPERSONATOR_KIND, "u", ("system:serviceaccounts:edge",), CALLERS)
    assert not is_confined(who, frozenset[str]().__contains__)


def test_token_of_kind_access_impersonates_no_one() -> None:
    assert denial_of(Impersonation(), ACCESS_KIND, []) is None
    for asked in (Impersonation(users=("a",)), Impersonation(others=("Impersonate-Uid",))):
        assert denial_of(asked, ACCESS_KIND, _role(users=["a"]))


@pytest.mark.parametrize(
    ("asked", "allowed", "is_denied"),
    [
        (Impersonation(), {"users": ["a"]}, True),
        (Impersonation(users=("a",)), {}, True),
        (Impersonation(users=("a",)), {"users": ["b"]}, True),
        (Impersonation(users=("a",)), {"users": ["a"]}, False),
        (Impersonation(users=("a",)), {"users": []}, True),
        (Impersonation(users=("a", "a")), {"users": ["a"]}, True),
        (Impersonation(users=("a",), groups=("g",)), {"users": ["a"]}, True),
        (Impersonation(users=("a",), groups=("g",)), {"users": ["a"], "groups": ["g"]}, False),
        (Impersonation(users=("a",), groups=("g", "h")), {"users": ["a"], "groups": ["g"]}, True),
        (Impersonation(users=("a",), others=("Impersonate-Uid",)), {"users": ["a"]}, True),
        (
            Impersonation(users=("system:serviceaccount:n:bot",)),
            {"serviceaccounts": ["bot"]},
            False,
        ),
        (Impersonation(users=("bot",)), {"serviceaccounts": ["bot"]}, True),
        (
            Impersonation(users=("a",), groups=("system:unauthenticated",)),
            {"users": ["a"], "groups": ["system:unauthenticated"]},
            True,
        ),
    ],
)
def test_karmada_names_who_may_be_impersonated(
    *, asked: Impersonation, allowed: dict[str, list[str]], is_denied: bool
) -> None:
    assert (denial_of(asked, IMPERSONATOR_KIND, _role(**allowed)) is not None) is is_denied


def test_a_denial_has_the_words_of_an_api_server() -> None:
    assert denial_of(Impersonation(users=("bob",)), IMPERSONATOR_KIND, []) == (
        'users "bob" is forbidden: User "karmada" cannot impersonate resource "users" in API '
        'group "" at the cluster scope'
    )
