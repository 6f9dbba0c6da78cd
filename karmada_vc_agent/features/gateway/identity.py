"""Callers: by their own names, and by those on the host (G-12, G-13, G-20, G-21)."""

import re
from collections.abc import Callable, Iterable

import msgspec

from karmada_vc_agent.model.objects import Object, maps_at, texts_at
from karmada_vc_agent.model.vocabulary import DOMAIN
from karmada_vc_agent.translation.rbac import KARMADA_USER, Callers, everyone, identity_prefix

ACCESS_KIND, IMPERSONATOR_KIND = "access", "impersonator"
OPERATOR_KIND = "operator"
"""A host ServiceAccount of the anchor, which an administrator of the site made."""
AUDIENCE = f"gateway.{DOMAIN}"
"""Of tokens of host ServiceAccounts that are for the gateway; the host itself refuses them."""

_ACCOUNT_USER = re.compile(r"system:serviceaccount:([^:]+):([^:]+)")
_ACCOUNTS_GROUP = re.compile(r"system:serviceaccounts:([^:]+)")
_ALL_ACCOUNTS = "system:serviceaccounts"
_AUTHENTICATED = frozenset({"system:authenticated"})
_UNAUTHENTICATED = frozenset({"system:unauthenticated", "system:anonymous"})


class Caller(msgspec.Struct, frozen=True):
    """One caller. user, groups: its own names. host_user, host_groups: those on the host.

    account: the ServiceAccount of an operator of the site, for the audit.
    """

    cluster: str
    kind: str
    user: str
    groups: tuple[str, ...]
    host_user: str
    host_groups: tuple[str, ...]
    account: str = ""


class Impersonation(msgspec.Struct, frozen=True):
    """What the headers Impersonate-* of a request say. others: names of further ones."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def identity_of(
    kind: str, user: str, groups: Iterable[str], callers: Callers, account: str = ""
) -> Caller:
    """Return a caller with its names on the host (G-21). Raises RefusedError."""
    groups = tuple(groups)
    mapped = (
        callers.everyone if group in _AUTHENTICATED else callers.group(group) for group in groups
    )
    host_groups = tuple(dict.fromkeys((*mapped, callers.everyone)))
    return Caller(callers.cluster, kind, user, groups, callers.user(user), host_groups, account)


def is_confined(identity: Caller, is_own: Callable[[str], bool]) -> bool:
    """Whether the names on the host are all those of the virtual cluster.

    A second look, by other means than those that made them, before they are sent. is_own: whether
    no other one may have a host namespace.
    """
    prefix, user = identity_prefix(identity.cluster), identity.host_user
    account = _ACCOUNT_USER.fullmatch(user)
    if not (user.startswith(prefix) or (account is not None and is_own(account[1]))):
        return False
    for group in identity.host_groups:
        accounts = _ACCOUNTS_GROUP.fullmatch(group)
        is_marker = group in (everyone(identity.cluster), _ALL_ACCOUNTS)
        if not (is_marker or group.startswith(prefix) or (accounts and is_own(accounts[1]))):
            return False
    return True


def denial_of(impersonation: Impersonation, kind: str, roles: Iterable[Object]) -> str | None:
    """Return why a token may not be used with these headers; None if it may.

    roles: the absorbed ClusterRoles of the virtual cluster. A rule without resourceNames, which
    Karmada never writes, allows no one: the gateway has no right for it. Source: G-12, G-13, G-20.
    """
    if kind != IMPERSONATOR_KIND:
        is_there = impersonation != Impersonation()
        return "this token must not be used to impersonate" if is_there else None
    if len(impersonation.users) != 1 or not impersonation.users[0]:
        return "this token needs the header Impersonate-User, once"
    if impersonation.others:
        return f"the header {impersonation.others[0]} is not allowed"
    rules = [rule for role in roles for rule in maps_at(role, "rules")]
    user = impersonation.users[0]
    account = _ACCOUNT_USER.fullmatch(user)
    required = [("groups", group) for group in impersonation.groups]
    if not (account and _is_allowed(rules, "serviceaccounts", account[2])):
        required.insert(0, ("users", user))
    for resource, name in required:
        if name in _UNAUTHENTICATED or not _is_allowed(rules, resource, name):
            return (
                f'{resource} "{name}" is forbidden: User "{KARMADA_USER}" cannot impersonate '
                f'resource "{resource}" in API group "" at the cluster scope'
            )
    return None


def _is_allowed(rules: list[Object], resource: str, name: str) -> bool:
    required = {"verbs": "impersonate", "apiGroups": "", "resources": resource}
    return any(
        all(not {value, "*"}.isdisjoint(texts_at(rule, key)) for key, value in required.items())
        and name in texts_at(rule, "resourceNames")
        for rule in rules
    )
