"""Kinds and names of Kubernetes and KubeEdge: labels, roles, ServiceAccounts."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from karmada_vc_agent.model.objects import GroupKind, Object

RBAC_GROUP = "rbac.authorization.k8s.io"
RBAC_API = f"{RBAC_GROUP}/v1"
GATEWAY_GROUP = "gateway.networking.k8s.io"

NAME_FIELD = "metadata.name"
"""Path of an object's name in field selectors and in `matchFields` of node affinity."""
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""On every Namespace, set by the API server: its own name."""
EDGE_LABEL = "node-role.kubernetes.io/edge"
"""On edge nodes of KubeEdge."""
NODE_GROUP_LABEL = "apps.kubeedge.io/belonging-to"
"""On nodes in a NodeGroup of KubeEdge, set by its controller: that group."""
SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
SELECTED_NODE_BEFORE = "volume.alpha.kubernetes.io/selected-node"
"""Read by provisioners, too."""
"""On a PersistentVolumeClaim: the node of its first Pod, set by the scheduler."""
SLICE_MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
"""On an EndpointSlice: the controller that writes it."""
DEFAULT_CLUSTER_DOMAIN = "cluster.local"
SERVICE_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"  # noqa: S105 - a Secret's type
BALANCER_POOL_LABEL = "svccontroller.k3s.cattle.io/lbpool"
"""Of nodes and Services: the load balancer of K3s takes ports of the nodes of a Service's pool."""


CONFIG_MAP = GroupKind("", "ConfigMap")
LISTENER_SET_BEFORE = GroupKind("gateway.networking.x-k8s.io", "XListenerSet")
"""ListenerSet, while it was an experiment of Gateway API."""
NAMESPACE = GroupKind("", "Namespace")
PERSISTENT_VOLUME = GroupKind("", "PersistentVolume")
PERSISTENT_VOLUME_CLAIM = GroupKind("", "PersistentVolumeClaim")
POD = GroupKind("", "Pod")
SERVICE = GroupKind("", "Service")
SERVICE_ACCOUNT = GroupKind("", "ServiceAccount")
DEPLOYMENT = GroupKind("apps", "Deployment")
STATEFUL_SET = GroupKind("apps", "StatefulSet")
DAEMON_SET = GroupKind("apps", "DaemonSet")
REPLICA_SET = GroupKind("apps", "ReplicaSet")
JOB = GroupKind("batch", "Job")
CUSTOM_RESOURCE_DEFINITION = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
ENDPOINT_SLICE = GroupKind("discovery.k8s.io", "EndpointSlice")
PRIORITY_CLASS = GroupKind("scheduling.k8s.io", "PriorityClass")
STORAGE_CLASS = GroupKind("storage.k8s.io", "StorageClass")
ROLE = GroupKind(RBAC_GROUP, "Role")
ROLE_BINDING = GroupKind(RBAC_GROUP, "RoleBinding")
CLUSTER_ROLE = GroupKind(RBAC_GROUP, "ClusterRole")
CLUSTER_ROLE_BINDING = GroupKind(RBAC_GROUP, "ClusterRoleBinding")
EDGE_APPLICATION = GroupKind("apps.kubeedge.io", "EdgeApplication")
IMAGE_PRE_PULL_JOB = GroupKind("operations.kubeedge.io", "ImagePrePullJob")

ANY = "*"
"""As the kind of a table row: every kind of the group."""

WITH_PODS = frozenset(
    (DEPLOYMENT, STATEFUL_SET, DAEMON_SET, REPLICA_SET, GroupKind("", "ReplicationController"), JOB)
)
"""Kinds that declare their number of pods."""

NAMESPACE_FIELD: Mapping[GroupKind, str] = {NAMESPACE: "name"}
"""The field of metadata with the virtual namespace, if that is not `namespace`."""


def is_among(kind: GroupKind, table: Collection[GroupKind]) -> bool:
    """Return True if a table has a row for a kind, or for its whole group."""
    return kind in table or GroupKind(kind.group, ANY) in table


def namespace_field(kind: GroupKind) -> str:
    """Return the field of metadata with the virtual namespace of an object."""
    return NAMESPACE_FIELD.get(kind, "namespace")


def plural(kind: GroupKind) -> str:
    """Return the plural as Kubernetes forms it; CRDs may define others."""
    name = kind.kind.lower()
    if name.endswith("s"):
        return f"{name}es"
    return f"{name.removesuffix('y')}ies" if name.endswith("y") else f"{name}s"


