"""Names of labels, kinds and roles: our own, Kubernetes', KubeEdge's and Karmada's."""

import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from karmada_vc_agent.model.objects import GroupKind, Object, labels_of

DOMAIN = "virtualcluster.kubeedge.io"
CONFIG_API_VERSION = f"config.{DOMAIN}/v1alpha1"

CLUSTER_LABEL = f"{DOMAIN}/cluster"
NAMESPACE_LABEL = f"{DOMAIN}/namespace"
AGENT_LABEL = f"{DOMAIN}/agent"
GATEWAY_LABEL = f"{DOMAIN}/gateway"
"""On a ClusterRole whose rules the gateway of an agent has: that agent."""
BY_GATEWAY_ANNOTATION = f"{DOMAIN}/by-gateway"
"""On a claimed namespace that was created through the gateway: `true` (ADR 52)."""

CREATED_BY_AGENT_ANNOTATION = f"{DOMAIN}/created-by-agent"
ADOPTED_ANNOTATION = f"{DOMAIN}/adopted"
ALLOW_ADOPTION_ANNOTATION = f"{DOMAIN}/allow-adoption"
TENANCY_ANNOTATION = f"{DOMAIN}/tenancy"
"""The profile with which the agents of the host joined, on NAMESPACE_ADMIN."""
KEPT_PLACEMENT_ANNOTATION = f"{DOMAIN}/keeps-placement"
"""On an adopted workload: its pods keep their earlier placement, for now (ADR 35)."""
WORK_ANNOTATION = f"{DOMAIN}/work"
NAME_ANNOTATION = f"{DOMAIN}/name"
"""On a renamed cluster-scoped object: its virtual name (rewriting-rules 1.4)."""
SHARED_LABEL = f"{DOMAIN}/shared"
"""On a cluster-scoped object that virtual clusters share; a label, so that it can be watched."""
OWNERS_ANNOTATION = f"{DOMAIN}/owners"
"""On a shared object: JSON map, virtual cluster -> hash of its desired content."""
STAND_IN_ANNOTATION = f"{DOMAIN}/stand-in"
"""On an empty role that is there only while a RoleBinding to it is written."""
LEASE_HOLDER_ANNOTATION = f"{DOMAIN}/held-by"
"""On the Lease of a Cluster: the agent process that renewed it last."""
AGENT_ANNOTATION = f"{DOMAIN}/served-by"
"""On a Cluster: the agent of its host that serves it, `<namespace>/<name>`."""
CHECKPOINT_ANNOTATION = f"{DOMAIN}/checkpoint-kept"
"""On the agent's Lease: number of the last lead that kept a checkpoint (ADR 42)."""
LACKS_HUB_ANNOTATION = f"{DOMAIN}/lacks-hub"
"""On the agent's Lease: the leader, while it does not reach the hub."""
OFFERS_HUB_ANNOTATION = f"{DOMAIN}/offers-hub"
"""On the agent's Lease: a standby that reaches the hub, unlike the leader."""
PRESERVE_ANNOTATION = f"{DOMAIN}/preserve-resources"
"""On a Cluster that leaves: `true` = what its Works made stays, whatever these say."""
HOST_ANNOTATION = f"{DOMAIN}/host"
"""On the roles of an agent on the hub: its host, so that two hosts never share them."""
HOST_LABEL = f"{DOMAIN}/host"
"""On a Cluster: its host, with which it fails."""
NODE_PORTS_ANNOTATION = f"{DOMAIN}/node-ports"
"""On a Service: JSON map of the fixed node ports that it requested and others have (4.3)."""
APPLIED_ANNOTATION = f"{DOMAIN}/applied"
"""On an object of a virtual cluster that has windows: digest of its manifest (ADR 43)."""
WRITTEN_ANNOTATION = f"{DOMAIN}/written"
"""On an object with a generation: digest of what was written, and its generation (ADR 49)."""
OBSERVED_AT_ANNOTATION = f"{DOMAIN}/observed-at"
"""On a Cluster: when its host was observed for its status (ADR 44)."""
HUB_CONTACT_ANNOTATION = f"{DOMAIN}/hub-contact"
"""On a Cluster: when the hub had last been reached before that."""
HOLD_ANNOTATION = f"{DOMAIN}/hold"
"""On a host namespace, by an administrator, with a reason: the agent writes nothing there."""
REWRITE_DNS_ANNOTATION = f"{DOMAIN}/rewrite-dns"
RELEASING_ANNOTATION = f"{DOMAIN}/releasing"
"""On a claimed namespace that stays: `true` = what the agent made there is being removed."""

POD_SECURITY_ANNOTATION = f"{DOMAIN}/pod-security"
"""On a claimed namespace: the Pod Security level that we set (rewriting-rules 6)."""

