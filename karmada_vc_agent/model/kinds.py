"""Kinds that rules refer to, and lookups in tables of kinds."""

from collections.abc import Collection, Mapping

from karmada_vc_agent.model.objects import GroupKind
from karmada_vc_agent.model.well_known import RBAC_GROUP

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
