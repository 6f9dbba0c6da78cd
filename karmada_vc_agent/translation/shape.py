"""Validates the frame of a manifest, which every rule takes for granted."""

from typing import Any

from karmada_vc_agent.model.depth import size_of
from karmada_vc_agent.model.objects import is_map_of_texts

MAX_LEVELS = 200
"""Nesting of maps and lists; its Work, and what is made of it, can still be written."""
MAX_BYTES = 3 * 1024 * 1024
_SHOWN = 80
_PATH_BREAKERS = ("/", "%", "?", "#")


def malformed(manifest: Any) -> str | None:
    """Return what is wrong with the frame of a manifest, or None; its content is not checked.

    Any API server must accept it, and the result must be small enough to send. A name must be one
    segment of a URL path: "../x" would reach other objects on the host.
    """
    if problem := malformed_frame(manifest):
        return problem
    size = size_of(manifest, MAX_LEVELS)
    if size is None:
        return f"it is nested deeper than {MAX_LEVELS} levels"
    if size > MAX_BYTES:
        return f"it has {size} bytes, more than the {MAX_BYTES} that an API server accepts"
    return None


def malformed_frame(manifest: Any) -> str | None:
    """Return what is wrong with the identity of a manifest, or None; its size is not checked."""
    if not isinstance(manifest, dict):
        return "it is not an object"
    for field in ("apiVersion", "kind"):
        if not isinstance(manifest.get(field), str) or not manifest[field]:
            return f"{field} is not set"
    return _malformed_metadata(manifest.get("metadata"))


def _malformed_metadata(metadata: Any) -> str | None:
    if not isinstance(metadata, dict):
        return "metadata is not set"
    if not metadata.get("name"):
        return "metadata.name is not set"
    for field in ("name", "namespace"):
        if not _is_path_segment(metadata.get(field) or "x"):
            shown = repr(metadata[field])[:_SHOWN]  # whatever a tenant puts there
            return f"metadata.{field} {shown} is not a valid name"
    for field in ("labels", "annotations"):
        pairs = metadata.get(field)
        if pairs is not None and not is_map_of_texts(pairs):
            return f"metadata.{field} is not a map of strings"
    return None


def _is_path_segment(name: Any) -> bool:
    return (
        isinstance(name, str)
        and name not in (".", "..")
        and not any(mark in name for mark in _PATH_BREAKERS)
        and name.isprintable()
    )
