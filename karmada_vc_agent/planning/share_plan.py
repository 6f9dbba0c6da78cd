"""Decide what becomes of an object that virtual clusters share (rewriting-rules 5.1).

One host object, its owners counted in an annotation: virtual cluster -> hash of what it wants.
It is changed only when all owners want the same, so a roll-out that arrives one by one ends
well, and nobody changes it under another.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from karmada_vc_agent.model import domain, karmada
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of, put
from karmada_vc_agent.planning import metadata
from karmada_vc_agent.planning.apply_plan import Create, Keep, Replace


@dataclass(frozen=True, slots=True)
class Change:
    """All owners want the same: retain what is merged, then PUT it with its owners."""

    merged: Object
    owners: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Differs:
    """Others own the object, and it is not what is wanted; path: where it differs first.

    obj: what to PUT, where only the wish has to be noted in the owners.
    """

    path: str
    obj: Object | None


@dataclass(frozen=True, slots=True)
class Remove:
    """The last owner leaves: DELETE the object.

    otherwise: what to PUT where the object is to stay after all, e.g. a CRD with objects.
    """

    otherwise: Object


SharePlan = Create | Replace | Keep | Change | Differs
LeavePlan = Replace | Remove | Keep


def plan_share(desired: Object, live: Object | None, cluster: str) -> SharePlan:
    """Plan the write for the manifest of one virtual cluster.

    desired: as translated, marked as shared. An object of the host itself is never written:
    it is right as it is, or differs.
    """
    wanted = content_hash(desired)
    if live is None:
        return Create(with_owners(desired, {cluster: wanted}))
    path = difference(_content(desired), _content(live))
    if not is_shared(live):
        return Keep() if path is None else Differs(path, None)
    owners = owners_of(live)
    joined = {**owners, cluster: wanted}
    if path is None and joined == owners:
        return Keep()
    if all(hash_ == wanted for hash_ in joined.values()):
        return Change(metadata.merge_metadata(desired, live), joined)
    if path is None:
        return Replace(with_owners(live, joined))
    is_noted = cluster not in owners or joined == owners
    return Differs(path, None if is_noted else with_owners(live, joined))


def plan_leave(live: Object, cluster: str) -> LeavePlan:
    """Plan the write for a virtual cluster that wants the object no longer."""
    owners = owners_of(live)
    if not is_shared(live) or cluster not in owners:
        return Keep()
    rest = {name: hash_ for name, hash_ in owners.items() if name != cluster}
    left = with_owners(live, rest)
    return Replace(left) if rest else Remove(left)


def is_shared(live: Object) -> bool:
    """Whether an agent made this object to be shared."""
    return labels_of(live).get(domain.SHARED_LABEL) == "true"


def with_owners(obj: Object, owners: Mapping[str, str]) -> Object:
    """Return an object that names its owners; owners: as `owners_of` returns them."""
    text = json.dumps(owners, sort_keys=True, separators=(",", ":"))
    return put(obj, text, "metadata", "annotations", domain.OWNERS_ANNOTATION)


def owners_of(live: Object) -> dict[str, str]:
    """Return virtual cluster -> hash of what it wants; what is odd is left out."""
    try:
        owners = json.loads(annotations_of(live).get(domain.OWNERS_ANNOTATION, "{}"))
    except ValueError:
        return {}
    items = owners.items() if isinstance(owners, dict) else ()
    return {name: hash_ for name, hash_ in items if isinstance(hash_, str)}


def content_hash(desired: Object) -> str:
    """Return a short hash of what a manifest wants, whoever brings it."""
    text = json.dumps(_content(desired), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def difference(wanted: Any, live: Any, path: str = "") -> str | None:
    """Return the path of the first thing that is not as wanted, None where all is.

    What is wanted absent or empty may have been filled in by the host.
    """
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        for key, value in wanted.items():
            where = f"{path}.{key}" if path else key
            is_absent = key not in live and not value
            found = None if is_absent else difference(value, live.get(key), where)
            if found is not None:
                return found
        return None
    if isinstance(wanted, list) and isinstance(live, list) and len(wanted) == len(live):
        for index, (value, other) in enumerate(zip(wanted, live, strict=True)):
            found = difference(value, other, f"{path}[{index}]")
            if found is not None:
                return found
        return None
    return None if wanted == live else path


def _content(obj: Object) -> Object:
    """Return what virtual clusters must agree on: no metadata but labels and annotations.

    Karmada's own keys name bindings and Works, and differ for each of them.
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
