"""Table: kind -> map, rename, convert, share, absorb, refuse."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

from karmada_vc_agent.model import karmada
from karmada_vc_agent.model.domain import DOMAIN
from karmada_vc_agent.model.kind_patterns import matches_any
from karmada_vc_agent.model.objects import GroupVersionKind, Object, dig, gvk_of, labels_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.well_known import GATEWAY_GROUP, RBAC_GROUP
from karmada_vc_agent.translation.refusal import Code, RefusedError

_ANY = "*"
_KARMADA_DOMAIN = ".karmada.io"


class Policy(StrEnum):
    """What happens to objects of a kind."""

    MAP = "map"  # a Namespace: becomes a claimed host namespace
    APPLY = "apply"  # namespaced: goes into the host namespace
    RENAME = "rename"  # cluster-scoped: gets a host name of its own
    SHARE = "share"  # cluster-scoped: one host object, owners counted
    CONVERT = "convert"  # a ClusterRoleBinding: one RoleBinding in every namespace
    REFUSE = "refuse"


IMPERSONATOR = "karmada-impersonator"
"""The ClusterRole, and its binding, by which Karmada may impersonate users (5.4)."""

CONFIGURABLE = (Policy.SHARE, Policy.RENAME, Policy.REFUSE)
"""What the setting `clusterScopedKinds` may say of a kind."""

CLUSTER_ROLE = (RBAC_GROUP, "ClusterRole")
CLUSTER_ROLE_BINDING = (RBAC_GROUP, "ClusterRoleBinding")
CUSTOM_RESOURCE_DEFINITION = ("apiextensions.k8s.io", "CustomResourceDefinition")
PRIORITY_CLASS = ("scheduling.k8s.io", "PriorityClass")

_CLUSTER_SCOPED: Mapping[tuple[str, str], Policy] = {  # rewriting-rules 5.1; others are refused
    ("", "Namespace"): Policy.MAP,
    CLUSTER_ROLE: Policy.RENAME,
    CLUSTER_ROLE_BINDING: Policy.CONVERT,
    ("", "PersistentVolume"): Policy.RENAME,
    ("snapshot.storage.k8s.io", "VolumeSnapshotContent"): Policy.RENAME,
    CUSTOM_RESOURCE_DEFINITION: Policy.SHARE,
    ("storage.k8s.io", "StorageClass"): Policy.SHARE,
    ("networking.k8s.io", "IngressClass"): Policy.SHARE,
    ("node.k8s.io", "RuntimeClass"): Policy.SHARE,
    ("snapshot.storage.k8s.io", "VolumeSnapshotClass"): Policy.SHARE,
    (GATEWAY_GROUP, "GatewayClass"): Policy.SHARE,
    PRIORITY_CLASS: Policy.SHARE,
}

# Kinds that act on the whole host, or are the host's: no setting opens them.
_NEVER_OPENED = frozenset(
    {
        ("", "Namespace"),
        ("", "Node"),
        ("", "ComponentStatus"),
        CLUSTER_ROLE,
        CLUSTER_ROLE_BINDING,
        ("admissionregistration.k8s.io", "*"),
        ("apiregistration.k8s.io", "*"),
        ("flowcontrol.apiserver.k8s.io", "*"),
        ("certificates.k8s.io", "*"),
        ("storage.k8s.io", "CSIDriver"),
        ("storage.k8s.io", "CSINode"),
        ("storage.k8s.io", "VolumeAttachment"),
        ("apps.kubeedge.io", "NodeGroup"),
        ("operations.kubeedge.io", "NodeUpgradeJob"),
        ("operations.kubeedge.io", "ConfigUpdateJob"),
        ("reliablesyncs.kubeedge.io", "*"),
        (DOMAIN, "*"),
    }
)

_PRIORITY_MAX = 1_000_000
"""Of a PriorityClass: pre-emption is by node, but the queue of pending pods is the host's."""

_NOT_ALLOWED = "kind {kind} is not allowed"
_CONTROL_PLANE = "kind {kind} belongs to Karmada's control plane"

