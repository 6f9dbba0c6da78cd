"""What the code relies on in objects, whatever the CRDs of a hub let pass."""

from typing import Annotated, Any

import msgspec


class _Metadata(msgspec.Struct, rename="camel"):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[dict[str, Any]] | None = None


class Shape(msgspec.Struct, rename="camel"):
    """Any object; API servers guarantee it."""

    metadata: _Metadata
    api_version: str = ""
    kind: str = ""


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Identifier(msgspec.Struct):
    ordinal: int


class _ManifestStatus(msgspec.Struct):
    identifier: _Identifier


class _Workload(msgspec.Struct):
    manifests: list[Any] | None = None


class _Spec(msgspec.Struct):
    workload: _Workload | None = None
    taints: list[dict[str, Any]] | None = None


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] | None = None
    manifest_statuses: list[_ManifestStatus] | None = None


class HubShape(Shape):
    """A Work, whose manifests are validated one by one, or a Cluster."""

    spec: _Spec | None = None
    status: _Status | None = None
