"""Decide which write, if any, aligns the live object with the manifest.

    live -> merge -> retain -> assert placement -> decide -> write

`merge` and `decide` are here; the caller runs the interpreter and the placement rules in between.

Karmada compares the whole merged object with the live one (contract 5.5 step 5), so a default
that the server filled in and the manifest does not name makes them differ. The PUT that follows
changes nothing: the server answers with the same resourceVersion. `needs_update` with the
remembered version is what keeps that from happening at each event; the mark on the object, and the
documented defaults of kinds that can have none, keep it from happening at each start (ADR 49).
"""

from collections.abc import Container
from dataclasses import dataclass

from karmada_vc_agent.model.objects import Object, dig, labels_of
from karmada_vc_agent.work.rules import metadata, ownership, written_mark
from karmada_vc_agent.work.rules.prune import prune
from karmada_vc_agent.work.rules.server_defaults import completed

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
    """The live object is as desired: write nothing."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """The live object is not ours to write."""


def merge(desired: Object, live: Object | None, former: Container[str] = ()) -> Object | Foreign:
    """Return the manifest merged with the live object's metadata (contract 5.5).

    desired: the rewritten manifest, with host names. live: the host object or None. former:
    earlier names of its virtual cluster.
    """
    if live is None:
        return desired
    if not ownership.may_replace(desired, live, former):
        return Foreign()
    return metadata.merge_metadata(desired, live)


def merge_released(desired: Object, live: Object) -> Object | Foreign:
    """Return a manifest without Karmada's labels and annotations, to be kept on the host.

    For the deletion of a Work with preserveResourcesOnDeletion (contract 5.8, first point).
    """
    if not ownership.may_replace(desired, live):
        return Foreign()
    if desired.get("apiVersion") != live.get("apiVersion"):
        # Its version is not served any more, so what it says may mean nothing at this one.
        return metadata.without_claims(live)
    return metadata.merge_metadata(metadata.without_claims(desired), live)


def decide(
    desired: Object, live: Object | None, digest: str = "", *, trusts_mark: bool = False
) -> Create | Replace | Keep:
    """Return the write, if any, that makes the live object equal to `desired`.

    desired: merged, retained, and with placement asserted. digest: of the manifest, for the mark
    on what is written; "" = none. trusts_mark: whether the live object's may be believed, since
    nothing else says so.
    """
    if live is not None and _is_right(desired, live, digest if trusts_mark else ""):
        return Keep()
    if digest:
        desired = written_mark.marked(desired, live, digest)
    return Create(desired) if live is None else Replace(desired)


def _is_right(desired: Object, live: Object, digest: str) -> bool:
    """Return whether a PUT would change nothing, or the live object's mark says so.

    Karmada prunes only the live side, and so PUTs each Service whose clusterIP it retained;
    pruning both sides alike avoids these writes.
    """
    bare = prune(written_mark.unmarked(live))
    stored = completed(prune(written_mark.unmarked(desired)), bare)
    if stored == completed(bare, bare):
        return True
    is_marked = stored["metadata"] == bare["metadata"] and written_mark.fits(live, digest)
    return is_marked and written_mark.has_content(bare, stored)


def decide_released(retained: Object, live: Object) -> Replace | Keep:
    """Return the write, if any, that also removes our labels and annotations.

    Our own keys are in no managed list, so the merge alone would restore them.
    """
    desired = metadata.without_our_keys(retained)
    return Keep() if prune(desired) == prune(live) else Replace(desired)


def version_of(live: Object) -> str:
    """Return what to remember of a written object: `gen:<n>`, else `rv:<v>` (contract 5.5)."""
    generation = dig(live, "metadata", "generation")
    if generation:
        return f"{_GENERATION_PREFIX}{generation}"
    return f"{_RESOURCE_VERSION_PREFIX}{dig(live, 'metadata', 'resourceVersion') or ''}"


def needs_update(desired: Object, live: Object, remembered: str | None) -> bool:
    """Return whether the live object may have drifted and must be compared in full.

    desired: the rewritten manifest (trap 31). remembered: `version_of` what was last written or
    seen as desired. All labels count, so a label added on the host triggers it each time; `decide`
    then returns Keep. Source: contract 5.6.
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
