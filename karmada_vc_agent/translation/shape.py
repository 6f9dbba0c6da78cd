"""Is this an object at all: what every rule takes for granted of a manifest."""

from typing import Any

from karmada_vc_agent.model.depth import size_of
from karmada_vc_agent.model.objects import Object, is_map_of_texts

MAX_LEVELS = 200
"""Maps and lists in one another; a Work of it, and what is made of it, still can be written."""
MAX_BYTES = 3 * 1024 * 1024
_SHOWN = 80
_PATH_BREAKERS = ("/", "%", "?", "#")


def malformed(manifest: Any) -> str | None:
    """Say what is wrong with the frame of a manifest, or None; its content is not looked at.

    It must be such that any API server takes it, and that what is made of it can be sent. A
    name must be one segment of a URL path: "../x" would reach objects elsewhere on the host.
    """
    return malformed_frame(manifest) or _unbounded(manifest)


def malformed_frame(manifest: Any) -> str | None:
    """Say what is wrong with what names a manifest, or None; how large it is, is not looked at."""
    if not isinstance(manifest, dict):
        return "it is no object"
    for field in ("apiVersion", "kind"):
        if not isinstance(manifest.get(field), str) or not manifest[field]:
            return f"{field} is not set"
    return _odd_metadata(manifest.get("metadata"))


def _odd_metadata(metadata: Any) -> str | None:
    if not isinstance(metadata, dict):
        return "metadata is not set"
    if not metadata.get("name"):
        return "metadata.name is not set"
    for field in ("name", "namespace"):
        if not _is_path_segment(metadata.get(field) or "x"):
            return f"metadata.{field} {_shown(metadata[field])} is no name"
    for field in ("labels", "annotations"):
        pairs = metadata.get(field)
        if pairs is not None and not is_map_of_texts(pairs):
            return f"metadata.{field} is no map of texts"
    return None


def _unbounded(manifest: Object) -> str | None:
    """Say what of it nobody could send on: an API server would not take it."""
    size = size_of(manifest, MAX_LEVELS)
    if size is None:
        return f"it is nested deeper than {MAX_LEVELS} levels"
    if size > MAX_BYTES:
        return f"it is {size} bytes long, more than the {MAX_BYTES} that an API server takes"
    return None


def _shown(value: Any) -> str:
    """Return a value for a message, which must stay short whatever a tenant puts there."""
    return repr(value)[:_SHOWN]


def _is_path_segment(name: Any) -> bool:
    return (
        isinstance(name, str)
        and name not in (".", "..")
        and not any(mark in name for mark in _PATH_BREAKERS)
        and name.isprintable()
    )
