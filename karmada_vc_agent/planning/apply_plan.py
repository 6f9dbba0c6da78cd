"""Decide which write, if any, makes the live object what the manifest wants.

Karmada compares the whole merged object with the live one (contract 5.5 step 5), so a default
that the server filled in and the manifest does not name makes them differ. The PUT that follows
changes nothing: the server answers with the same resourceVersion. `needs_update` with the
remembered version is what keeps that from happening at each event.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from karmada_vc_agent.model.objects import Object, dig, labels_of
from karmada_vc_agent.planning import metadata, ownership
from karmada_vc_agent.planning.prune import prune

Retain = Callable[[Object, Object], Awaitable[Object]]
"""(merged desired, live) -> desired with what the host owns; may raise InterpretationError.

Awaited because it may be a script or a webhook of the user's own.
"""

Check = Callable[[Object, Object | None], Object]
"""(retained object, live) -> the object to write: asserts the rules once more after Retain."""

_GENERATION_PREFIX = "gen:"
_RESOURCE_VERSION_PREFIX = "rv:"


@dataclass(frozen=True, slots=True)
class Create:
    """There is no live object: POST this one."""

    obj: Object


@dataclass(frozen=True, slots=True)
class Replace:
    """PUT this object, complete with the live resourceVersion."""

    obj: Object


@dataclass(frozen=True, slots=True)
class Keep:
    """The live object is right: write nothing."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """The live object is not ours to write.

    owner: the virtual cluster that has it; empty where no Karmada manages it.
    """

    owner: str


ApplyPlan = Create | Replace | Keep | Foreign


async def plan_apply(
    desired: Object, live: Object | None, retain: Retain, check: Check
) -> ApplyPlan:
    """Plan the write for one manifest.

    desired: the rewritten manifest, named as on the host. live: the host object or None. What
    was retained is checked before it is compared: somebody may have edited it on the host.
    Source: contract 5.5.
    """
    if live is None:
        return Create(check(desired, None))
    if not ownership.may_replace(desired, live):
        return Foreign(ownership.foreign_owner(desired, live) or "")
    retained = await retain(metadata.merge_metadata(desired, live), live)
    return _replace_unless_equal(check(retained, live), live)


async def plan_release(desired: Object, live: Object, retain: Retain) -> Replace | Keep | Foreign:
    """Plan the write that takes Karmada's and our marks off an object that is to stay.

    Used when a Work with preserveResourcesOnDeletion goes (contract 5.8, first point).
    """
    if not ownership.may_replace(desired, live):
        return Foreign(ownership.foreign_owner(desired, live) or "")
    merged = metadata.merge_metadata(metadata.without_claims(desired), live)
    # Our own keys are in no managed list, so the merge alone would bring them back.
    retained = await retain(merged, live)
    return _replace_unless_equal(metadata.without_our_keys(retained), live)


def version_of(live: Object) -> str:
    """Return what to remember of a written object: `gen:<n>`, else `rv:<v>` (contract 5.5)."""
    generation = dig(live, "metadata", "generation")
    if generation:
        return f"{_GENERATION_PREFIX}{generation}"
    return f"{_RESOURCE_VERSION_PREFIX}{dig(live, 'metadata', 'resourceVersion') or ''}"


def needs_update(desired: Object, live: Object, remembered: str | None) -> bool:
    """Whether the live object may have drifted and the update path must look at it.

    desired: the rewritten manifest (trap 31). remembered: `version_of` what was last written
    or found right. All labels count, so one added on the host asks for an update each time;
    `plan_apply` then says Keep. Source: contract 5.6.
    """
    version = version_of(live)
    if version != remembered:
        return True
    if not version.startswith(_GENERATION_PREFIX):
        return False
    return (
        dig(desired, "metadata", "name") != dig(live, "metadata", "name")
        or (dig(desired, "metadata", "namespace") or "")
        != (dig(live, "metadata", "namespace") or "")
        or labels_of(desired) != labels_of(live)
    )


def _replace_unless_equal(merged: Object, live: Object) -> Replace | Keep:
    # Karmada prunes only the live side and so PUTs each Service whose clusterIP it retained;
    # pruning both sides the same way spares the host these writes.
    return Keep() if prune(merged) == prune(live) else Replace(merged)
