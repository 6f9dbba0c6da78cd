"""Karmada's vocabulary, and the shape of objects on the hub (contract 2, 5.2, B).

The hub's own schemas guarantee the shapes. An object that differs is unreadable: it is reported,
and does not affect its neighbours. Only the fields that are used are listed.
"""

import secrets
from typing import Any

import msgspec

from karmada_vc_agent.model.objects import Object, labels_of

LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels, so that no words come about. Source: apimachinery pkg/util/rand/rand.go."""
_SUFFIX_LENGTH = 5


def random_suffix() -> str:
    """Return the five letters that follow a `generateName`."""
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
_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193


def is_karmada_key(key: str) -> bool:
    """Return True for a label or annotation of any component of Karmada."""
    return KARMADAS_DOMAIN in key


def is_in_karmadas_domain(key: str) -> bool:
    """Return True if the domain of a label or annotation is Karmada's or a subdomain of it."""
    prefix, slash, _ = key.partition("/")
    return bool(slash) and f".{prefix}/".endswith(f".{KARMADAS_DOMAIN}")


def execution_namespace(cluster: str) -> str:
    """Return the hub namespace that holds the Works of a Cluster."""
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
    """Return the name that Karmada gives the Work of a template.

    Source: contract appendix B; karmada pkg/util/names/names.go.
    """
    name = name.replace(":", ".").lower()
    parts = [namespace, name, kind] if namespace else [name, kind]
    digits = str(_fnv1a_32("-".join(parts).lower()))
    safe = "".join(LETTERS[ord(digit) % len(LETTERS)] for digit in digits)
    return f"{name}-{safe}"


def _fnv1a_32(text: str) -> int:
    value = _FNV_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return value


def is_report(work: Object) -> bool:
    """Return True for a Work that reports a slice, instead of having one applied."""
    return REPORTED_BY_LABEL in labels_of(work)


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Identifier(msgspec.Struct):
    ordinal: int


class _ManifestStatus(msgspec.Struct):
    identifier: _Identifier


class _Workload(msgspec.Struct):
    manifests: list[Any] | None = None


class _WorkSpec(msgspec.Struct):
    workload: _Workload | None = None


class _WorkStatus(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] | None = None
    manifest_statuses: list[_ManifestStatus] | None = None


class WorkShape(msgspec.Struct):
    """A Work; its manifests are validated one by one."""

    spec: _WorkSpec | None = None
    status: _WorkStatus | None = None


class _Taint(msgspec.Struct):
    key: str = ""
    effect: str = ""


class _ModelRange(msgspec.Struct):
    name: str
    min: str | int | float
    max: str | int | float


class _Model(msgspec.Struct):
    grade: int = 0
    ranges: list[_ModelRange] | None = None


class _ClusterSpec(msgspec.Struct, rename="camel"):
    taints: list[_Taint] | None = None
    resource_models: list[_Model] | None = None


class _ClusterStatus(msgspec.Struct):
    conditions: list[_Condition] | None = None


class ClusterShape(msgspec.Struct):
    """A Cluster."""

    spec: _ClusterSpec | None = None
    status: _ClusterStatus | None = None


class _HookService(msgspec.Struct):
    namespace: str | None = None
    name: str | None = None
    port: int | None = None
    path: str | None = None


class _HookClient(msgspec.Struct, rename="camel"):
    url: str | None = None
    service: _HookService | None = None
    ca_bundle: str | None = None


class _HookRule(msgspec.Struct, rename="camel"):
    operations: list[str] | None = None
    api_groups: list[str] | None = None
    api_versions: list[str] | None = None
    kinds: list[str] | None = None


class _Hook(msgspec.Struct, rename="camel"):
    name: str = ""
    client_config: _HookClient | None = None
    rules: list[_HookRule] | None = None
    timeout_seconds: int | None = None
    interpreter_context_versions: list[str] | None = None


class WebhooksShape(msgspec.Struct):
    """A ResourceInterpreterWebhookConfiguration."""

    webhooks: list[_Hook] | None = None


class _ServicePort(msgspec.Struct):
    port: int | None = None


class _ServiceSpec(msgspec.Struct, rename="camel"):
    type: str | None = None
    external_name: str | None = None
    cluster_ip: str | None = msgspec.field(default=None, name="clusterIP")
    ports: list[_ServicePort] | None = None


class ServiceShape(msgspec.Struct):
    """A Service that a hook refers to."""

    spec: _ServiceSpec | None = None
