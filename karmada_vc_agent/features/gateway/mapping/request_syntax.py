"""Paths, queries and media types of requests, parsed strictly (G-34, G-43).

What the host gets is built from decoded segments, never copied: a path that this parser reads in
one way cannot be read in another one there.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct, structs

from karmada_vc_agent.features.gateway.mapping.refusals import JSON, bad_request
from karmada_vc_agent.model.kinds import NAMESPACE_NAME_LABEL

_SEGMENT = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})+")
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_DOTS = frozenset({".", ".."})
_SAFE_IN_PATHS = ":@~!$'()*,="


class RequestPath(Struct, frozen=True):
    """A path to a collection, an object, or a subresource; parts that are missing are "".

    rest: decoded segments behind the subresource, such as those of a proxied request. Without a
    resource, rest is the whole path: discovery, version, health, OpenAPI, or what is not served.
    """

    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: tuple[str, ...] = ()
    has_slash_at_end: bool = False

    def encoded(self) -> str:
        """Return the path for a request."""
        parts: list[str] = []
        if self.resource:
            parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
            if self.namespace and self.resource != "namespaces":
                parts += ["namespaces", self.namespace]
            parts += [part for part in (self.resource, self.name, self.subresource) if part]
        return encode_path((*parts, *self.rest), has_slash_at_end=self.has_slash_at_end)


def parse_path(path: str) -> RequestPath:
    """Parse a path as received. Raises RefusalError."""
    segments, has_slash = split_path(path)
    match segments:
        case ("api", version, _, *_):
            group, parts = "", segments[2:]
        case ("apis", group, version, _, *_):
            parts = segments[3:]
        case _:
            return RequestPath(rest=segments, has_slash_at_end=has_slash)
    if any("%" in part for part in (group, version, *parts[:3])):
        raise bad_request("names must not contain %")
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource, name, subresource = (*parts, "", "")[:3]
    return RequestPath(group, version, resource, namespace, name, subresource, parts[3:], has_slash)


def split_path(path: str) -> tuple[tuple[str, ...], bool]:
    """Return the decoded segments, and whether a slash ends the path. Raises RefusalError."""
    if not path.startswith("/"):
        raise bad_request("the path must begin with /")
    raw = path[1:].split("/")
    has_slash = len(raw) > 1 and not raw[-1]
    if not raw[-1]:
        raw.pop()
    return tuple(map(_decoded_segment, raw)), has_slash


def encode_path(segments: tuple[str, ...], *, has_slash_at_end: bool = False) -> str:
    """Return the path of decoded segments."""
    path = "/" + "/".join(quote(segment, safe=_SAFE_IN_PATHS) for segment in segments)
    return path + "/" if has_slash_at_end and segments else path


def _decoded_segment(raw: str) -> str:
    if not _SEGMENT.fullmatch(raw):
        raise bad_request("the path has an empty segment, or characters that must be encoded")
    try:
        segment = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise bad_request("the path is not UTF-8") from error
    if segment in _DOTS or "/" in segment or "\\" in segment or not segment.isprintable():
        raise bad_request("the path has a segment . or .., or an encoded slash")
    return segment


_PAIR = re.compile(r"(?:[A-Za-z0-9\-._~!$'()*,;:@/?=\[\]+]|%[0-9A-Fa-f]{2})*")
_FALSE = frozenset({"false", "0"})
_SAFE_IN_QUERIES = ":@~!$'()*,/"

FIELDS_OF_NAMESPACES = ("metadata.namespace", "involvedObject.namespace", "regarding.namespace")
"""Fields of `fieldSelector` with a namespace in any resource."""
NAME_FIELD = "metadata.name"

_FIELD_TERM = re.compile(r"(?P<key>[^=!]*)(?P<operator>!=|==|=)(?P<value>.*)", re.DOTALL)
_LABEL_EQUALITY = re.compile(r"(?P<key>[^\s=!]+)\s*(?P<operator>!=|==|=)\s*(?P<value>\S*)")
_LABEL_SET = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_FIELDS = re.compile(r"(?:\\.|[^,])+", re.DOTALL)
"""Terms between commas that are not escaped; empty ones are dropped, as by an API server."""
_LABEL_MARK = re.compile(r"[(),]")

MapName = Callable[[str], str]


class Query(Struct, frozen=True):
    """Decoded pairs of a query, in order; a parameter may occur more than once."""

    pairs: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Query":
        """Parse a query as received. Raises RefusalError."""
        pairs = []
        for pair in text.split("&") if text else ():
            if not _PAIR.fullmatch(pair):
                raise bad_request("the query has characters that must be encoded")
            if ";" in pair:
                raise bad_request("the query must separate parameters by &")
            key, _, value = pair.partition("=")
            pairs.append((_decoded_parameter(key), _decoded_parameter(value)))
        return cls(tuple(pairs))

    def encoded(self) -> str:
        """Return the query for a request."""
        return "&".join(
            f"{quote(key, safe=_SAFE_IN_QUERIES)}={quote(value, safe=_SAFE_IN_QUERIES)}"
            for key, value in self.pairs
        )

    def first(self, key: str) -> str | None:
        """Return the first value of a parameter, the one that an API server reads."""
        return next((value for name, value in self.pairs if name == key), None)

    def is_true(self, key: str) -> bool:
        """Whether a parameter counts as true for an API server: anything but false and 0."""
        value = self.first(key)
        return value is not None and value.lower() not in _FALSE

    def with_values(self, **values: str | None) -> "Query":
        """Return the query with other values of parameters; None removes one."""
        kept = tuple(pair for pair in self.pairs if pair[0] not in values)
        new = tuple((key, value) for key, value in values.items() if value is not None)
        return Query(kept + new)

    def changed(self, key: str, change: MapName) -> "Query":
        """Return the query with each value of a parameter changed."""
        pairs = ((name, change(value) if name == key else value) for name, value in self.pairs)
        return structs.replace(self, pairs=tuple(pairs))


def _decoded_parameter(text: str) -> str:
    try:
        decoded = unquote_to_bytes(text.replace("+", " ")).decode()
    except UnicodeDecodeError as error:
        raise bad_request("the query is not UTF-8") from error
    if "\x00" in decoded:
        raise bad_request("the query has a zero byte")
    return decoded


# --- selectors --------------------------------------------------------------------------


class FieldTerm(Struct, frozen=True):
    """One term of a fieldSelector; value: without escapes."""

    key: str
    operator: str
    value: str

    def matches(self, value: str) -> bool:
        """Whether a field with this value is selected."""
        return (self.value == value) is (self.operator != "!=")

    def __str__(self) -> str:
        """Return the term as in a query before encoding."""
        value = re.sub(r"([\\,=])", r"\\\1", self.value)
        return f"{self.key}{self.operator}{value}"


def field_terms(selector: str) -> list[FieldTerm]:
    """Split a fieldSelector. Raises RefusalError."""
    terms = []
    for text in _FIELDS.findall(selector):
        match = _FIELD_TERM.fullmatch(text)
        if match is None:
            raise bad_request(f"invalid field selector: {text}")
        value = re.sub(r"\\([\\,=])", r"\1", match["value"])
        terms.append(FieldTerm(match["key"], match["operator"], value))
    return terms


def map_field_selector(selector: str, mappings: Mapping[str, MapName]) -> str:
    """Return a fieldSelector with values mapped; mappings: field -> how. Raises RefusalError."""
    mapped = []
    for term in field_terms(selector):
        change = mappings.get(term.key)
        mapped.append(structs.replace(term, value=change(term.value)) if change else term)
    return ",".join(map(str, mapped))


def map_label_selector(selector: str, map_namespace: MapName) -> str:
    """Return a labelSelector with the values of `kubernetes.io/metadata.name` mapped.

    Raises RefusalError if a term with that key cannot be read.
    """
    if NAMESPACE_NAME_LABEL not in selector:
        return selector
    return ",".join(_label_term(term, map_namespace) for term in _split_labels(selector))


def _split_labels(selector: str) -> Iterator[str]:
    """Split at commas outside of parentheses."""
    depth, start = 0, 0
    for mark in _LABEL_MARK.finditer(selector):
        if mark[0] != ",":
            depth += 1 if mark[0] == "(" else -1
        elif depth == 0:
            yield selector[start : mark.start()]
            start = mark.end()
    yield selector[start:]


def _label_term(term: str, map_namespace: MapName) -> str:
    text = term.strip()
    if NAMESPACE_NAME_LABEL not in text or text.lstrip("!").strip() == NAMESPACE_NAME_LABEL:
        return term
    match: Any = _LABEL_EQUALITY.fullmatch(text)
    if match is not None:
        value = match["value"]
        if match["key"] == NAMESPACE_NAME_LABEL and value:
            value = map_namespace(value)
        return f"{match['key']}{match['operator']}{value}"
    match = _LABEL_SET.fullmatch(text)
    if match is None:
        raise bad_request(f"invalid label selector: {text}")
    values = [value.strip() for value in match["values"].split(",")]
    if match["key"] == NAMESPACE_NAME_LABEL:
        values = [map_namespace(value) if value else value for value in values]
    return f"{match['key']} {match['operator']} ({','.join(values)})"


_ANY = frozenset({"*/*", "application/*", ""})
METADATA = ("PartialObjectMetadata", "PartialObjectMetadataList")
_KEPT = ("as", "v", "g", "profile")
"""Parameters of a media type that go to the host."""
_OTHERS_THAT_ARE_JSON = frozenset(
    {"application/yaml", "text/yaml", "application/x-yaml", "text/plain"}
)
"""Types that an answer in JSON serves as well: JSON is YAML, and legible."""


class _MediaType(NamedTuple):
    name: str
    parameters: dict[str, str]

    def __str__(self) -> str:
        """Return it as in a header."""
        return ";".join((self.name, *(f"{key}={value}" for key, value in self.parameters.items())))


def parse_media_types(header: str) -> Iterator[_MediaType]:
    """Yield the media types of Accept or Content-Type, without weights."""
    for part in header.split(","):
        name, *rest = (piece.strip() for piece in part.split(";"))
        parameters: dict[str, str] = {}
        for piece in rest:
            key, _, value = piece.partition("=")
            parameters.setdefault(key.strip().lower(), value.strip())
        yield _MediaType(name.lower(), parameters)


def upstream_accept(accept: str) -> str | None:
    """Return the Accept for the host, JSON only; None: the client takes nothing of that (406)."""
    types: list[str] = []
    for name, parameters in parse_media_types(accept):
        if name in _ANY or name in _OTHERS_THAT_ARE_JSON:
            types.append(JSON)
        elif name == JSON:
            kept = {key: value for key, value in parameters.items() if key in _KEPT and value}
            types.append(str(_MediaType(JSON, kept)))
    return ",".join(dict.fromkeys(types)) or None


def preferred_view(accept: str) -> str:
    """Return what an upstream Accept prefers: Table, PartialObjectMetadata, its list, or ""."""
    return next(parse_media_types(accept)).parameters.get("as", "")


def without_views(accept: str) -> str:
    """Return an upstream Accept that asks for whole objects, though still for a Table."""
    types = parse_media_types(accept)
    return (
        ",".join(str(each) for each in types if each.parameters.get("as") not in METADATA) or JSON
    )


def media_type_of(content_type: str) -> str:
    """Return the name of the media type of a body, "" if it has none."""
    return next(parse_media_types(content_type)).name
