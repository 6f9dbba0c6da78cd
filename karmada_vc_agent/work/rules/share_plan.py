"""Decide what happens to an object that virtual clusters share (rewriting-rules 5.1).

One host object; an annotation lists its owners: virtual cluster -> hash of what it desires. It is
changed only when all owners desire the same, so a rollout that arrives cluster by cluster succeeds,
and none changes the object of another.
"""

import hashlib
import json
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from karmada_vc_agent.model import domain, karmada
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of, put
from karmada_vc_agent.work.rules import metadata
from karmada_vc_agent.work.rules.apply_plan import Create, Keep, Replace


@dataclass(frozen=True, slots=True)
class Change:
    """All owners desire the same: retain what is merged, then PUT it with its owners."""

    merged: Object
    owners: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Differs:
    """Others own the object and desire something else; path: the first difference.

    obj: what to PUT to record the wish in the owners; None = already recorded.
    """

    path: str
    obj: Object | None


@dataclass(frozen=True, slots=True)
class Remove:
    """The last owner leaves: DELETE the object.

    otherwise: what to PUT if the object must stay, such as a CRD with objects.
    """

    otherwise: Object


def plan_share(
    desired: Object, live: Object | None, cluster: str, former: Container[str] = ()
) -> Create | Replace | Keep | Change | Differs:
    """Plan the write for the manifest of one virtual cluster.

    desired: as translated, labelled as shared. An object of the host itself is never written: it is
    as desired, or differs. former: earlier names of the virtual cluster, which own nothing any
    more.
    """
    own_hash = content_hash(desired)
    if live is None:
        return Create(with_owners(desired, {cluster: own_hash}))
    path = difference(_content(desired), _content(live))
    if not is_shared(live):
        return Keep() if path is None else Differs(path, None)
    owners = owners_of(live)
    joined = {name: hash_ for name, hash_ in owners.items() if name not in former}
    joined[cluster] = own_hash
    if path is None and joined == owners:
        return Keep()
    if all(hash_ == own_hash for hash_ in joined.values()):
        return Change(metadata.merge_metadata(desired, live), joined)
    if path is None:
        return Replace(with_owners(live, joined))
    is_recorded = cluster not in owners or joined == owners
    return Differs(path, None if is_recorded else with_owners(live, joined))


def plan_leave(live: Object, cluster: str) -> Replace | Remove | Keep:
    """Plan the write for a virtual cluster that no longer desires the object."""
    owners = owners_of(live)
    if not is_shared(live) or cluster not in owners:
        return Keep()
    rest = {name: hash_ for name, hash_ in owners.items() if name != cluster}
    left = with_owners(live, rest)
    return Replace(left) if rest else Remove(left)


def is_shared(live: Object) -> bool:
    """Return whether an agent created this object to be shared."""
    return labels_of(live).get(domain.SHARED_LABEL) == "true"


def with_owners(obj: Object, owners: Mapping[str, str]) -> Object:
    """Return an object with its owners recorded; owners: as `owners_of` returns them."""
    text = json.dumps(owners, sort_keys=True, separators=(",", ":"))
    return put(obj, text, "metadata", "annotations", domain.OWNERS_ANNOTATION)


def owners_of(live: Object) -> dict[str, str]:
    """Return virtual cluster -> hash of what it desires, without malformed entries."""
    try:
        owners = json.loads(annotations_of(live).get(domain.OWNERS_ANNOTATION, "{}"))
    except ValueError:
        return {}
    items = owners.items() if isinstance(owners, dict) else ()
    return {name: hash_ for name, hash_ in items if isinstance(hash_, str)}


def content_hash(desired: Object) -> str:
    """Return a short hash of the content of a manifest, independent of the virtual cluster."""
    text = json.dumps(_content(desired), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def difference(desired: Any, live: Any, path: str = "") -> str | None:
    """Return the path of the first difference from what is desired, None if there is none.

    Desired fields that are absent or empty may have been defaulted by the host.
    """
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        for key, value in desired.items():
            where = f"{path}.{key}" if path else key
            is_absent = key not in live and not value
            path_below = None if is_absent else difference(value, live.get(key), where)
            if path_below is not None:
                return path_below
        return None
    if isinstance(desired, list) and isinstance(live, list) and len(desired) == len(live):
        for index, (value, other) in enumerate(zip(desired, live, strict=True)):
            path_below = difference(value, other, f"{path}[{index}]")
            if path_below is not None:
                return path_below
        return None
    return None if desired == live else path


def _content(obj: Object) -> Object:
    """Return what virtual clusters must agree on: of the metadata only labels and annotations.

    Karmada's own keys name bindings and Works, which differ for each of them.
    """
    content = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    for name, pairs in (("labels", labels_of(obj)), ("annotations", annotations_of(obj))):
        own = {
            key: value
            for key, value in pairs.items()
            if not karmada.is_karmada_key(key) and not domain.is_ours(key)
        }
        if own:
            content[f"metadata.{name}"] = own
    return content
