"""Conditions and manifestStatuses of a Work, in Karmada's words (contract 5, 6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict, cast

from karmada_vc_agent.cluster.rules.conditions import Condition, find_condition, set_condition
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    ObjectKey,
    dig,
    gvk_of,
    key_of,
    maps_at,
)

APPLIED = "Applied"
DISPATCHING = "Dispatching"
_OURS = (APPLIED, DISPATCHING)

OUTSIDE_WINDOW = "OutsideWindow"

MESSAGE_MAX_LENGTH = 32768
"""In characters; the Work CRD rejects longer messages."""

_APPLIED_MESSAGE = "Manifest has been successfully applied"


def dispatching(*, suspended: bool) -> Condition:
    """Return the condition Dispatching (contract 5.3)."""
    if suspended:
        return Condition(
            type=DISPATCHING,
            status="False",
            reason="SuspendDispatching",
            message="Work dispatching is in a suspended state.",
        )
    return Condition(
        type=DISPATCHING,
        status="True",
        reason="Dispatching",
        message="Work is being dispatched to member clusters.",
    )


def dispatched(generation: int) -> Condition:
    """Return Dispatching where there are windows: nothing of this generation waits for one."""
    return Condition(**{**dispatching(suspended=False), "observedGeneration": generation})


def waiting(generation: int, until: str) -> Condition:
    """Return Dispatching of a Work of which something waits for a window; until: when it opens."""
    end = f"until {until}" if until else "for its maintenance window, which never opens"
    return Condition(
        type=DISPATCHING,
        status="False",
        reason=OUTSIDE_WINDOW,
        message=f"Generation {generation} waits {end}; what was applied before is kept.",
    )


def applied(total: int, errors: Sequence[str]) -> Condition:
    """Return the condition Applied after all manifests were tried (contract 5.4).

    total: number of manifests. errors: one text for each failed manifest, in order.
    """
    if not errors:
        return _applied("True", "AppliedSuccessful", _APPLIED_MESSAGE)
    count = f"({total - len(errors)}/{total})"
    message = f"Failed to apply all manifests {count}: {aggregate(errors)}"
    return _applied("False", "AppliedFailed", message)


def recreated(error: str | None) -> Condition:
    """Return the condition Applied after a deleted object was recreated (contract 5.6)."""
    if error is None:
        return _applied("True", "ReCreateSuccessful", _APPLIED_MESSAGE)
    return _applied("False", "ReCreateFailed", error)


def aggregate(errors: Sequence[str]) -> str:
    """Join error texts as Kubernetes does: one as it is, several as `[a, b]`, no duplicates."""
    texts = list(dict.fromkeys(errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _applied(status: str, reason: str, message: str) -> Condition:
    return Condition(
        type=APPLIED, status=status, reason=reason, message=message[:MESSAGE_MAX_LENGTH]
    )


class _ManifestIdentifier(TypedDict):
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

    identifier: _ManifestIdentifier
    status: NotRequired[Object]
    health: str


SharedName = tuple[str, str, str]
"""Group, kind and name of an object that virtual clusters share."""


@dataclass(frozen=True, slots=True)
class Measure:
    """The size of a Work; byte_count: what its manifests hold in memory."""

    byte_count: int
    manifest_count: int
    kinds: tuple[GroupVersionKind, ...]
    shared: tuple[SharedName, ...]


ALWAYS_WITH_STATUS = frozenset((GroupVersionKind("", "v1", "ResourceQuota"),))
"""Without a status Karmada's quota controller panics (contract 6.3, trap 22)."""


def manifest_status(
    ordinal: int, manifest: Object, status: Object | None, health: str
) -> ManifestStatus:
    """Return the entry for one manifest.

    manifest: the original one of the Work, never the rewritten one (trap 20).
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

    What could not be read stays as it was; entries without a manifest are removed.
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


def _identifier(ordinal: int, key: ObjectKey) -> _ManifestIdentifier:
    identifier = _ManifestIdentifier(
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


def _names_manifest(identifier: _ManifestIdentifier, manifests: Sequence[Object]) -> bool:
    ordinal = identifier["ordinal"]
    if not 0 <= ordinal < len(manifests):
        return False
    return _identifier(ordinal, key_of(manifests[ordinal])) == {**identifier, "resource": ""}


def applied_condition(
    before: Condition | None,
    total: int,
    errors: Sequence[str],
    *,
    was_recreated: bool,
    is_new: bool,
) -> Condition:
    """Return Applied; the message of a recreation stays until the Work changes (contract 5.6).

    before: the current Applied. is_new: this generation of the Work was not applied yet.
    """
    if was_recreated and not is_new:
        return recreated(aggregate(errors) if errors else None)
    condition = applied(total, errors)
    if before is not None and not is_new and before["status"] == condition["status"] == "True":
        return before
    return condition


def compose_work_status(
    live_status: Object | None,
    conditions: Sequence[Condition],
    entries: Sequence[ManifestStatus],
    manifests: Sequence[Object],
    now: str,
) -> Object:
    """Return the whole status to PUT: the live one overlaid with conditions and entries.

    entries: what could be read now. Conditions of other controllers and unknown fields are kept.
    """
    status = dict(live_status) if isinstance(live_status, dict) else {}
    merged: Sequence[Condition] = _conditions_of(status)
    for condition in conditions:
        merged = set_condition(merged, condition, condition.get("lastTransitionTime", now))
    status["conditions"] = merged
    live_entries = [entry for entry in maps_at(status, "manifestStatuses") if has_ordinal(entry)]
    merged_entries = merge_entries(cast("list[ManifestStatus]", live_entries), entries, manifests)
    if merged_entries or "manifestStatuses" in status:
        status["manifestStatuses"] = merged_entries
    return status


def reported_over(live: Object | None, reported: Object, manifests: Sequence[Object]) -> Object:
    """Return a live status overlaid with the conditions and entries of one composed before."""
    conditions = [each for each in _conditions_of(reported) if each["type"] in _OURS]
    entries = cast("list[ManifestStatus]", maps_at(reported, "manifestStatuses"))
    return compose_work_status(live, conditions, entries, manifests, "")


def applied_of(status: Object | None) -> Condition | None:
    """Return the condition Applied of a Work's status."""
    return find_condition(_conditions_of(status), APPLIED)


def dispatching_of(status: Object | None) -> Condition | None:
    """Return the condition Dispatching of a Work's status."""
    return find_condition(_conditions_of(status), DISPATCHING)


def is_dispatched(work: Object) -> bool:
    """Return whether the hub has that nothing of this generation of a Work waits for a window."""
    condition = dispatching_of(work.get("status"))
    generation = work["metadata"].get("generation")
    if condition is None or condition["status"] != "True" or not generation:
        return False
    return bool(condition.get("observedGeneration") == generation)


def is_waiting(work: Object) -> bool:
    """Return whether the hub has that something of a Work waits for a window."""
    condition = dispatching_of(work.get("status"))
    return condition is not None and condition.get("reason") == OUTSIDE_WINDOW


def _conditions_of(status: Object | None) -> list[Condition]:
    """Return the well-formed conditions; the hub validates only their type and status."""
    well_formed = (c for c in maps_at(status, "conditions") if {"type", "status"} <= c.keys())
    return [cast("Condition", condition) for condition in well_formed]
