"""Entries of a Work's status.manifestStatuses, one for each manifest (contract 6.1)."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

from karmada_vc_agent.model.objects import GroupVersionKind, Object, ObjectKey, dig, gvk_of, key_of


class _Identifier(TypedDict):
    """The manifest that an entry is about; Karmada's bindings compare all fields but `resource`."""

    ordinal: int
    group: NotRequired[str]
    version: str
    kind: str
    resource: str
    namespace: NotRequired[str]
    name: str


class ManifestStatus(TypedDict):
    """One entry of manifestStatuses; health is `Healthy`, `Unhealthy` or `Unknown`."""

    identifier: _Identifier
    status: NotRequired[Object]
    health: str


@dataclass(frozen=True, slots=True)
class Reflection:
    """What was read for one manifest: its entry, None if its status could not be read.

    problem: the failure to retry; empty = none. dependency: a failure shared with other Works; None
    = specific to this object.
    """

    entry: ManifestStatus | None
    problem: str = ""
    dependency: Hashable | None = None


ALWAYS_WITH_STATUS = frozenset((GroupVersionKind("", "v1", "ResourceQuota"),))
"""Without a status Karmada's quota controller panics (contract 6.3, trap 22)."""


def manifest_status(
    ordinal: int, manifest: Object, status: Object | None, health: str
) -> ManifestStatus:
    """Return the entry for one manifest.

    manifest: the original one of the Work, never the rewritten one (trap 20). status: the reflected
    status; None = none.
    """
    if status is None and gvk_of(manifest) in ALWAYS_WITH_STATUS:
        status = {}
    entry = ManifestStatus(identifier=_identifier(ordinal, key_of(manifest)), health=health)
    if status is not None:
        entry["status"] = status
    return entry


def ordinals(manifests: Sequence[Object]) -> list[int]:
    """Return, for each manifest, the index of the first one for the same object.

    A Work may contain an object twice; Karmada reads the entry of the first (contract 6.1).
    """
    first: dict[str, int] = {}
    named = map(repr, map(_named, manifests))  # malformed ones are not hashable
    return [first.setdefault(name, place) for place, name in enumerate(named)]


def _named(manifest: Object) -> tuple[object, ...]:
    """Return what identifies the object of a manifest, even of a malformed one."""
    paths = (("apiVersion",), ("kind",), ("metadata", "namespace"), ("metadata", "name"))
    return tuple(dig(manifest, *path) for path in paths)


def merge_entries(
    entries: Sequence[ManifestStatus] | None,
    read: Sequence[ManifestStatus],
    manifests: Sequence[Object],
) -> list[ManifestStatus]:
    """Return the entries, those just read replaced, sorted by ordinal.

    What could not be read stays as it was; entries without a manifest are removed. If several were
    read for one ordinal, the last one wins.
    """
    latest = {entry["identifier"]["ordinal"]: entry for entry in read}
    kept = [
        entry
        for entry in entries or ()
        if entry["identifier"]["ordinal"] not in latest
        and _names_manifest(entry["identifier"], manifests)
    ]
    return sorted([*kept, *latest.values()], key=lambda entry: entry["identifier"]["ordinal"])


def has_ordinal(entry: Object) -> bool:
    """Return whether an entry has a valid ordinal; the hub validates only what it wrote itself."""
    return isinstance(dig(entry, "identifier", "ordinal"), int)


def _identifier(ordinal: int, key: ObjectKey) -> _Identifier:
    identifier = _Identifier(
        ordinal=ordinal,
        version=key.gvk.version,
        kind=key.gvk.kind,
        resource="",  # Karmada never sets it, but the CRD requires it
        name=key.name,
    )
    if key.gvk.group:
        identifier["group"] = key.gvk.group
    if key.namespace:
        identifier["namespace"] = key.namespace
    return identifier


def _names_manifest(identifier: _Identifier, manifests: Sequence[Object]) -> bool:
    ordinal = identifier["ordinal"]
    if not 0 <= ordinal < len(manifests):
        return False
    return _identifier(ordinal, key_of(manifests[ordinal])) == {**identifier, "resource": ""}
