"""Table: kind -> how a virtual cluster sees its objects; what it never sees (G-31, 5.3, 5.5).

The policy for Works decides about kinds in no row: what Karmada is allowed to send, and what
discovery shows, rest on one list (translation/kind_policy.py).
"""

from collections.abc import Mapping
from enum import Enum

from karmada_vc_agent.features.gateway.mapping.exchange import KindInfo, View
from karmada_vc_agent.model import kinds
from karmada_vc_agent.model.objects import GroupKind
from karmada_vc_agent.translation.kind_policy import Policy, policy_for


class KindScope(Enum):
    """How objects of a kind belong to a virtual cluster."""

    NAMESPACED = "by the namespace that they are in"
    NAMESPACES = "by the claim"
    NODES = "by the node selector; read only"
    RENAMED = "by the label of the virtual cluster, under other names; read only"
    VOLUMES = "by the label, or by the namespace of their claim; read only"
    BINDINGS = "by their RoleBindings in the anchor; read only"
    SHARED = "shared by all; read only"
    REVIEW = "questions about rights, which are mapped"
    SELF_REVIEW = "the question who one is, which the gateway answers"
    DENIED = "not at all"


_AUTHORIZATION = "authorization.k8s.io"
OF_KIND: Mapping[GroupKind, KindScope] = {
    kinds.NAMESPACE: KindScope.NAMESPACES,
    GroupKind("", "Node"): KindScope.NODES,
    GroupKind("metrics.k8s.io", "NodeMetrics"): KindScope.NODES,
    kinds.PERSISTENT_VOLUME: KindScope.VOLUMES,
    kinds.CLUSTER_ROLE_BINDING: KindScope.BINDINGS,
    GroupKind("storage.k8s.io", "CSIDriver"): KindScope.SHARED,
    GroupKind(_AUTHORIZATION, "SelfSubjectAccessReview"): KindScope.REVIEW,
    GroupKind(_AUTHORIZATION, "SelfSubjectRulesReview"): KindScope.REVIEW,
    GroupKind(_AUTHORIZATION, "SubjectAccessReview"): KindScope.REVIEW,
    GroupKind(_AUTHORIZATION, "LocalSubjectAccessReview"): KindScope.REVIEW,
    GroupKind("authentication.k8s.io", "SelfSubjectReview"): KindScope.SELF_REVIEW,
    # Works may not contain these; in namespaces they are read.
    GroupKind("", "Event"): KindScope.NAMESPACED,
    GroupKind("events.k8s.io", "Event"): KindScope.NAMESPACED,
    GroupKind("storage.k8s.io", "CSIStorageCapacity"): KindScope.NAMESPACED,
    GroupKind("policy.kubeedge.io", "ServiceAccountAccess"): KindScope.NAMESPACED,
}
"""Kinds whose scope does not follow from the policy for Works."""

_OF_POLICY: Mapping[Policy, KindScope] = {
    Policy.APPLY: KindScope.NAMESPACED,
    Policy.RENAME: KindScope.RENAMED,
    Policy.SHARE: KindScope.SHARED,
}

_READING = frozenset({"get", "list", "watch"})
_CREATING = frozenset({"create"})
VERBS: Mapping[KindScope, frozenset[str]] = {
    KindScope.NAMESPACES: _READING | {"create", "delete", "patch", "update"},
    KindScope.NODES: _READING,
    KindScope.RENAMED: _READING,
    KindScope.VOLUMES: _READING,
    KindScope.BINDINGS: _READING,
    KindScope.SHARED: _READING,
    KindScope.REVIEW: _CREATING,
    KindScope.SELF_REVIEW: _CREATING,
    KindScope.DENIED: frozenset(),
}
"""Verbs that are allowed; of NAMESPACED, host RBAC decides."""

DENIED_SUBRESOURCES = frozenset({("", "serviceaccounts", "token")})
"""(group, plural, subresource) in namespaces: what they return would bypass the gateway (G-35)."""


def scope_of(info: KindInfo, view: View) -> KindScope:
    """Return how a resource is seen."""
    special = OF_KIND.get(info.gvk.group_kind)
    if special is not None:
        return special
    configured = view.context().settings.cluster_scoped_kinds
    policy = policy_for(info.gvk, namespaced=info.namespaced, configured=configured)
    return _OF_POLICY.get(policy, KindScope.DENIED)


def is_shown(info: KindInfo, view: View) -> bool:
    """Whether discovery shows a resource (5.5)."""
    return scope_of(info, view) is not KindScope.DENIED


def allows(scope: KindScope, verb: str) -> bool:
    """Whether a verb is allowed at all."""
    return scope is KindScope.NAMESPACED or verb in VERBS[scope]


def shows_subresource(scope: KindScope, info: KindInfo, subresource: str) -> bool:
    """Whether discovery shows a subresource."""
    if (info.group, info.plural, subresource) in DENIED_SUBRESOURCES:
        return False
    return scope is KindScope.NAMESPACED
