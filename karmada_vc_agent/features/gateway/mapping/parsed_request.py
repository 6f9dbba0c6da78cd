"""One parsed request, what is forwarded for it, and lists joined from pages.

All pages of one chain have one resource version, so what is joined is what one list of the host
would have shown of this virtual cluster. A page that yields more than the client requested is read
again from its beginning: its place is sealed with the number of entries that were given already.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from karmada_vc_agent.features.gateway.identity import Caller
from karmada_vc_agent.features.gateway.mapping import object_membership, refusals, request_syntax
from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    Attributes,
    KindInfo,
    PagePosition,
    Refused,
    ResponseKind,
    TokenError,
    TokenScope,
    Unknown,
    View,
    VirtualRequest,
)
from karmada_vc_agent.features.gateway.mapping.object_membership import (
    ObjectFilter,
    ObjectReader,
    unknown_namespaces,
)
from karmada_vc_agent.features.gateway.mapping.refusals import PlanError
from karmada_vc_agent.features.gateway.mapping.request_syntax import MapName, Query, ResourcePath
from karmada_vc_agent.features.gateway.mapping.responses import (
    OfResource,
    Response,
    entries_of,
    is_table,
)
from karmada_vc_agent.model.objects import Object, text_at

PAGE_ENTRIES = 500
"""Entries of a host page: most of them may be of others, and a page is decoded at once."""
_SMALLER = {500: 50, 50: 5, 5: 1}
"""Where entries are so large that a page is."""


class JoinedPages:
    """The pages of one request.

    query: of the request, without `limit` and where to go on. limit: None = all there is. What was
    joined is handed out by taken(), page by page. place: where to begin.
    """

    def __init__(
        self,
        response: OfResource,
        membership: ObjectFilter,
        query: Query,
        limit: int | None,
        place: PagePosition,
    ) -> None:
        self._response = response
        self._membership = membership
        self._query = query
        self._limit = limit
        self._place = place
        self._answer: Object = {}
        self._entries: list[Object] = []
        self._given = 0
        self._next: PagePosition | None = None
        self._view: View | None = None
        self._page_entries = PAGE_ENTRIES

    @property
    def is_whole(self) -> bool:
        """Whether all there is was requested."""
        return self._limit is None

    @property
    def field(self) -> str:
        """Name of what the list, or the Table, is long of; from the first page on."""
        return "rows" if is_table(self._answer) else "items"

    def taken(self) -> list[Object]:
        """Return what was taken since the last call."""
        entries, self._entries = self._entries, []
        self._given += len(entries)
        return entries

    def smaller(self) -> str | None:
        """Return the query of the page at the place with fewer entries; None: it has one."""
        if self._page_entries not in _SMALLER:
            return None
        self._page_entries = _SMALLER[self._page_entries]
        return self.query()

    def query(self) -> str:
        """Return the query of the page at the place."""
        return self._query_of(self._place)

    def _query_of(self, place: PagePosition) -> str:
        values = {"limit": str(self._page_entries)}
        query = self._query
        if place.token:
            query = query.with_values(resourceVersion=None, resourceVersionMatch=None)
            values["continue"] = place.token
        elif place.resource_version:
            values["resourceVersion"] = place.resource_version
            values["resourceVersionMatch"] = "Exact"
        return query.with_values(**values).encoded()

    def ahead(self, decoded: Object) -> str | None:
        """Return the query of the page behind one, before it is taken, where all are requested."""
        token = text_at(decoded, "metadata", "continue")
        return self._query_of(PagePosition(token)) if self.is_whole and token else None

    def add(self, decoded: Object, view: View) -> str | Unknown | None:
        """Take one page; return the query of the next one, None: it is complete."""
        unknown = unknown_namespaces(entries_of(decoded), self._membership, view)
        if unknown is not None:
            return unknown
        self._view = view
        field = "rows" if is_table(decoded) else "items"
        raw = decoded.get(field)
        entries = raw if isinstance(raw, list) else []
        reader = ObjectReader(view, self._response.info)
        if not self._answer:
            head = {**decoded, field: []}
            self._response.filter(head, reader)  # it may rename the list
            self._answer = head
        version = text_at(decoded, "metadata", "resourceVersion")
        token = text_at(decoded, "metadata", "continue")
        taken = self._take(decoded, field, entries, reader, version)
        if taken < len(entries):
            start = PagePosition(self._place.token, version, taken)
            self._next = PagePosition(start.token, "" if start.token else version, taken)
            return None
        # A page that was larger when its entries were counted continues in the next one.
        skip = max(0, self._place.skip - len(entries))
        self._next = PagePosition(token, "", skip) if token else None
        if self._next is None or self._is_full():
            return None
        self._place = self._next
        return self.query()

    def head(self) -> Object:
        """Return the list or Table without its entries, of all there is."""
        metadata = self._answer.get("metadata")
        if isinstance(metadata, dict):
            metadata.pop("continue", None)
            metadata.pop("remainingItemCount", None)
        return {key: value for key, value in self._answer.items() if key != self.field}

    def answer(self) -> Object:
        """Return the joined list or Table, mapped, with the entries that were not taken()."""
        metadata = self._answer.get("metadata")
        if isinstance(metadata, dict):
            metadata.pop("continue", None)
            metadata.pop("remainingItemCount", None)
            if self._next is not None and self._view is not None:
                metadata["continue"] = self._response.seal(self._next, self._view)
        return {**self._answer, self.field: self._entries}

    def _is_full(self) -> bool:
        return self._limit is not None and self._left() <= 0

    def _left(self) -> int:
        """Return how many entries are missing still."""
        return (self._limit or 0) - self._given - len(self._entries)

    def _take(
        self, decoded: Object, field: str, entries: list[Object], reader: ObjectReader, version: str
    ) -> int:
        """Take entries until the answer is full; return how many of the page were looked at."""
        there = len(entries) - self._place.skip
        step = max(1, len(entries)) if self._limit is None or there <= self._left() else 1
        for index in range(self._place.skip, len(entries), step):
            # Without a version the page could not be read again.
            if self._is_full() and version:
                return index
            page = {**decoded, field: entries[index : index + step]}
            self._response.filter(page, reader)
            self._entries += page[field]
        return len(entries)


_OF_COLLECTION = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_OF_OBJECT = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_INCLUDE = "includeObject"
_NUMBER = re.compile(r"-?[0-9]{1,18}")


class PlanAnswer(msgspec.Struct, frozen=True):
    """A success answered without the host."""

    code: int
    content_type: str
    body: bytes


class Forward(msgspec.Struct, frozen=True):
    """One request to the host.

    path, query: encoded. accept: "" = none. as_gateway: with the gateway's own identity, instead of
    impersonating the client's (G-30, G-40). authorize: ask first; 403 if it is denied. is_long: no
    time limit. pages: with a LIST whose host pages are joined: send it, give the page to
    pages.add(), send it again with the query that this returns, up to PAGES_MAX times or
    PAGES_MAX_S; pages.answer() is the body. A page that fails: pages.answer() if there was
    one before, else the mapped Status. If pages.is_whole, all pages are sent, one by one.
    otherwise: what to send if the host answers 404. sets_up: a host namespace that the agent sets
    up once this made it; the answer waits for that, but not long. warnings: texts for the client.
    """

    method: str
    path: str
    response: Response
    query: str = ""
    accept: str = ""
    content_type: str = ""
    body: bytes = b""
    as_gateway: bool = False
    authorize: Attributes | None = None
    is_long: bool = False
    pages: JoinedPages | None = None
    otherwise: "Forward | None" = None
    sets_up: str = ""
    warnings: tuple[str, ...] = ()


PAGES_MAX = 10
PAGES_MAX_S = 5.0

Plan = Forward | PlanAnswer | Refused


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request for a resource. verb: as in RBAC. accept: for the host, JSON."""

    request: VirtualRequest
    identity: Caller
    view: View
    path: ResourcePath
    info: KindInfo
    query: Query
    verb: str
    accept: str

    @property
    def is_write(self) -> bool:
        """Whether the request changes something."""
        return self.verb in WRITES

    @property
    def is_list(self) -> bool:
        """Whether it is a list or a watch."""
        return self.verb in ("list", "watch")

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing is to be stored."""
        return bool(self.query.first("dryRun"))

    @property
    def attributes(self) -> Attributes:
        """Return what a client must be allowed to where the gateway asks itself (G-24)."""
        path = self.path
        return Attributes(
            self.verb, path.group, path.version, path.resource, path.subresource, path.name
        )

    def with_query(self, query: Query) -> "ParsedRequest":
        """Return the request with another query."""
        return replace(self, query=query)

    def refuse(self, why: str) -> PlanError:
        """Return the 403 for this request."""
        return refusals.forbidden_resource(self.info, self.path.name, why)


def verb_of(request: VirtualRequest, path: ResourcePath, query: Query) -> str:
    """Return the verb as in RBAC. Raises PlanError: 405."""
    verb = (_OF_OBJECT if path.name else _OF_COLLECTION).get(request.method)
    if verb is None or (verb == "create" and path.name and not path.subresource):
        raise refusals.method_not_allowed()
    return "watch" if verb == "list" and query.is_true("watch") else verb


def accept_of(request: VirtualRequest) -> str:
    """Return the Accept for the host. Raises PlanError: 406."""
    accept = request_syntax.upstream_accept(request.accept)
    if accept is None:
        raise refusals.not_acceptable()
    return accept


def map_selectors(query: Query, view: View, fields: dict[str, MapName] | None = None) -> Query:
    """Map names in selectors; fields: further fields of this resource. Raises PlanError: 400."""
    names = object_membership.host_namespaces(view)

    def host(namespace: str) -> str:
        return names(namespace) if namespace else namespace

    mappings = {**dict.fromkeys(request_syntax.FIELDS_OF_NAMESPACES, host), **(fields or {})}
    try:
        query = query.changed(
            "fieldSelector", lambda text: request_syntax.map_field_selector(text, mappings)
        )
        return query.changed(
            "labelSelector", lambda text: request_syntax.map_label_selector(text, host)
        )
    except request_syntax.QueryError as error:
        raise refusals.bad_request(str(error)) from error


def with_label(query: Query, selector: str) -> Query:
    """Put a selector in front of the labelSelector, which only narrows it."""
    given = query.first("labelSelector") or ""
    return query.with_values(labelSelector=f"{selector},{given}" if given else selector)


def response_to(
    parsed: ParsedRequest,
    membership: ObjectFilter,
    of_kind: type[OfResource] = OfResource,
    *,
    namespace: str = "",
    hides_count: bool = False,
    renamed_lists: Mapping[str, Object] | None = None,
) -> OfResource:
    """Return how the answer is mapped; of_kind: its class."""
    kind = ResponseKind.OBJECT
    if parsed.is_list:
        kind = ResponseKind.WATCH if parsed.verb == "watch" else ResponseKind.LIST
    return of_kind(
        parsed.info,
        membership,
        kind,
        name=parsed.path.name,
        scope=scope_of_tokens(parsed, namespace),
        hides_count=hides_count,
        without_objects=parsed.query.first(_INCLUDE) == "None",
        renamed_lists=renamed_lists,
    )


def scope_of_tokens(parsed: ParsedRequest, namespace: str = "") -> TokenScope:
    """Return what the `continue` tokens of a list are bound to (G-40a)."""
    return TokenScope(parsed.view.name, parsed.path.group, parsed.path.resource, namespace)


def place_of(parsed: ParsedRequest, namespace: str = "") -> PagePosition:
    """Return where a list continues. Raises PlanError: 400."""
    token = parsed.query.first("continue")
    if not token:
        return PagePosition("")
    try:
        return parsed.view.sealer().open(token, scope_of_tokens(parsed, namespace))
    except TokenError as error:
        text = f"continue key is not valid: {error}"
        raise refusals.bad_request(text) from error


def limit_of(query: Query) -> int | None:
    """Return how many entries are requested, None = all. Raises PlanError: 400."""
    given = query.first("limit") or "0"
    if not _NUMBER.fullmatch(given):
        raise refusals.bad_request("limit is not a number")
    limit = int(given)
    return limit if limit > 0 else None


def with_host_token(parsed: ParsedRequest, namespace: str = "") -> ParsedRequest:
    """Return the request with the `continue` token of the host. Raises PlanError: 400."""
    place = place_of(parsed, namespace)
    return parsed.with_query(parsed.query.with_values(**{"continue": place.token or None}))


def forward(
    parsed: ParsedRequest,
    path: ResourcePath,
    response: Response,
    *,
    body: bytes = b"",
    content_type: str = "",
    as_gateway: bool = False,
    authorize: Attributes | None = None,
) -> Forward:
    """Return the request to the host."""
    query = parsed.query
    if query.first(_INCLUDE) == "None":
        query = query.with_values(**{_INCLUDE: "Metadata"})
    return Forward(
        parsed.request.method,
        path.encoded(),
        response,
        query=query.encoded(),
        accept=parsed.accept,
        content_type=content_type,
        body=body,
        as_gateway=as_gateway,
        authorize=authorize,
        is_long=parsed.verb == "watch",
    )


def filtered(
    parsed: ParsedRequest, path: ResourcePath, response: OfResource, membership: ObjectFilter
) -> Forward:
    """Return a request for what is filtered here: authorized first, joined from pages (G-24, G-40).

    Also a list of all: what the gateway holds of it at once is one page.
    """
    query = parsed.query
    token = query.first("continue")
    planned = forward(parsed, path, response, as_gateway=True, authorize=parsed.attributes)
    if parsed.verb != "list":
        return planned
    limit = limit_of(query)
    place = place_of(parsed)
    query = query.with_values(**{"limit": None, "continue": None})
    if query.first("resourceVersion") == "0" and not (limit or token):
        # Any version will do, so the newest will; an API server gives version 0 as a whole.
        query = query.with_values(resourceVersion=None, resourceVersionMatch=None)
    if query.first(_INCLUDE) == "None":
        query = query.with_values(**{_INCLUDE: "Metadata"})
    pages = JoinedPages(response, membership, query, limit, place)
    return msgspec.structs.replace(planned, pages=pages, query=pages.query())
