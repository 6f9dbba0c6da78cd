"""What of an object of the hub is saved: next to no status, nothing that the server counts.

Of a status: whether nothing of a Work waited for its maintenance window (ADR 43); without that
nothing is recreated while the window is closed.

Nothing is saved of what has a deletion mark. A Work over a bound of its virtual cluster is not
saved either: the agent keeps only its name. A suspended Work is saved as suspended: it must not be
touched. Versions are left out, so that the hub is newer, whatever version it has.
"""

import zlib

import orjson

from karmada_vc_agent.model.objects import Object, maps_at

LARGEST_OBJECT = 2 * 2**20
"""Bytes of JSON; API servers store no object of twice that, and it must fit beside others."""

_METADATA = (
    *("name", "namespace", "uid", "generation", "creationTimestamp"),
    *("labels", "annotations", "finalizers", "ownerReferences"),
)
_CONTENT = ("apiVersion", "kind", "spec", "target", "customizations", "webhooks")
"""Fields of Works, Clusters, customizations and webhook configurations that a client wrote."""


def kept(obj: Object) -> Object | None:
    """Return what is saved of an object, None = nothing."""
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        return None
    left = {key: obj[key] for key in _CONTENT if key in obj}
    left["metadata"] = {key: metadata[key] for key in _METADATA if key in metadata}
    if dispatched := _dispatched(obj):
        left["status"] = {"conditions": [dispatched]}
    return left


def _dispatched(obj: Object) -> Object | None:
    """Return Dispatching of a Work of whose generation nothing waits; None where it may wait."""
    generation = obj["metadata"].get("generation")
    expected = {"type": "Dispatching", "status": "True", "observedGeneration": generation}
    conditions = maps_at(obj, "status", "conditions") if generation else ()
    return expected if any(expected.items() <= each.items() for each in conditions) else None


def encoded(obj: Object) -> bytes | None:
    """Return the JSON that is saved of an object; None where it is not, or cannot be."""
    left = kept(obj)
    if left is None:
        return None
    try:
        content = orjson.dumps(left, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError, RecursionError):
        return None  # nested too deep, or with a number that JSON has not
    return content if len(content) <= LARGEST_OBJECT else None


def mark(obj: Object) -> int:
    """Return a number that changes whenever what is saved of an object does.

    Cheap, and the same in one process only: `metadata.generation` grows with each change of the
    content.
    """
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        return 0
    parts = [str(metadata.get(key)) for key in ("uid", "generation")]
    parts += [str(metadata.get(key) or "") for key in ("labels", "annotations", "finalizers")]
    parts.append(str(_dispatched(obj) is not None))
    return zlib.crc32("\n".join(parts).encode("utf-8", "surrogatepass")) or 1
