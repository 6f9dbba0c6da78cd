"""A request, parsed strictly, and what the rules read of one virtual cluster."""

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from msgspec import Struct, structs

from karmada_vc_agent.features.gateway.mapping import refusals
from karmada_vc_agent.features.gateway.mapping.refusals import (
    JSON,
    Attributes,
    KindInfo,
    RefusalError,
    bad_request,
)
from karmada_vc_agent.model import user_text
from karmada_vc_agent.model.objects import GroupKind, Object
from karmada_vc_agent.model.vocabulary import NAMESPACE_NAME_LABEL
from karmada_vc_agent.translation import kind_policy
from karmada_vc_agent.translation.context import TranslationContext
from karmada_vc_agent.translation.kind_policy import Policy, Reference, kind_named, policy_for

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


_FALSE = frozenset({"false", "0"})
_SAFE_IN_QUERIES = ":@~!$'()*,/"

FIELDS_OF_NAMESPACES = ("metadata.namespace", "involvedObject.namespace", "regarding.namespace")
"""Fields of `fieldSelector` with a namespace in any resource."""

_FIELD_TERM = re.compile(r"(?P<key>[^=!]*)(?P<operator>!=|==|=)(?P<value>.*)", re.DOTALL)
_LABELS = re.compile(
    r"(?<![^\s,])(K\s*(?:!=|==?)\s*)([^\s,()]+)|(?<![^\s,])(K\s+(?:not)?in\s*\()([^()]*)".replace(
        "K", re.escape(NAMESPACE_NAME_LABEL)
    )
)
"""Terms about the name of a namespace: by equality, or by a set."""
_FIELDS = re.compile(r"(?:\\.|[^,])+", re.DOTALL)
"""Terms between commas that are not escaped; empty ones are dropped, as by an API server."""

MapName = Callable[[str], str]


class Query(Struct, frozen=True):
    """Decoded pairs of a query, in order; a parameter may occur more than once."""

    pairs: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Query":
        """Parse a query as received: what is sent is made of this. Raises RefusalError."""
        try:
            return cls(tuple(parse_qsl(text, keep_blank_values=True, errors="strict")))
        except ValueError as error:
            raise bad_request("the query is not UTF-8") from error

    def encoded(self) -> str:
        return urlencode(self.pairs, safe=_SAFE_IN_QUERIES, quote_via=quote)

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


class FieldTerm(Struct, frozen=True):
    """One term of a fieldSelector; value: without escapes."""

    key: str
    operator: str
    value: str

    def matches(self, value: str) -> bool:
        """Whether a field with this value is selected."""
        return (self.value == value) is (self.operator != "!=")

    def __str__(self) -> str:
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
    """Return a labelSelector with the values of `kubernetes.io/metadata.name` mapped."""

    def mapped(term: re.Match[str]) -> str:
        names = map(str.strip, (term[2] or term[4]).split(","))
        return (term[1] or term[3]) + ",".join(name and map_namespace(name) for name in names)

    return _LABELS.sub(mapped, selector)


_ANY = frozenset({"*/*", "application/*", ""})
_KEPT = ("as", "v", "g", "profile")
"""Parameters of a media type that go to the host."""


class _MediaType(NamedTuple):
    name: str
    parameters: dict[str, str]

    def __str__(self) -> str:
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
        if name in _ANY:
            types.append(JSON)
        elif name == JSON:
            kept = {key: value for key, value in parameters.items() if key in _KEPT and value}
            types.append(str(_MediaType(JSON, kept)))
    return ",".join(dict.fromkeys(types)) or None


def media_type_of(content_type: str) -> str:
    """Return the name of the media type of a body, "" if it has none."""
    return next(parse_media_types(content_type)).name