MEMBERSHIP_LABEL = "node-restriction.kubernetes.io/virtual-cluster"
"""On the nodes of virtual clusters selected by expressions or names (rewriting-rules 3.1)."""

NODE_SELECTOR_ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
"""On every claimed namespace (rewriting-rules 3.5)."""


MARKS = frozenset(
    text
    for text in list(globals().values())
    if isinstance(text, str) and text.startswith(f"{DOMAIN}/")
) | {MEMBERSHIP_LABEL, NODE_SELECTOR_ANNOTATION}
"""All of the above."""

_OUR_PREFIX = f"{DOMAIN}/"


def is_ours(key: str) -> bool:
    return key.startswith(_OUR_PREFIX)


CHECKPOINT_SECRETS = 32


def secret_names(agent: str) -> tuple[str, ...]:
    """Return the names of all Secrets that the checkpoint of an agent may use."""
    return tuple(f"{agent}-checkpoint-{number}" for number in range(CHECKPOINT_SECRETS))


RBAC_GROUP = "rbac.authorization.k8s.io"
RBAC_API = f"{RBAC_GROUP}/v1"
CLUSTER_ROLES_PATH = f"/apis/{RBAC_API}/clusterroles"
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
"""On a PersistentVolumeClaim: the node of its first Pod, set by the scheduler."""
SELECTED_NODE_BEFORE = "volume.alpha.kubernetes.io/selected-node"
"""Read by provisioners, too."""
SLICE_MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
"""On an EndpointSlice: the controller that writes it."""
DEFAULT_CLUSTER_DOMAIN = "cluster.local"
SERVICE_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"  # noqa: S105 - a Secret's type
BALANCER_POOL_LABEL = "svccontroller.k3s.cattle.io/lbpool"
"""Of nodes and Services: the load balancer of K3s takes ports of the nodes of a Service's pool."""


CONFIG_MAP = GroupKind("", "ConfigMap")
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
    pairs = (pattern.rpartition("/")[::2] for pattern in patterns)
    return any(fnmatchcase(group, of) and fnmatchcase(kind, each) for of, each in pairs)


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
    """Parse `cert-manager.io/ClusterIssuer`, or `/Pod` of the core group. Raises ValueError."""
    group, slash, kind = name.partition("/")
    if not slash or not kind or "/" in kind:
        raise ValueError(
            "is not a valid group/Kind; write for example cert-manager.io/ClusterIssuer"
        )
    return GroupKind(group, kind)


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
        rule: Object = {"apiGroups": list(self.groups), "resources": list(self.resources)}
        if self.names:
            rule["resourceNames"] = list(self.names)
        return rule | {"verbs": list(self.verbs)}

    def __str__(self) -> str:
        """Return the rule in a form that can be pasted into a Role."""
        return flow_text(self.as_object())


def flow_text(rule: Object) -> str:
    """Return a rule on one line: `{apiGroups: [apps], resources: [deployments], verbs: [get]}`."""
    quoted = {"": '""', "*": '"*"'}
    fields = (f"{k}: [{', '.join(quoted.get(v, v) for v in values)}]" for k, values in rule.items())
    return f"{{{', '.join(fields)}}}"


SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


def service_account_user(namespace: str, name: str) -> str:
    return f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"


def service_account_of(user: str) -> tuple[str, str] | None:
    """Return namespace and name of the ServiceAccount that a user is, None for another user."""
    namespace, _, name = user.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    if not (user.startswith(SERVICE_ACCOUNT_PREFIX) and namespace and name):
        return None
    return namespace, name


LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels, so that no words come about. Source: apimachinery pkg/util/rand/rand.go."""
_SUFFIX_LENGTH = 5


def random_suffix() -> str:
    return "".join(secrets.choice(LETTERS) for _ in range(_SUFFIX_LENGTH))


CLUSTER_API = "cluster.karmada.io/v1alpha1"
WORK_API = "work.karmada.io/v1alpha1"

CLUSTER_FINALIZER = "karmada.io/cluster-controller"
EXECUTION_FINALIZER = "karmada.io/execution-controller"

AGENTS_GROUP = "system:karmada:agents"
USER_PREFIX = "system:karmada:agent:"

LEASE_NAMESPACE = "karmada-cluster"
EXECUTION_NAMESPACE_PREFIX = "karmada-es-"
CLUSTER_NAME_MAX_LENGTH = 48

MANAGED_LABEL = "karmada.io/managed"
SYSTEM_LABEL = "karmada.io/system"
WORK_PERMANENT_ID_LABEL = "work.karmada.io/permanent-id"
BINDING_PERMANENT_ID_LABEL = "resourcebinding.karmada.io/permanent-id"
CLUSTER_BINDING_PERMANENT_ID_LABEL = "clusterresourcebinding.karmada.io/permanent-id"
BINDING_LABELS = (BINDING_PERMANENT_ID_LABEL, CLUSTER_BINDING_PERMANENT_ID_LABEL)
"""Every manifest from a template has exactly one of these."""
POLICY_PERMANENT_ID_LABEL = "propagationpolicy.karmada.io/permanent-id"
CLUSTER_POLICY_PERMANENT_ID_LABEL = "clusterpropagationpolicy.karmada.io/permanent-id"
RETAIN_REPLICAS_LABEL = "resourcetemplate.karmada.io/retain-replicas"

WORK_NAME_ANNOTATION = "work.karmada.io/name"
WORK_NAMESPACE_ANNOTATION = "work.karmada.io/namespace"
CONFLICT_RESOLUTION_ANNOTATION = "work.karmada.io/conflict-resolution"
TEMPLATE_UID_ANNOTATION = "resourcetemplate.karmada.io/uid"
TEMPLATE_GENERATION_ANNOTATION = "resourcetemplate.karmada.io/generation"
MANAGED_LABELS_ANNOTATION = "resourcetemplate.karmada.io/managed-labels"
MANAGED_ANNOTATIONS_ANNOTATION = "resourcetemplate.karmada.io/managed-annotations"
BINDING_NAME_ANNOTATION = "resourcebinding.karmada.io/name"
BINDING_NAMESPACE_ANNOTATION = "resourcebinding.karmada.io/namespace"
CLUSTER_BINDING_NAME_ANNOTATION = "clusterresourcebinding.karmada.io/name"
POLICY_NAME_ANNOTATION = "propagationpolicy.karmada.io/name"
POLICY_NAMESPACE_ANNOTATION = "propagationpolicy.karmada.io/namespace"
CLUSTER_POLICY_NAME_ANNOTATION = "clusterpropagationpolicy.karmada.io/name"

ENDPOINT_SLICE_FINALIZER = "karmada.io/endpointslice-controller"
DISPATCH_FINALIZER = "karmada.io/mcs-endpointslice-dispatch-controller"
REPORTED_BY_LABEL = "endpointslice.karmada.io/managed-by"
EXPORT_NAMESPACE_LABEL = "endpointslice.karmada.io/namespace"
EXPORT_NAME_LABEL = "endpointslice.karmada.io/name"
MULTI_CLUSTER_SERVICE_NAMESPACE_LABEL = "multiclusterservice.karmada.io/namespace"
MULTI_CLUSTER_SERVICE_NAME_LABEL = "multiclusterservice.karmada.io/name"
MADE_BY_KARMADA = (
    "endpointslice-dispatch-controller.karmada.io",
    "endpointslice-controller.karmada.io",
)
"""Values of endpointslice.kubernetes.io/managed-by on slices that Karmada made."""

KARMADAS_DOMAIN = "karmada.io/"


def is_karmada_key(key: str) -> bool:
    return KARMADAS_DOMAIN in key


def is_in_karmadas_domain(key: str) -> bool:
    """Return True if the domain of a label or annotation is Karmada's or a subdomain of it."""
    prefix, slash, _ = key.partition("/")
    return bool(slash) and f".{prefix}/".endswith(f".{KARMADAS_DOMAIN}")


def execution_namespace(cluster: str) -> str:
    return EXECUTION_NAMESPACE_PREFIX + cluster


def cluster_of_execution_namespace(namespace: str) -> str | None:
    """Return the Cluster name, or None if it is not an execution namespace."""
    if not namespace.startswith(EXECUTION_NAMESPACE_PREFIX):
        return None
    return namespace.removeprefix(EXECUTION_NAMESPACE_PREFIX)


def cluster_of_work(work: str) -> str:
    """Return the Cluster of a Work that is named as `<execution namespace>/<name>`."""
    return cluster_of_execution_namespace(work.partition("/")[0]) or ""


def work_name(kind: str, name: str, namespace: str) -> str:
    """Return the name of the Work of a template (contract appendix B; karmada names.go)."""
    name = name.replace(":", ".").lower()
    parts = [namespace, name, kind] if namespace else [name, kind]
    checksum = 0x811C9DC5  # 32 bits of FNV-1a
    for byte in "-".join(parts).lower().encode():
        checksum = ((checksum ^ byte) * 0x01000193) & 0xFFFFFFFF
    safe = "".join(LETTERS[ord(digit) % len(LETTERS)] for digit in str(checksum))
    return f"{name}-{safe}"


def is_report(work: Object) -> bool:
    """Return True for a Work that reports a slice, instead of having one applied."""
    return REPORTED_BY_LABEL in labels_of(work)