_REFUSED_NAMESPACED: Mapping[tuple[str, str], str] = {  # rewriting-rules 5.3; others are applied
    ("", "Event"): _NOT_ALLOWED,
    ("events.k8s.io", "Event"): _NOT_ALLOWED,
    ("", "Binding"): _NOT_ALLOWED,
    ("authentication.k8s.io", "TokenRequest"): _NOT_ALLOWED,
    ("authorization.k8s.io", "LocalSubjectAccessReview"): _NOT_ALLOWED,
    ("policy.kubeedge.io", "ServiceAccountAccess"): "kind {kind} is made by KubeEdge itself",  # 4.1
    ("reliablesyncs.kubeedge.io", _ANY): _NOT_ALLOWED,  # 5.1
    (DOMAIN, _ANY): _NOT_ALLOWED,  # ours: would define virtual clusters of the host
}

_RESERVED_PREFIXES: Mapping[tuple[str, str], str | tuple[str, ...]] = {  # rewriting-rules 5.2 and 6
    (RBAC_GROUP, "Role"): ("vc:", "vc-agent:"),
    (RBAC_GROUP, "RoleBinding"): ("vc:", "vc-agent:"),
    (RBAC_GROUP, "ClusterRole"): "vc:",
    (RBAC_GROUP, "ClusterRoleBinding"): "vc:",
    ("networking.k8s.io", "NetworkPolicy"): "vc-",
    ("", "ResourceQuota"): "vc-",
    ("", "LimitRange"): "vc-",
}


ClusterScopedKinds = Mapping[tuple[str, str], Policy]
"""The setting `clusterScopedKinds`: (group, kind) -> one of CONFIGURABLE."""

_AS_BUILT_IN: ClusterScopedKinds = {}


def policy_for(
    gvk: GroupVersionKind, *, namespaced: bool, configured: ClusterScopedKinds = _AS_BUILT_IN
) -> Policy:
    """Return what happens to objects of a kind; versions make no difference."""
    if namespaced:
        return Policy.REFUSE if _refusal_of_namespaced(gvk) else Policy.APPLY
    kind = (gvk.group, gvk.kind)
    if kind in configured and not _is_never_opened(*kind):
        return configured[kind]
    return _CLUSTER_SCOPED.get(kind, Policy.REFUSE)


def is_cluster_scoped(gvk: GroupVersionKind) -> bool:
    """Whether a kind is known to lie in no namespace; unknown kinds are taken to lie in one."""
    kind = (gvk.group, gvk.kind)
    return kind in _CLUSTER_SCOPED or _is_never_opened(*kind)


def problem_with(group: str, kind: str, policy: str) -> str | None:
    """Say what is wrong with an entry of `clusterScopedKinds`, or None."""
    if policy not in CONFIGURABLE:
        return f'is "{policy}", must be one of {", ".join(CONFIGURABLE)}'
    if _is_never_opened(group, kind) and policy != Policy.REFUSE:
        return "acts on the whole host and cannot be opened"
    return None


def _is_never_opened(group: str, kind: str) -> bool:
    return (
        (group, kind) in _NEVER_OPENED
        or (group, _ANY) in _NEVER_OPENED
        or group.endswith(_KARMADA_DOMAIN)
    )


def hidden_from_api_enablements(
    gvk: GroupVersionKind,
    *,
    namespaced: bool,
    configured: ClusterScopedKinds = _AS_BUILT_IN,
    vc: VirtualCluster | None = None,
) -> bool:
    """Whether a kind is left out of the APIs reported to Karmada.

    Karmada schedules only kinds that a Cluster reports, so what would be refused is not sent.
    """
    if vc is not None and denies(vc, gvk):
        return True
    return policy_for(gvk, namespaced=namespaced, configured=configured) is Policy.REFUSE


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


