"""Is this an object at all: what every rule takes for granted of a manifest."""

from typing import Any

_PATH_BREAKERS = ("/", "%", "?", "#")


def malformed(manifest: Any) -> str | None:
    """Say what is wrong with the frame of a manifest, or None; its content is not looked at.

    A name must be one segment of a URL path: "../x" would reach objects elsewhere on the host.
    """
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
            return f"metadata.{field} {metadata[field]!r} is no name"
    for field in ("labels", "annotations"):
        pairs = metadata.get(field)
        if pairs is not None and not _is_text_map(pairs):
            return f"metadata.{field} is no map of texts"
    return None


def _is_path_segment(name: Any) -> bool:
    return (
        isinstance(name, str)
        and name not in (".", "..")
        and not any(mark in name for mark in _PATH_BREAKERS)
        and name.isprintable()
    )


def _is_text_map(pairs: Any) -> bool:
    return isinstance(pairs, dict) and all(isinstance(value, str) for value in pairs.values())