class Sealer:
    """Seals and opens tokens with one key: random bytes, two keys of AES, for AES-SIV.

    scope: what a token is good for, as ParsedRequest.token_scope.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = AESSIV(key)

    def seal(self, token: str, scope: tuple[str, ...]) -> str:
        """Return the token for clients: URL-safe text that shows nothing."""
        sealed = self._cipher.encrypt(token.encode(), _bound_to(scope))
        return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def open(self, token: str, scope: tuple[str, ...]) -> str:
        """Return the token of the host. Raises RefusalError: 410, so clients list again."""
        try:
            sealed = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True)
            return self._cipher.decrypt(sealed, _bound_to(scope)).decode()
        except (InvalidTag, ValueError) as error:
            text = "the provided continue parameter is not valid for this list any more; list again"
            raise RefusalError(410, text) from error


def _bound_to(scope: tuple[str, ...]) -> list[bytes]:
    return [part.encode() for part in scope]


class VirtualRequest(Struct, frozen=True):
    """What one client parsed.

    path: after `/virtualclusters/<vc>`, begins with `/`; it and query as received, still
    percent-encoded. body: complete, b"" on upgrades. accept: "" if there was none.
    """

    method: str
    path: str
    query: str = ""
    accept: str = ""
    content_type: str = ""
    body: bytes = b""
    is_upgrade: bool = False

    @property
    def size(self) -> int:
        """How much there is to map, in bytes."""
        texts = (self.path, self.query, self.accept, self.content_type)
        return sum(map(len, texts)) + len(self.body)


class UnknownNamespacesError(Exception):
    """Host namespaces that the view has to read before an answer can be mapped (G-41).

    Nothing was changed: read them, and call again with the same value. A namespace that does not
    exist belongs to no one then: virtual_namespace() returns None.
    """

    def __init__(self, host_namespaces: Iterable[str]) -> None:
        super().__init__()
        self.host_namespaces = frozenset(host_namespaces)


class ResponseKind(StrEnum):
    """How the server has to treat the body of a successful answer."""

    OPAQUE = "opaque"
    OBJECT = "object"
    LIST = "list"
    WATCH = "watch"
    DISCOVERY = "discovery"


class View(Protocol):
    """What mapping reads of one virtual cluster; the server implements it over caches.

    anchor: the host namespace that mapping shows as `kube-system`; it is not among the claims.
    virtual_namespace: the virtual name of a claimed host namespace; None: of others, or deleted;
    raises UnknownNamespacesError. is_foreign: whether it exists and is not of this virtual cluster.
    is_others: whether it is claimed by, or the anchor of, another one. namespace_object: as cached,
    never changed by mapping. resource, resources: what the host serves under a path, or of a group
    in all versions. context: the facts for translating and restoring; `work` is "". suffix: the
    end of a generated name, by chance. sealer: with a key that replicas share (G-40a).
    """

    @property
    def name(self) -> str: ...
    @property
    def anchor(self) -> str: ...
    def virtual_namespace(self, host: str) -> str | None: ...
    def is_foreign(self, host: str) -> bool: ...
    def is_others(self, host: str) -> bool: ...
    def namespace_object(self, host: str) -> Object | None: ...
    def resource(self, group: str, version: str, plural: str) -> KindInfo | None: ...
    def resources(self, group: str) -> Iterable[KindInfo]: ...
    def context(self) -> TranslationContext: ...
    def suffix(self) -> str: ...
    def sealer(self) -> Sealer: ...


WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request for a resource. verb: as in RBAC. accept: for the host, JSON.

    host_namespace: of the namespace in the path, once it is determined.
    """

    request: VirtualRequest
    view: View
    path: RequestPath
    info: KindInfo
    query: Query
    verb: str
    accept: str
    host_namespace: str = ""

    @property
    def name(self) -> str:
        """Return the name in the path; "" if the body has it."""
        return self.path.name

    @property
    def namespace(self) -> str:
        """Return the virtual namespace; "" for what is cluster-scoped."""
        return self.path.namespace if self.info.namespaced else ""

    @property
    def is_write(self) -> bool:
        """Whether the request changes something."""
        return self.verb in WRITES

    @property
    def is_list(self) -> bool:
        """Whether it is a list or a watch."""
        return self.verb in ("list", "watch")

    @property
    def token_scope(self) -> tuple[str, ...]:
        """Return what the `continue` tokens of a list are bound to (G-40a)."""
        return self.view.name, self.path.group, self.path.resource, self.namespace

    @property
    def attributes(self) -> Attributes:
        """Return what a client must be allowed to where the gateway asks itself (G-24)."""
        path = self.path
        return Attributes(
            self.verb, path.group, path.version, path.resource, path.subresource, path.name
        )

    def reference_rows(self) -> tuple[Reference, ...]:
        """Return the rows for the kind of the table of references to namespaces."""
        references = self.view.context().settings.namespace_references
        return kind_policy.references_of(self.info.gvk.group_kind, references)

    def refuse(self, why: str) -> RefusalError:
        """Return the 403 for this request."""
        return refusals.forbidden_resource(self.info, self.name, why)

    def invalid(self, field: str, detail: str) -> RefusalError:
        """Return the 422 about a field of its body."""
        return refusals.invalid(self.info, self.name, field, detail)


class KindScope(Enum):
    """How objects of a kind belong to a virtual cluster."""

    NAMESPACED = "by the namespace that they are in"
    NAMESPACES = "by the claim"
    NODES = "by the node selector; read only"
    RENAMED = "by the label of the virtual cluster, under other names; read only"
    VOLUMES = "by the label, or by the namespace of their claim; read only"
    BINDINGS = "by their RoleBindings in the anchor; read only"
    SHARED = "shared by all; read only"
    REVIEW = "questions about oneself, which are mapped"
    DENIED = "not at all"


KINDS: Mapping[str, Any] = user_text.load_yaml(
    Path(__file__).parent.with_name("kinds.yaml").read_bytes()
)
"""Tables by kind; the file says what they are."""
_SCOPE_OF_KIND = {
    kind_named(name): KindScope[scope] for scope, names in KINDS["scopes"].items() for name in names
}


def by_kind(table: str) -> dict[GroupKind, list[str]]:
    return {kind_named(name): values for name, values in KINDS[table].items()}


_OF_POLICY: Mapping[Policy, KindScope] = {
    Policy.APPLY: KindScope.NAMESPACED,
    Policy.RENAME: KindScope.RENAMED,
    Policy.SHARE: KindScope.SHARED,
}

_READING = frozenset({"get", "list", "watch"})
_VERBS_OF_SCOPE: Mapping[KindScope, frozenset[str]] = {
    KindScope.NAMESPACES: _READING | {"create", "delete", "patch", "update"},
    KindScope.REVIEW: frozenset({"create"}),
    KindScope.DENIED: frozenset(),
}
"""Verbs that are allowed, else reading; of NAMESPACED, host RBAC decides."""

DENIED_SUBRESOURCES = frozenset({("", "serviceaccounts", "token")})
"""(group, plural, subresource) in namespaces: what they return would bypass the gateway (G-35)."""


def scope_of(info: KindInfo, view: View) -> KindScope:
    """Return how a resource is seen."""
    special = _SCOPE_OF_KIND.get(info.gvk.group_kind)
    if special is not None:
        return special
    configured = view.context().settings.cluster_scoped_kinds
    policy = policy_for(info.gvk, namespaced=info.namespaced, configured=configured)
    return _OF_POLICY.get(policy, KindScope.DENIED)


def scope_allows(scope: KindScope, verb: str) -> bool:
    return scope is KindScope.NAMESPACED or verb in _VERBS_OF_SCOPE.get(scope, _READING)
