"""Entries of a Work's status.manifestStatuses, one for each manifest (contract 6.1)."""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from karmada_vc_agent.model.objects import GroupVersionKind, Object, ObjectKey, gvk_of, key_of


class Identifier(TypedDict):
    """Which manifest an entry is about; the binding reader compares all but `resource`."""

    ordinal: int
    group: NotRequired[str]
    version: str
    kind: str
    resource: str
    namespace: NotRequired[str]
    name: str


class ManifestStatus(TypedDict):
    """One entry of manifestStatuses; health is `Healthy`, `Unhealthy` or `Unknown`."""

    identifier: Identifier
    status: NotRequired[Object]
    health: str


# Without a status the quota controller of the control plane panics (contract 6.3, trap 22).
_ALWAYS_WITH_STATUS = frozenset((GroupVersionKind("", "v1", "ResourceQuota"),))


def manifest_status(
    ordinal: int, manifest: Object, status: Object | None, health: str
) -> ManifestStatus:
    """Return the entry for one manifest.

    manifest: the original one of the Work, never the rewritten one (trap 20). status: what
    was reflected, None for nothing.
    """
    if status is None and gvk_of(manifest) in _ALWAYS_WITH_STATUS:
        status = {}
    entry = ManifestStatus(identifier=_identifier(ordinal, key_of(manifest)), health=health)
    if status is not None:
        entry["status"] = status
    return entry


def ordinal_of(manifests: Sequence[Object], key: ObjectKey) -> int | None:
    """Return the index of the first manifest with this key, None where there is none."""
    return next((i for i, manifest in enumerate(manifests) if key_of(manifest) == key), None)


def replace_entry(
    entries: Sequence[ManifestStatus] | None,
    entry: ManifestStatus,
    manifests: Sequence[Object] | None = None,
) -> list[ManifestStatus]:
    """Return the entries with this one in its place, ordered by ordinal.

    With `manifests`, entries that name none of them any more are dropped.
    """
    ordinal = entry["identifier"]["ordinal"]
    kept = [
        other
        for other in entries or ()
        if other["identifier"]["ordinal"] != ordinal
        and (manifests is None or _names_manifest(other["identifier"], manifests))
    ]
    return sorted([*kept, entry], key=lambda other: other["identifier"]["ordinal"])


def _identifier(ordinal: int, key: ObjectKey) -> Identifier:
    identifier = Identifier(
        ordinal=ordinal,
        version=key.gvk.version,
        kind=key.gvk.kind,
        resource="",  # Karmada never fills it, but the CRD requires it
        name=key.name,
    )
    if key.gvk.group:
        identifier["group"] = key.gvk.group
    if key.namespace:
        identifier["namespace"] = key.namespace
    return identifier


def _names_manifest(identifier: Identifier, manifests: Sequence[Object]) -> bool:
    ordinal = identifier["ordinal"]
    if not 0 <= ordinal < len(manifests):
        return False
    return _identifier(ordinal, key_of(manifests[ordinal])) == {**identifier, "resource": ""}