def matches_any(patterns: Iterable[str], group: str, kind: str) -> bool:
    """Return True if a pattern matches a kind; one without a slash is of the core group."""
    return any(_matches(pattern, group, kind) for pattern in patterns)


def pattern_problem(pattern: str) -> str | None:
    """Return what is wrong with a pattern, or None."""
    group, slash, kind = pattern.rpartition("/")
    if not kind or (slash and not group) or "/" in group:
        return (
            f'"{pattern}" is not a valid kind; write group/Kind, or Kind alone for the core group'
        )
    if pattern == "*":
        return '"*" is every kind of the core group only; write */* for all kinds'
    return None


def parse_kind(name: str) -> GroupKind:
    """Parse `cert-manager.io/ClusterIssuer`; the core group has an empty group.

    Raises ValueError.
    """
    group, slash, kind = name.partition("/")
    if not slash or not kind or "/" in kind:
        raise ValueError(
            "is not a valid group/Kind; write for example cert-manager.io/ClusterIssuer"
        )
    return GroupKind(group, kind)


def _matches(pattern: str, group: str, kind: str) -> bool:
    pattern_group, _, pattern_kind = pattern.rpartition("/")
    return fnmatchcase(group, pattern_group) and fnmatchcase(kind, pattern_kind)


NAMESPACE_ADMIN = "virtual-cluster-admin"
"""The host's ClusterRole in place of `cluster-admin` inside virtual clusters."""

TENANT_ROLES: Mapping[str, str] = {
    "cluster-admin": NAMESPACE_ADMIN,
    "admin": "vc-admin",
    "edit": "vc-edit",
    "view": "vc-view",
}
"""Built-in ClusterRole that a Work binds -> the one that is bound on the host in its place.

Each is what the host's own grants, cut to what a virtual cluster may have (rbac_rules.cut).
"""
BUILT_INS: Mapping[str, str] = {ours: built_in for built_in, ours in TENANT_ROLES.items()}
"""The reverse."""

CLUSTER_READER = "virtual-cluster-reader"
"""The host's ClusterRole with what callers of the gateway may read of what has no namespace."""


def gateway_role(agent: str) -> str:
    """Return the ClusterRole of an agent's gateway, a prefix of the names of its others."""
    return f"vc-agent:{agent}:gateway"


def gateway_accounts_role(agent: str) -> str:
    """Return the ClusterRole to impersonate the ServiceAccounts of a claimed namespace."""
    return f"{gateway_role(agent)}:accounts"


def gateway_account(agent: str) -> str:
    """Return the ServiceAccount of an agent's gateway."""
    return f"{agent}-gateway"


def namespace_role(agent: str) -> str:
    """Return the ClusterRole with the agent's rights in a claimed namespace."""
    return f"vc-agent:{agent}:namespace"


def account_role(agent: str) -> str:
    """Return the ClusterRole with the rights of the accounts that `join` creates."""
    return f"vc-agent:{agent}:account"


@dataclass(frozen=True, slots=True)
class Rule:
    """Verbs on resources of API groups; names empty = every object of them."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def as_object(self) -> Object:
        """Return the entry for `rules` of a Role."""
        rule: Object = {"apiGroups": list(self.groups), "resources": list(self.resources)}
        if self.names:
            rule["resourceNames"] = list(self.names)
        return rule | {"verbs": list(self.verbs)}

    def __str__(self) -> str:
        """Return the rule in a form that can be pasted into a Role."""
        return flow_text(self.as_object())


def flow_text(rule: Object) -> str:
    """Return a rule on one line: `{apiGroups: [apps], resources: [deployments], verbs: [get]}`."""
    fields = (f"{key}: [{', '.join(map(_scalar, values))}]" for key, values in rule.items())
    return f"{{{', '.join(fields)}}}"


def _scalar(text: str) -> str:
    return text if text and text != "*" else f'"{text}"'


SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


def service_account_user(namespace: str, name: str) -> str:
    """Return the user name of a ServiceAccount."""
    return f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"


def service_account_of(user: str) -> tuple[str, str] | None:
    """Return namespace and name of the ServiceAccount that a user is, None for another user."""
    namespace, _, name = user.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    if not (user.startswith(SERVICE_ACCOUNT_PREFIX) and namespace and name):
        return None
    return namespace, name
