"""What the schemas of Karmada's CRDs, and of Services, guarantee of objects of the hub."""

from typing import Any

import msgspec


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
