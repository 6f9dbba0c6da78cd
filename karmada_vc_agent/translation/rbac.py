"""Subjects and roleRefs; rules stand in rbac_rules.py (rewriting-rules 5.2).

What is not understood is refused, never let through. Functions change what they are given;
callers work on a copy of their own.
"""

from dataclasses import dataclass
from typing import Any

from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig
from karmada_vc_agent.model.rbac_rule import NAMESPACE_ADMIN
from karmada_vc_agent.model.well_known import RBAC_GROUP
from karmada_vc_agent.translation import rbac_rules
from karmada_vc_agent.translation.kind_policy import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    IMPERSONATOR,
)
from karmada_vc_agent.translation.names import Direction
from karmada_vc_agent.translation.refusal import Code, RefusedError

VIRTUAL_CLUSTER_ADMIN = NAMESPACE_ADMIN

_CLUSTER_ADMIN = "cluster-admin"
_HOST_BUILT_INS = frozenset({"admin", "edit", "view"})
CONVERTED_PREFIX = "vc:crb:"

_SERVICE_ACCOUNT_USER = "system:serviceaccount:"
_SERVICE_ACCOUNT_GROUP = "system:serviceaccounts:"
_ALL_SERVICE_ACCOUNTS = "system:serviceaccounts"
_AUTHENTICATED = "system:authenticated"
_UNAUTHENTICATED = "system:unauthenticated"


def identity_prefix(cluster: str) -> str:
    """Return what user and group names of a virtual cluster begin with on the host."""
    return f"vc:{cluster}:"


def everyone(cluster: str) -> str:
    """Return the host group of all identities of a virtual cluster."""
    return f"vc:{cluster}"


@dataclass(frozen=True, slots=True)
class Confines:
    """What RBAC objects of a virtual cluster may reach.

    admin_rules: the most a rule may grant, as rbac_rules.admin_rules() made them.
    host_namespaces: the claimed ones. is_strict: whether the profile is Strict.
    """

    cluster: str
    admin_rules: tuple[Object, ...]
    host_namespaces: tuple[str, ...]
    is_strict: bool = False


def is_role(gvk: GroupVersionKind) -> bool:
    """Whether this is a Role or a ClusterRole."""
    return (gvk.group, gvk.kind) in ((RBAC_GROUP, "Role"), CLUSTER_ROLE)


def is_role_binding(gvk: GroupVersionKind) -> bool:
    """Whether this is a RoleBinding or a ClusterRoleBinding."""
    return (gvk.group, gvk.kind) in ((RBAC_GROUP, "RoleBinding"), CLUSTER_ROLE_BINDING)


def to_host(obj: Object, gvk: GroupVersionKind, confines: Confines, direction: Direction) -> bool:
    """Rewrite an RBAC object so that it grants nothing outside its virtual cluster.

    Returns whether the result rests on which namespaces are claimed.
    Refuses RuleForbidden, SubjectForbidden, ReferenceForbidden.
    """
    depends_on_claims = False
    if is_role(gvk) and obj.get("rules") is not None:
        rules = enumerate(_list(obj["rules"], "rules", Code.RULE_FORBIDDEN))
        obj["rules"] = [
            allowed
            for index, rule in rules
            for allowed in rbac_rules.allowed_rules(
                rule,
                f"rules[{index}]",
                confines.admin_rules,
                direction,
                is_strict=confines.is_strict,
            )
        ]
    if is_role_binding(gvk):
        if obj.get("subjects") is not None:
            subjects = _list(obj["subjects"], "subjects", Code.SUBJECT_FORBIDDEN)
            depends_on_claims = any(_is_all_service_accounts(each) for each in subjects)
            obj["subjects"] = [
                mapped
                for index, subject in enumerate(subjects)
                for mapped in _host_subjects(subject, f"subjects[{index}]", confines, direction)
            ]
        if obj.get("roleRef") is not None:
            obj["roleRef"] = _host_role_ref(obj["roleRef"], direction)
    return depends_on_claims


def role_binding_in(cluster_role_binding: Object, host_namespace: str) -> Object:
    """Return the RoleBinding that stands for a ClusterRoleBinding in one namespace.

    cluster_role_binding: already rewritten for the host. Source: rewriting-rules 5.2.
    """
    metadata = cluster_role_binding["metadata"]
    return {
        **cluster_role_binding,
        "kind": "RoleBinding",
        "metadata": {
            **metadata,
            "name": f"{CONVERTED_PREFIX}{metadata['name']}",
            "namespace": host_namespace,
            "labels": dict(metadata.get("labels") or {}),
        },
    }


def to_virtual(obj: Object, gvk: GroupVersionKind, cluster: str, direction: Direction) -> None:
    """Give the subjects, roleRef and names of namespaces in rules their virtual names back."""
    if is_role(gvk):
        rules = obj.get("rules")
        for rule in rules if isinstance(rules, list) else ():
            rbac_rules.rename_namespaces(rule, "rules", direction)
    if is_role_binding(gvk):
        subjects = obj.get("subjects")
        if isinstance(subjects, list):
            obj["subjects"] = [_virtual_subject(each, cluster, direction) for each in subjects]
        if obj.get("roleRef") is not None:
            obj["roleRef"] = _virtual_role_ref(obj["roleRef"], direction)