def refuse_forbidden(
    manifest: Object,
    *,
    namespaced: bool,
    configured: ClusterScopedKinds = _AS_BUILT_IN,
    names_only: bool = False,
) -> Policy:
    """Refuse a manifest whose kind, name or content is not allowed; else return its policy.

    names_only: do not look at the content. Refuses KindForbidden and NameReserved.
    Source: rewriting-rules 5, 6.
    """
    gvk = gvk_of(manifest)
    policy = policy_for(gvk, namespaced=namespaced, configured=configured)
    if policy is Policy.REFUSE:
        detail = _refusal_of_namespaced(gvk) if namespaced else None
        detail = detail or f"cluster-scoped kind {gvk.kind} is not allowed"
        raise RefusedError(Code.KIND_FORBIDDEN, "kind", detail)
    check = _anything if names_only else _CONTENT.get((gvk.group, gvk.kind), _anything)
    for path, problem in check(manifest):
        raise RefusedError(Code.KIND_FORBIDDEN, path, problem)
    prefixes = _RESERVED_PREFIXES.get((gvk.group, gvk.kind), ())
    name = dig(manifest, "metadata", "name")
    for prefix in (prefixes,) if isinstance(prefixes, str) else prefixes:
        if not (isinstance(name, str) and name.startswith(prefix)):
            continue
        detail = f'names of kind {gvk.kind} must not begin with "{prefix}"'
        raise RefusedError(Code.NAME_RESERVED, "metadata.name", detail)
    if (gvk.group, gvk.kind) == CLUSTER_ROLE and name == IMPERSONATOR:
        detail = f'ClusterRole "{IMPERSONATOR}" is Karmada\'s own'
        raise RefusedError(Code.NAME_RESERVED, "metadata.name", detail)
    return policy


def _anything(_manifest: Object) -> Iterator[tuple[str, str]]:
    return iter(())


def _cluster_role(manifest: Object) -> Iterator[tuple[str, str]]:
    if manifest.get("aggregationRule") is not None:
        yield "aggregationRule", "aggregationRule would collect the rules of others"
    if str(dig(manifest, "metadata", "name")).startswith("system:"):
        yield "metadata.name", 'names of kind ClusterRole must not begin with "system:"'


def _custom_resource_definition(manifest: Object) -> Iterator[tuple[str, str]]:
    if dig(manifest, "spec", "conversion", "strategy") == "Webhook":
        yield "spec.conversion", "spec.conversion by webhook would act for all virtual clusters"


def _priority_class(manifest: Object) -> Iterator[tuple[str, str]]:
    value = manifest.get("value")
    if not isinstance(value, int) or value > _PRIORITY_MAX:
        yield "value", f"value is {value}, at most {_PRIORITY_MAX} is allowed"
    if manifest.get("globalDefault"):
        yield "globalDefault", "globalDefault would hold for all virtual clusters"


# What of a kind is refused although the kind is not, as (path, problem); rewriting-rules 5.1.
_CONTENT: Mapping[tuple[str, str], Callable[[Object], Iterator[tuple[str, str]]]] = {
    CLUSTER_ROLE: _cluster_role,
    CUSTOM_RESOURCE_DEFINITION: _custom_resource_definition,
    PRIORITY_CLASS: _priority_class,
}


def is_unified_auth(manifest: Object) -> bool:
    """Whether this is one of the two objects by which Karmada may impersonate.

    A template with that name and label is told apart by the label of its binding, and by its
    Work: that must be the Cluster's own, which the caller sees to.
    Source: rewriting-rules 5.4; contract 10.6.
    """
    gvk, labels = gvk_of(manifest), labels_of(manifest)
    return (
        (gvk.group, gvk.kind) in (CLUSTER_ROLE, CLUSTER_ROLE_BINDING)
        and dig(manifest, "metadata", "name") == IMPERSONATOR
        and labels.get(karmada.SYSTEM_LABEL) == "true"
        and not any(label in labels for label in karmada.BINDING_LABELS)
    )


def _refusal_of_namespaced(gvk: GroupVersionKind) -> str | None:
    detail = _REFUSED_NAMESPACED.get((gvk.group, gvk.kind))
    detail = detail or _REFUSED_NAMESPACED.get((gvk.group, _ANY))
    if detail is None and gvk.group.endswith(_KARMADA_DOMAIN):
        detail = _CONTROL_PLANE
    return detail.format(kind=gvk.kind) if detail else None
