"""Which writes align host objects with manifests, and in which order.

    live -> merge -> retain -> assert placement -> decide -> write

Karmada compares the whole merged object with the live one (contract 5.5), so defaults of the server
cost PUTs that change nothing. Within a process the remembered version avoids them, for the next one
a mark on the object (ADR 49): a digest of what was desired, and the generation that this makes.

Shared objects (rewriting-rules 5.1): an annotation lists their owners: virtual cluster -> hash of
what it desires. One is changed only when all owners desire the same.
"""

import hashlib
import json
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import (
    GroupKind,
    Object,
    annotations_of,
    dig,
    drop,
    gvk_of,
    key_of,
    labels_of,
    put,
    recorded_in,
)
from karmada_vc_agent.model.quantity import read
from karmada_vc_agent.model.vocabulary import WRITTEN_ANNOTATION
from karmada_vc_agent.work.rules import ownership
from karmada_vc_agent.work.rules.server_changes import completed, prune

_UNCOUNTED = frozenset(("", "autoscaling", "coordination.k8s.io", vocabulary.RBAC_GROUP))
"""Groups of kinds whose changes the server does not count: a mark would say nothing of them."""
_COUNTED = frozenset((vocabulary.POD,))
"""Kinds of these groups whose changes it counts."""
_COUNTED_WITH_ANNOTATIONS = frozenset((vocabulary.DEPLOYMENT,))
"""Kinds of which the server counts changes of annotations, too, and so of the mark."""


def with_mark(desired: Object, live: Object | None, digest: str) -> Object:
    """Return what to write with its mark; without one where the server counts no changes."""
    desired = without_mark(desired)
    kind = gvk_of(desired).group_kind
    if kind.group in _UNCOUNTED and kind not in _COUNTED:
        return desired
    if live is None:
        return _marked(desired, digest, 1)
    # The mark has a generation that the object has only if no one changes it after this write.
    now = dig(live, "metadata", "generation")
    if not isinstance(now, int) or not now:
        return desired
    is_counted = not has_content(live, desired)
    if not is_counted and kind in _COUNTED_WITH_ANNOTATIONS:
        is_counted = annotations_of(_marked(desired, digest, now)) != annotations_of(live)
    return _marked(desired, digest, now + is_counted)


def _marked(desired: Object, digest: str, generation: int) -> Object:
    return put(desired, f"{digest}/{generation}", "metadata", "annotations", WRITTEN_ANNOTATION)


def mark_fits(live: Object, digest: str) -> bool:
    """Return whether a digest was written and nothing changed since, by the mark; not ""."""
    generation = dig(live, "metadata", "generation")
    mark = annotations_of(live).get(WRITTEN_ANNOTATION)
    return bool(digest and generation) and mark == f"{digest}/{generation}"


def without_mark(obj: Object) -> Object:
    return drop(obj, "metadata", "annotations", WRITTEN_ANNOTATION)


def has_content(live: Object, desired: Object) -> bool:
    """Return whether an object has all that another one names beside its metadata and status."""
    fields = desired.keys() - {"metadata", "status"}
    return all(has_value(live.get(field), desired[field]) for field in fields)


def has_value(live: Any, desired: Any) -> bool:
    """Return whether a value has all that another names; null, empty and zero name nothing."""
    if live is None:
        return not desired
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(has_value(live.get(k), v) for k, v in desired.items())
    if isinstance(desired, list):
        is_as_long = isinstance(live, list) and len(desired) == len(live)
        return is_as_long and all(map(has_value, live, desired))
    if desired is None or live == desired:
        return True
    if not isinstance(live, str) or not isinstance(desired, str | int | float):
        return False
    ours, theirs = read(desired), read(live)  # servers write `1` for `1000m`
    return ours is not None and theirs is not None and ours.nano == theirs.nano


class ForeignError(Exception):
    """The live object is not ours to write."""


def merge(desired: Object, live: Object | None, former: Container[str] = ()) -> Object:
    """Return the manifest with the live object's metadata (contract 5.5). Raises ForeignError."""
    if live is None:
        return desired
    if not ownership.may_replace(desired, live, former):
        raise ForeignError
    return ownership.merge_metadata(desired, live)


def merge_released(desired: Object, live: Object) -> Object:
    """Return a manifest without marks, to be kept (contract 5.8). Raises ForeignError."""
    if not ownership.may_replace(desired, live):
        raise ForeignError
    if desired.get("apiVersion") != live.get("apiVersion"):
        # Its version is not served any more, so what it says may mean nothing at this one.
        return ownership.without_claims(live)
    return ownership.merge_metadata(ownership.without_claims(desired), live)


def decide(
    desired: Object, live: Object | None, digest: str = "", *, trusts_mark: bool = False
) -> Object | None:
    """Return what to write so that the live object equals `desired`; None if it does.

    desired: merged, retained, and with placement asserted. digest: for the mark on what is written;
    "" = none. trusts_mark: whether the live object's may be believed.
    """
    if live is not None and _is_right(desired, live, digest if trusts_mark else ""):
        return None
    return with_mark(desired, live, digest) if digest else desired


def _is_right(desired: Object, live: Object, digest: str) -> bool:
    """Return whether a PUT would change nothing; Karmada prunes, and so PUTs, unlike this."""
    bare = prune(without_mark(live))
    stored = completed(prune(without_mark(desired)), bare)
    same = completed(bare, bare)
    if stored == same or _without_null_times(stored) == _without_null_times(same):
        return True
    is_marked = stored["metadata"] == bare["metadata"] and mark_fits(live, digest)
    return is_marked and has_content(bare, stored)