def _is_all_service_accounts(subject: Any) -> bool:
    return bool(dig(subject, "kind") == "Group" and dig(subject, "name") == _ALL_SERVICE_ACCOUNTS)


def _host_subjects(
    subject: Any, path: str, confines: Confines, direction: Direction
) -> list[Object]:
    """Map one subject; all ServiceAccounts become those of each claimed namespace."""
    if not _is_all_service_accounts(subject):
        return [_host_subject(subject, path, confines.cluster, direction)]
    groups = (_SERVICE_ACCOUNT_GROUP + namespace for namespace in confines.host_namespaces)
    return [{**subject, "name": group} for group in groups]


def _host_subject(subject: Any, path: str, cluster: str, direction: Direction) -> Object:
    kind, name = dig(subject, "kind"), dig(subject, "name")
    if kind == "ServiceAccount":
        namespace = dig(subject, "namespace")
        if not namespace:
            return dict(subject)
        return {**subject, "namespace": direction.namespace(str(namespace), f"{path}.namespace")}
    if kind not in ("User", "Group") or not isinstance(name, str):
        detail = f'{path} has kind "{kind}", known are User, Group and ServiceAccount'
        raise RefusedError(Code.SUBJECT_FORBIDDEN, path, detail)
    if kind == "Group" and name == _UNAUTHENTICATED:
        detail = f'{path} is group "{name}", which is not allowed'
        raise RefusedError(Code.SUBJECT_FORBIDDEN, path, detail)
    if kind == "Group" and name == _AUTHENTICATED:
        return {**subject, "name": everyone(cluster)}
    mapped = _service_account_form(kind, name, path, direction)
    return {**subject, "name": mapped or identity_prefix(cluster) + name}


def _virtual_subject(subject: Any, cluster: str, direction: Direction) -> Any:
    kind, name, namespace = (dig(subject, field) for field in ("kind", "name", "namespace"))
    if kind == "ServiceAccount" and namespace and isinstance(namespace, str):
        return {**subject, "namespace": direction.namespace(namespace, "subjects")}
    if kind not in ("User", "Group") or not isinstance(name, str):
        return subject
    if kind == "Group" and name == everyone(cluster):
        return {**subject, "name": _AUTHENTICATED}
    mapped = _service_account_form(kind, name, "subjects", direction)
    return {**subject, "name": mapped or name.removeprefix(identity_prefix(cluster))}


def _service_account_form(kind: str, name: str, path: str, direction: Direction) -> str | None:
    """Map the namespace in a name that stands for ServiceAccounts; None for other names."""
    if kind == "Group" and name.startswith(_SERVICE_ACCOUNT_GROUP):
        namespace = name.removeprefix(_SERVICE_ACCOUNT_GROUP)
        if namespace and ":" not in namespace:
            return _SERVICE_ACCOUNT_GROUP + direction.namespace(namespace, f"{path}.name")
    if kind == "User" and name.startswith(_SERVICE_ACCOUNT_USER):
        namespace, colon, account = name.removeprefix(_SERVICE_ACCOUNT_USER).partition(":")
        if namespace and colon and account:
            mapped = direction.namespace(namespace, f"{path}.name")
            return f"{_SERVICE_ACCOUNT_USER}{mapped}:{account}"
    return None


def _host_role_ref(role_ref: Any, direction: Direction) -> Object:
    """Map the role by its name only: roleRef is immutable, and Works come in any order."""
    kind, name = dig(role_ref, "kind"), dig(role_ref, "name")
    if kind == "Role":
        return dict(role_ref)
    if kind != "ClusterRole" or not isinstance(name, str):
        detail = f'roleRef has kind "{kind}", known are Role and ClusterRole'
        raise RefusedError(Code.RULE_FORBIDDEN, "roleRef.kind", detail)
    if name in _HOST_BUILT_INS:
        return dict(role_ref)
    if name == IMPERSONATOR:
        detail = f'roleRef.name is "{name}", which is Karmada\'s own and bound to nobody'
        raise RefusedError(Code.REFERENCE_FORBIDDEN, "roleRef.name", detail)
    host = VIRTUAL_CLUSTER_ADMIN if name == _CLUSTER_ADMIN else direction.name(name)
    return {**role_ref, "name": host}


def _virtual_role_ref(role_ref: Any, direction: Direction) -> Any:
    kind, name = dig(role_ref, "kind"), dig(role_ref, "name")
    if kind != "ClusterRole" or not isinstance(name, str):
        return role_ref
    virtual = _CLUSTER_ADMIN if name == VIRTUAL_CLUSTER_ADMIN else direction.name(name)
    return {**role_ref, "name": virtual}


def _list(value: Any, path: str, code: Code) -> list[Any]:
    if not isinstance(value, list):
        raise RefusedError(code, path, f"{path} is not a list")
    return value
