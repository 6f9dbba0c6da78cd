"""Subjects, roleRefs, rules (rewriting-rules 5.2).

Here: Role and RoleBinding. What is not understood is refused, never let through. Functions
change what they are given; callers work on a copy of their own.
"""

from typing import Any

from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig
from karmada_vc_agent.translation.kind_policy import RBAC_GROUP
from karmada_vc_agent.translation.names import Direction
from karmada_vc_agent.translation.refusal import Code, RefusedError

VIRTUAL_CLUSTER_ADMIN = "virtual-cluster-admin"

_CLUSTER_ADMIN = "cluster-admin"
_HOST_BUILT_INS = frozenset({"admin", "edit", "view"})
_WILDCARD = "*"
_FORBIDDEN_VERBS = frozenset({"escalate", "bind", "impersonate"})
_NAMESPACES = "namespaces"
_READING = ("get", "list", "watch")

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


def is_role(gvk: GroupVersionKind) -> bool:
    """Whether this is a Role."""
    return (gvk.group, gvk.kind) == (RBAC_GROUP, "Role")


def is_role_binding(gvk: GroupVersionKind) -> bool:
    """Whether this is a RoleBinding."""
    return (gvk.group, gvk.kind) == (RBAC_GROUP, "RoleBinding")


def to_host(obj: Object, gvk: GroupVersionKind, cluster: str, direction: Direction) -> None:
    """Rewrite a Role or RoleBinding so that it grants nothing outside its virtual cluster.

    Refuses RuleForbidden, SubjectForbidden, ReferenceForbidden.
    """
    if is_role(gvk) and obj.get("rules") is not None:
        rules = enumerate(_list(obj["rules"], "rules", Code.RULE_FORBIDDEN))
        obj["rules"] = [
            allowed
            for index, rule in rules
            for allowed in _allowed_rules(rule, f"rules[{index}]", direction)
        ]
    if is_role_binding(gvk):
        if obj.get("subjects") is not None:
            subjects = enumerate(_list(obj["subjects"], "subjects", Code.SUBJECT_FORBIDDEN))
            obj["subjects"] = [
                _host_subject(subject, f"subjects[{index}]", cluster, direction)
                for index, subject in subjects
            ]
        if obj.get("roleRef") is not None:
            obj["roleRef"] = _host_role_ref(obj["roleRef"], direction)


def to_virtual(obj: Object, gvk: GroupVersionKind, cluster: str, direction: Direction) -> None:
    """Give the subjects, roleRef and names of namespaces in rules their virtual names back."""
    if is_role(gvk):
        for rule in obj.get("rules") or []:
            _rename_namespaces(rule, "rules", direction)
    if is_role_binding(gvk):
        subjects = obj.get("subjects") or []
        if subjects:
            obj["subjects"] = [_virtual_subject(each, cluster, direction) for each in subjects]
        if obj.get("roleRef") is not None:
            obj["roleRef"] = _virtual_role_ref(obj["roleRef"], direction)


def _allowed_rules(rule: Any, path: str, direction: Direction) -> list[Object]:
    """Return what of a rule may stay: up to two rules, the one on namespaces apart."""
    verbs = _texts(rule, "verbs", path)
    resources = _texts(rule, "resources", path)
    groups = _texts(rule, "apiGroups", path)
    for field, values in (("verbs", verbs), ("resources", resources), ("apiGroups", groups)):
        if any(_WILDCARD in value for value in values):
            detail = f'{path}.{field}: "{_WILDCARD}" is not supported yet, list what is meant'
            raise RefusedError(Code.RULE_FORBIDDEN, f"{path}.{field}", detail)
    for verb in verbs:
        if verb in _FORBIDDEN_VERBS:
            raise RefusedError(Code.RULE_FORBIDDEN, f"{path}.verbs", f'verb "{verb}"')
    rest = {key: value for key, value in rule.items() if key != "nonResourceURLs"}
    on_namespaces = [each for each in resources if each.split("/")[0] == _NAMESPACES]
    others = [each for each in resources if each not in on_namespaces]
    allowed = [{**rest, "resources": others}] if others else []
    reading = [verb for verb in verbs if verb in _READING]
    if on_namespaces and reading:
        allowed.append({**rest, "resources": on_namespaces, "verbs": reading})
        _rename_namespaces(allowed[-1], path, direction)
    return allowed


def _rename_namespaces(rule: Any, path: str, direction: Direction) -> None:
    """Map the resourceNames of a rule that is about namespaces."""
    resources, names = dig(rule, "resources") or [], dig(rule, "resourceNames")
    if isinstance(names, list) and any(
        str(each).split("/")[0] == _NAMESPACES for each in resources
    ):
        where = f"{path}.resourceNames"
        rule["resourceNames"] = [direction.namespace(str(name), where) for name in names]


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
    if kind == "Group" and name == _ALL_SERVICE_ACCOUNTS:
        detail = f'{path} is group "{name}", which is not supported yet'
        raise RefusedError(Code.SUBJECT_FORBIDDEN, path, detail)
    if kind == "Group" and name == _AUTHENTICATED:
        return {**subject, "name": everyone(cluster)}
    mapped = _service_account_form(kind, name, path, direction)
    return {**subject, "name": mapped or identity_prefix(cluster) + name}


def _virtual_subject(subject: Any, cluster: str, direction: Direction) -> Any:
    kind, name = dig(subject, "kind"), dig(subject, "name")
    if kind == "ServiceAccount" and dig(subject, "namespace"):
        return {**subject, "namespace": direction.namespace(subject["namespace"], "subjects")}
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


def _texts(rule: Any, field: str, path: str) -> list[str]:
    if not isinstance(rule, dict):
        raise RefusedError(Code.RULE_FORBIDDEN, path, f"{path} is not a map")
    values = _list(rule.get(field) or [], f"{path}.{field}", Code.RULE_FORBIDDEN)
    return [str(value) for value in values]