def _without_null_times(value: Any) -> Any:
    """Leave out `creationTimestamp: null`, which servers before 1.34 add to pod templates."""
    if isinstance(value, dict):
        return {
            key: _without_null_times(inner)
            for key, inner in value.items()
            if key != "creationTimestamp" or inner is not None
        }
    return [_without_null_times(inner) for inner in value] if isinstance(value, list) else value


def decide_released(retained: Object, live: Object) -> Object | None:
    """Return what to write to also remove our marks, which no managed list has."""
    desired = ownership.without_our_keys(retained)
    return None if prune(desired) == prune(live) else desired


def version_of(live: Object) -> str:
    """Return what to remember of a written object: `gen:<n>`, else `rv:<v>` (contract 5.5)."""
    generation = dig(live, "metadata", "generation")
    version = dig(live, "metadata", "resourceVersion") or ""
    return f"gen:{generation}" if generation else f"rv:{version}"


def needs_update(desired: Object, live: Object, remembered: str | None) -> bool:
    """Return whether an object, last of that version, has to be compared (5.6, trap 31)."""
    version = version_of(live)
    if version != remembered or version.startswith("rv:"):
        return version != remembered
    return key_of(desired)[1:] != key_of(live)[1:] or labels_of(desired) != labels_of(live)


APPLIED_FIRST = frozenset((vocabulary.NAMESPACE, vocabulary.CUSTOM_RESOURCE_DEFINITION))
"""What all others may need."""

ObjectId = tuple[GroupKind, str, str]
"""Kind, virtual namespace and name."""


def in_order(manifests: Sequence[Object]) -> list[int]:
    """Return the places of the manifests in the order in which they are applied."""
    places = range(len(manifests))
    return sorted(places, key=lambda n: object_id(manifests[n])[0] not in APPLIED_FIRST)


def object_id(manifest: Object) -> ObjectId:
    """Return what identifies the object of a manifest, at whatever version."""
    key = key_of(manifest)
    return key.gvk.group_kind, key.namespace, key.name


class SharePlan(NamedTuple):
    """What to write of a shared object; None = nothing.

    owners: if given, `obj` is to be retained first, and then gets these owners. differs_at: where
    it differs from what its other owners desire, so that it is refused; `obj` records the wish.
    """

    obj: Object | None = None
    owners: Mapping[str, str] | None = None
    differs_at: str = ""


def plan_share(
    desired: Object, live: Object | None, cluster: str, former: Container[str] = ()
) -> SharePlan:
    """Plan the write for one virtual cluster; an object of the host itself is never written."""
    own_hash = content_hash(desired)
    if live is None:
        return SharePlan(with_owners(desired, {cluster: own_hash}))
    path = difference(_content(desired), _content(live))
    if not is_shared(live):
        return SharePlan(differs_at=path or "")
    owners = owners_of(live)
    joined = {name: hash_ for name, hash_ in owners.items() if name not in former}
    joined[cluster] = own_hash
    if path is None and joined == owners:
        return SharePlan()
    if all(hash_ == own_hash for hash_ in joined.values()):
        return SharePlan(ownership.merge_metadata(desired, live), joined)
    if path is None:
        return SharePlan(with_owners(live, joined))
    is_recorded = cluster not in owners or joined == owners
    return SharePlan(None if is_recorded else with_owners(live, joined), differs_at=path)


def plan_leave(live: Object, cluster: str) -> Object | None:
    """Return an object without a virtual cluster that desires it no more; None if it had none."""
    owners = owners_of(live)
    if not is_shared(live) or cluster not in owners:
        return None
    return with_owners(live, {name: hash_ for name, hash_ in owners.items() if name != cluster})


def is_shared(live: Object) -> bool:
    """Return whether an agent created this object to be shared."""
    return labels_of(live).get(vocabulary.SHARED_LABEL) == "true"


def with_owners(obj: Object, owners: Mapping[str, str]) -> Object:
    """Return an object with its owners recorded; owners: as `owners_of` returns them."""
    text = json.dumps(owners, sort_keys=True, separators=(",", ":"))
    return put(obj, text, "metadata", "annotations", vocabulary.OWNERS_ANNOTATION)


def owners_of(live: Object) -> dict[str, str]:
    """Return virtual cluster -> hash of what it desires, without malformed entries."""
    return recorded_in(live, vocabulary.OWNERS_ANNOTATION, str)


def content_hash(desired: Object) -> str:
    """Return a short hash of the content of a manifest, independent of the virtual cluster."""
    text = json.dumps(_content(desired), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def difference(desired: Any, live: Any, path: str = "") -> str | None:
    """Return the path of the first difference from what is desired and not empty."""
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        below = (
            difference(value, live.get(key), f"{path}.{key}" if path else key)
            for key, value in desired.items()
            if value or key in live
        )
    elif isinstance(desired, list) and isinstance(live, list) and len(desired) == len(live):
        pairs = enumerate(zip(desired, live, strict=True))
        below = (difference(value, other, f"{path}[{index}]") for index, (value, other) in pairs)
    else:
        return None if desired == live else path
    return next((each for each in below if each is not None), None)


def _content(obj: Object) -> Object:
    """Return what virtual clusters must agree on, without keys of Karmada and our own."""
    content = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    for name, pairs in (("labels", labels_of(obj)), ("annotations", annotations_of(obj))):
        keys = {k for k in pairs if not (vocabulary.is_karmada_key(k) or vocabulary.is_ours(k))}
        if keys:
            content[f"metadata.{name}"] = {key: pairs[key] for key in keys}
    return content
