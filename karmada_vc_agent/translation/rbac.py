"""Subjects and roleRefs, and identities of callers of the gateway (5.2).

Users and groups of the hub get the prefix of their virtual cluster, so that no name of the hub
means anything on the host.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, dig, list_at, text_at
from karmada_vc_agent.model.vocabulary import Rule
from karmada_vc_agent.translation import rbac_rules
from karmada_vc_agent.translation.context import (
    Direction,
    Draft,
    Names,
    Notice,
    NoticeCode,
    TranslationContext,
    host_name,
)
from karmada_vc_agent.translation.kind_policy import IMPERSONATOR, Code, RefusedError

CONVERTED_PREFIX = "vc:crb:"

_SERVICE_ACCOUNT_GROUP = "system:serviceaccounts:"
_USER, _GROUP, _ACCOUNT = "User", "Group", "ServiceAccount"
_ALL_ACCOUNTS = "system:serviceaccounts"
_AUTHENTICATED = (_GROUP, "system:authenticated")
_UNAUTHENTICATED = (_GROUP, "system:unauthenticated")
_MapNamespace = Callable[[str, str], str]
"""(namespace, path) -> its name on the other side."""


def identity_prefix(cluster: str) -> str:
    """Return the prefix of user and group names of a virtual cluster on the host."""
    return f"vc:{cluster}:"


def everyone(cluster: str) -> str:
    """Return the host group of all identities of a virtual cluster."""
    return f"vc:{cluster}"


def confine_rules(draft: Draft) -> None:
    """Expand `*`, and cut rules to what `virtual-cluster-admin` may (rewriting-rules 5.2)."""
    obj, context = draft.obj, draft.context
    if obj.get("rules") is None:
        return
    rules = _list(obj["rules"], "rules", Code.RULE_FORBIDDEN)
    if sum(map(rbac_rules.combinations, rules)) > rbac_rules.COMBINATIONS_MAX:
        most = rbac_rules.COMBINATIONS_MAX
        detail = f"rules combine more than {most} API groups, resources and verbs; divide them"
        raise RefusedError(Code.RULE_FORBIDDEN, "rules", detail)
    obj["rules"] = [
        allowed
        for index, rule in enumerate(rules)
        for allowed in rbac_rules.allowed_rules(
            rule,
            f"rules[{index}]",
            context.admin_rules,
            draft.direction,
            allow=context.allow_in_strict,
            is_of_cluster="namespace" not in obj["metadata"],
        )
    ]


def confine_subjects(draft: Draft) -> None:
    """Map subjects to names of the virtual cluster, and the ClusterRole (rewriting-rules 5.2)."""
    if (subjects := draft.obj.get("subjects")) is not None:
        listed = _list(subjects, "subjects", Code.SUBJECT_FORBIDDEN)
        draft.depends_on_claims |= any(map(_is_all_service_accounts, listed))
    map_subjects(draft)


def rules_cut(manifest: Object, context: TranslationContext) -> Iterator[Notice]:
    """Report the rules that were cut (`RuleCut`)."""
    for index, rule in enumerate(list_at(manifest, "rules")):
        cut = list(rbac_rules.beyond(rule, context.allow_in_strict))
        if cut:
            detail = f"rules[{index}] was cut to what a virtual cluster may grant; removed: "
            yield Notice(NoticeCode.RULE_CUT, detail + "; ".join(cut))


def role_binding_in(cluster_role_binding: Object, host_namespace: str) -> Object:
    """Return what a ClusterRoleBinding, as rewritten for the host, is in one namespace (5.2)."""
    metadata = cluster_role_binding["metadata"]
    return {
        **cluster_role_binding,
        "kind": vocabulary.ROLE_BINDING.kind,
        "metadata": {
            **metadata,
            "name": f"{CONVERTED_PREFIX}{metadata['name']}",
            "namespace": host_namespace,
            "labels": dict(metadata.get("labels") or {}),
        },
    }


def restore_rules(draft: Draft) -> None:
    """Restore the virtual names in rules on namespaces."""
    for rule in list_at(draft.obj, "rules"):
        if not rbac_rules.restore_written(rule):
            rbac_rules.rename_namespaces(rule, "rules", draft.direction)


def map_subjects(draft: Draft) -> None:
    """Restore the virtual names of subjects and of the ClusterRole."""
    obj, subjects = draft.obj, draft.obj.get("subjects")
    if isinstance(subjects, list):
        obj["subjects"] = list(_mapped_subjects(subjects, draft))
    if obj.get("roleRef") is not None:
        obj["roleRef"] = _mapped_role_ref(obj["roleRef"], draft.direction)


def _is_all_service_accounts(subject: Any) -> bool:
    return (dig(subject, "kind"), dig(subject, "name")) == (_GROUP, _ALL_ACCOUNTS)


def _mapped_subjects(subjects: list[Any], draft: Draft) -> Iterator[Any]:
    """Map subjects; on the host all ServiceAccounts are, once, those of each claimed namespace."""
    direction = draft.direction
    is_expanded = False
    for index, subject in enumerate(subjects):
        if not (direction.to_host and _is_all_service_accounts(subject)):
            yield _mapped_subject(subject, f"subjects[{index}]", draft.context.vc.name, direction)
        elif not is_expanded:
            is_expanded = True
            for namespace in sorted(direction.names.claims.values()):
                yield {**subject, "name": _SERVICE_ACCOUNT_GROUP + namespace}


def _mapped_subject(subject: Any, path: str, cluster: str, direction: Direction) -> Any:
    """Map a subject; what is not understood is refused, and kept on the way back."""
    kind, name, namespace = (
        text_at(subject, "kind"),
        dig(subject, "name"),
        dig(subject, "namespace"),
    )
    if kind == _ACCOUNT and namespace and (direction.to_host or isinstance(namespace, str)):
        return {**subject, "namespace": direction.namespace(str(namespace), f"{path}.namespace")}
    if kind not in (_USER, _GROUP) or not isinstance(name, str):
        if direction.to_host and kind != _ACCOUNT:
            detail = (
                f'{path} has kind "{dig(subject, "kind")}", must be User, Group or ServiceAccount'
            )
            raise RefusedError(Code.SUBJECT_FORBIDDEN, path, detail)
        return subject
    if direction.to_host and (kind, name) == _UNAUTHENTICATED:
        detail = f'{path} is group "{name}", which is not allowed'
        raise RefusedError(Code.SUBJECT_FORBIDDEN, path, detail)
    before, after = _AUTHENTICATED[1], everyone(cluster)
    if not direction.to_host:
        before, after = after, before
    if (kind, name) == (_GROUP, before):
        return {**subject, "name": after}
    if direction.to_host:
        mapped = host_subject_name(kind, name, cluster, direction.namespace, path)
    else:
        of_account = _of_accounts(kind, name, path, direction.namespace)
        mapped = of_account or name.removeprefix(identity_prefix(cluster))
    return {**subject, "name": mapped}


def host_subject_name(
    kind: str, name: str, cluster: str, map_namespace: _MapNamespace, path: str = ""
) -> str:
    """Return the host name of a User or Group of a virtual cluster; path: its place."""
    return _of_accounts(kind, name, path, map_namespace) or identity_prefix(cluster) + name


def _of_accounts(kind: str, name: str, path: str, map_namespace: _MapNamespace) -> str | None:
    """Map the namespace in the name of a ServiceAccount, or a group of these; None for others."""
    if kind == _USER:
        namespace, account = vocabulary.service_account_of(name) or ("", "")
        if not namespace:
            return None
        return vocabulary.service_account_user(map_namespace(namespace, f"{path}.name"), account)
    namespace = name.removeprefix(_SERVICE_ACCOUNT_GROUP)
    if namespace == name or not namespace or ":" in namespace:
        return None
    return _SERVICE_ACCOUNT_GROUP + map_namespace(namespace, f"{path}.name")


def _mapped_role_ref(role_ref: Any, direction: Direction) -> Any:
    """Map the role by its name only: roleRef is immutable, and Works are in any order."""
    kind, name = text_at(role_ref, "kind"), dig(role_ref, "name")
    if kind == vocabulary.ROLE.kind:  # it keeps its name on the host
        return role_ref
    if kind != vocabulary.CLUSTER_ROLE.kind or not isinstance(name, str):
        if direction.to_host:
            detail = f'roleRef has kind "{dig(role_ref, "kind")}", must be Role or ClusterRole'
            raise RefusedError(Code.RULE_FORBIDDEN, "roleRef.kind", detail)
        return role_ref
    if direction.to_host and name == IMPERSONATOR:
        detail = f'roleRef.name is "{name}", which is reserved for Karmada'
        raise RefusedError(Code.REFERENCE_FORBIDDEN, "roleRef.name", detail)
    of_tenants = vocabulary.TENANT_ROLES if direction.to_host else vocabulary.BUILT_INS
    return {**role_ref, "name": of_tenants.get(name) or direction.name(name)}


def _list(value: Any, path: str, code: Code) -> list[Any]:
    if not isinstance(value, list):
        raise RefusedError(code, path, f"{path} is not a list")
    return value


KARMADA_USER = "karmada"
"""The user, before the prefix, of a caller with a token of kind access."""
OPERATOR_USER = "operator"
"""The user, before the prefix, of all operators of the site: a role cannot name each of them."""
ACCESS_GROUP = "karmada-access"
MASTERS_GROUP = "system:masters"
ADMIN_GROUPS = (MASTERS_GROUP, ACCESS_GROUP)
"""Groups, before the prefix, with all rights in their virtual cluster."""

_IDENTITIES = "vc:gateway"


@dataclass(frozen=True, slots=True)
class Callers:
    """Maps the callers of one virtual cluster, by its name, to identities on the host."""

    cluster: str
    names: Names

    def user(self, name: str) -> str:
        """Return the user on the host for one of the hub. Raises RefusedError."""
        return host_subject_name("User", name, self.cluster, self._map_namespace)

    def group(self, name: str) -> str:
        """Return the group on the host for one of the hub. Raises RefusedError."""
        if name == _ALL_ACCOUNTS:
            return name
        return host_subject_name("Group", name, self.cluster, self._map_namespace)

    def _map_namespace(self, namespace: str, _path: str) -> str:
        """Map any namespace: an account of one that is missing is no one, not a refusal."""
        return self.names.host_namespace(namespace)

    @property
    def everyone(self) -> str:
        """The group that each identity of the virtual cluster has."""
        return everyone(self.cluster)

    def role(self, agent: str, absorbed: Object | None) -> Object:
        """Return the ClusterRole that lists whom the gateway may impersonate.

        absorbed: the stored role of Karmada; a rule of it without resourceNames allows no one.
        agent: the label by which the role is aggregated into the gateway's.
        """
        users, groups = _allowed(absorbed, "users"), _allowed(absorbed, "groups")
        host_users = {self.user(KARMADA_USER), self.user(OPERATOR_USER), *_each(self.user, users)}
        host_groups = {self.everyone, self.group(ACCESS_GROUP), *_each(self.group, groups)}
        rules = [
            Rule(("",), (resource,), ("impersonate",), tuple(sorted(each))).as_object()
            for resource, each in (("users", host_users), ("groups", host_groups))
        ]
        labels = {vocabulary.CLUSTER_LABEL: self.cluster, vocabulary.GATEWAY_LABEL: agent}
        metadata = {"name": host_name(_IDENTITIES, self.names.cluster), "labels": labels}
        kind = vocabulary.CLUSTER_ROLE.kind
        return {
            "apiVersion": vocabulary.RBAC_API,
            "kind": kind,
            "metadata": metadata,
            "rules": rules,
        }


def admin_groups(cluster: str) -> tuple[str, ...]:
    """Return the groups on the host with all rights in a virtual cluster."""
    return tuple(identity_prefix(cluster) + group for group in ADMIN_GROUPS)


def absorbed_name(name_on_host: str) -> str:
    """Return the host ClusterRole that Karmada's rules for a virtual cluster are stored in."""
    return host_name(IMPERSONATOR, name_on_host)


def _each(mapping: Callable[[str], str], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name.startswith(vocabulary.SERVICE_ACCOUNT_PREFIX):
            continue
        try:
            yield mapping(name)
        except RefusedError:
            continue  # of a namespace whose host name another one has


def _allowed(role: Object | None, resource: str) -> set[str]:
    return {
        str(name)
        for rule in dig(role, "rules") or ()
        if isinstance(rule, Mapping)
        and "impersonate" in (rule.get("verbs") or ())
        and resource in (rule.get("resources") or ())
        for name in rule.get("resourceNames") or ()
    }
