"""Parses and builds URL paths of the Kubernetes API, strictly.

What the host gets is built from decoded segments, never copied: a path that this parser reads in
one way cannot be read in another one there.
"""

import re
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct

_SEGMENT = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})+")
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_DOTS = frozenset({".", ".."})
_SAFE = ":@~!$'()*,="


class PathError(ValueError):
    """A path that is not served, whatever it means: 400."""


class ResourcePath(Struct, frozen=True):
    """A path to a collection, an object, or a subresource; parts that are missing are "".

    rest: decoded segments behind the subresource, such as those of a proxied request.
    """

    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: tuple[str, ...] = ()
    has_slash_at_end: bool = False

    def encoded(self) -> str:
        """Return the path for a request."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespace and self.resource != "namespaces":
            parts += ["namespaces", self.namespace]
        parts += [part for part in (self.resource, self.name, self.subresource) if part]
        return encode((*parts, *self.rest), has_slash_at_end=self.has_slash_at_end)


class OtherPath(Struct, frozen=True):
    """A path that leads to no resource: discovery, version, health, OpenAPI, or not served."""

    segments: tuple[str, ...]
    has_slash_at_end: bool = False

    def encoded(self) -> str:
        """Return the path for a request."""
        return encode(self.segments, has_slash_at_end=self.has_slash_at_end)


def parse(path: str) -> ResourcePath | OtherPath:
    """Parse a path as received. Raises PathError."""
    segments, has_slash = split(path)
    prefix, parts = _api(segments)
    if prefix is None or not parts:
        return OtherPath(segments, has_slash)
    return _resource(*prefix, parts, has_slash_at_end=has_slash)


def split(path: str) -> tuple[tuple[str, ...], bool]:
    """Return the decoded segments, and whether a slash ends the path. Raises PathError."""
    if not path.startswith("/"):
        raise PathError("the path must begin with /")
    raw = path[1:].split("/")
    has_slash = len(raw) > 1 and not raw[-1]
    if not raw[-1]:
        raw.pop()
    return tuple(map(_decoded, raw)), has_slash


def encode(segments: tuple[str, ...], *, has_slash_at_end: bool = False) -> str:
    """Return the path of decoded segments."""
    path = "/" + "/".join(quote(segment, safe=_SAFE) for segment in segments)
    return path + "/" if has_slash_at_end and segments else path


def _decoded(raw: str) -> str:
    if not _SEGMENT.fullmatch(raw):
        raise PathError("the path has an empty segment, or characters that must be encoded")
    try:
        segment = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise PathError("the path is not UTF-8") from error
    if segment in _DOTS or "/" in segment or "\\" in segment or not segment.isprintable():
        raise PathError("the path has a segment . or .., or an encoded slash")
    return segment


def _api(segments: tuple[str, ...]) -> tuple[tuple[str, str] | None, tuple[str, ...]]:
    """Return group and version, and what follows; None: the path is none of an API."""
    match segments:
        case ("api", version, *rest):
            return ("", version), tuple(rest)
        case ("apis", group, version, *rest):
            return (group, version), tuple(rest)
    return None, ()


def _resource(
    group: str, version: str, parts: tuple[str, ...], *, has_slash_at_end: bool
) -> ResourcePath:
    if any("%" in part for part in (group, version, *parts[:3])):
        raise PathError("names must not contain %")
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource, name, subresource = (*parts, "", "")[:3]
    return ResourcePath(
        group, version, resource, namespace, name, subresource, parts[3:], has_slash_at_end
    )
