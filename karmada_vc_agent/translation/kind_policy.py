"""Table: kind -> map, rename, convert, share, absorb, refuse."""

from collections.abc import Mapping
from enum import StrEnum

from karmada_vc_agent.model import karmada
from karmada_vc_agent.model.domain import DOMAIN
from karmada_vc_agent.model.kind_patterns import matches_any
from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig, gvk_of, labels_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.refusal import Code, RefusedError

RBAC_GROUP = "rbac.authorization.k8s.io"

_ANY = "*"
_KARMADA_DOMAIN = ".karmada.io"
_IMPERSONATOR = "karmada-impersonator"
_BINDING_LABELS = (
    karmada.BINDING_PERMANENT_ID_LABEL,
    karmada.CLUSTER_BINDING_PERMANENT_ID_LABEL,
)


class Policy(StrEnum):
    """What happens to objects of a kind."""

    MAP = "map"  # a Namespace: becomes a claimed host namespace
    APPLY = "apply"  # namespaced: goes into the host namespace
    REFUSE = "refuse"


_CLUSTER_SCOPED: Mapping[tuple[str, str], Policy] = {  # rewriting-rules 5.1; others are refused
    ("", "Namespace"): Policy.MAP,
}

_NOT_ALLOWED = "kind {kind} is not allowed"
_CONTROL_PLANE = "kind {kind} belongs to Karmada's control plane"

_REFUSED_NAMESPACED: Mapping[tuple[str, str], str] = {  # rewriting-rules 5.3; others are applied
    ("", "Event"): _NOT_ALLOWED,
    ("events.k8s.io", "Event"): _NOT_ALLOWED,
    ("", "Binding"): _NOT_ALLOWED,
    ("authentication.k8s.io", "TokenRequest"): _NOT_ALLOWED,
    ("authorization.k8s.io", "LocalSubjectAccessReview"): _NOT_ALLOWED,
    ("apps.kubeedge.io", "EdgeApplication"): "kind {kind} is not supported yet",  # 3.2
    ("policy.kubeedge.io", "ServiceAccountAccess"): "kind {kind} is made by KubeEdge itself",  # 4.1
    ("reliablesyncs.kubeedge.io", _ANY): _NOT_ALLOWED,  # 5.1
    (DOMAIN, _ANY): _NOT_ALLOWED,  # ours: would define virtual clusters of the host
}

_RESERVED_PREFIXES: Mapping[tuple[str, str], str] = {  # rewriting-rules 5.2 and 6
    (RBAC_GROUP, "Role"): "vc:",
    (RBAC_GROUP, "RoleBinding"): "vc:",
    ("networking.k8s.io", "NetworkPolicy"): "vc-",
    ("", "ResourceQuota"): "vc-",
    ("", "LimitRange"): "vc-",
}


def policy_for(gvk: GroupVersionKind, *, namespaced: bool) -> Policy:
    """Return what happens to objects of a kind; versions make no difference."""
    if not namespaced:
        return _CLUSTER_SCOPED.get((gvk.group, gvk.kind), Policy.REFUSE)
    return Policy.REFUSE if _refusal_of_namespaced(gvk) else Policy.APPLY


def hidden_from_api_enablements(
    gvk: GroupVersionKind, *, namespaced: bool, vc: VirtualCluster | None = None
) -> bool:
    """Whether a kind is left out of the APIs reported to Karmada.

    Karmada schedules only kinds that a Cluster reports, so what would be refused is not sent.
    """
    if vc is not None and denies(vc, gvk):
        return True
    return policy_for(gvk, namespaced=namespaced) is Policy.REFUSE


def denies(vc: VirtualCluster, gvk: GroupVersionKind) -> bool:
    """Whether the settings of a virtual cluster deny a kind; Namespaces are never denied."""
    if (gvk.group, gvk.kind) == ("", "Namespace"):
        return False
    if matches_any(vc.denied_kinds, gvk.group, gvk.kind):
        return True
    return bool(vc.allowed_kinds) and not matches_any(vc.allowed_kinds, gvk.group, gvk.kind)


def refuse_denied(gvk: GroupVersionKind, vc: VirtualCluster) -> None:
    """Refuse KindForbidden where the settings of the virtual cluster deny the kind."""
    if denies(vc, gvk):
        detail = f"kind {gvk.kind} is not allowed in this virtual cluster"
        raise RefusedError(Code.KIND_FORBIDDEN, "kind", detail)


def refuse_forbidden(manifest: Object, *, namespaced: bool) -> None:
    """Refuse a manifest whose kind or reserved name is not allowed.

    Refuses KindForbidden and NameReserved. Source: rewriting-rules 5, 6.
    """
    gvk = gvk_of(manifest)
    if policy_for(gvk, namespaced=namespaced) is Policy.REFUSE:
        detail = _refusal_of_namespaced(gvk) if namespaced else None
        detail = detail or f"cluster-scoped kind {gvk.kind} is not allowed"
        raise RefusedError(Code.KIND_FORBIDDEN, "kind", detail)
    prefix = _RESERVED_PREFIXES.get((gvk.group, gvk.kind))
    name = dig(manifest, "metadata", "name")
    if prefix and isinstance(name, str) and name.startswith(prefix):
        detail = f'names of kind {gvk.kind} must not begin with "{prefix}"'
        raise RefusedError(Code.NAME_RESERVED, "metadata.name", detail)


def is_unified_auth(manifest: Object) -> bool:
    """Whether this is one of the two objects by which Karmada may impersonate (absorbed).

    A template with that name and label is told apart by the label of its binding, and by its
    Work: that must be the Cluster's own, which the caller sees to.
    Source: rewriting-rules 5.4; contract 10.6.
    """
    gvk, labels = gvk_of(manifest), labels_of(manifest)
    return (
        gvk.group == RBAC_GROUP
        and gvk.kind in ("ClusterRole", "ClusterRoleBinding")
        and dig(manifest, "metadata", "name") == _IMPERSONATOR
        and labels.get(karmada.SYSTEM_LABEL) == "true"
        and not any(label in labels for label in _BINDING_LABELS)
    )


def _refusal_of_namespaced(gvk: GroupVersionKind) -> str | None:
    detail = _REFUSED_NAMESPACED.get((gvk.group, gvk.kind))
    detail = detail or _REFUSED_NAMESPACED.get((gvk.group, _ANY))
    if detail is None and gvk.group.endswith(_KARMADA_DOMAIN):
        detail = _CONTROL_PLANE
    return detail.format(kind=gvk.kind) if detail else None
