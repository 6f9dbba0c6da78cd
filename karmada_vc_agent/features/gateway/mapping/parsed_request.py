"""One parsed request, what is forwarded for it, and lists joined from pages.

All pages of one chain have one resource version, so what is joined is what one list of the host
would have shown of this virtual cluster. A page that yields more than the client requested is read
again from its beginning: its place is sealed with the number of entries that were given already.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from karmada_vc_agent.features.gateway.mapping import object_membership, refusals, request_syntax
from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    PagePosition,
    ParsedRequest,
    ResponseKind,
    Unknown,
    View,
)
from karmada_vc_agent.features.gateway.mapping.object_membership import (
    ObjectFilter,
    ObjectReader,
    unknown_namespaces,
)
from karmada_vc_agent.features.gateway.mapping.refusals import Attributes, RefusalError
from karmada_vc_agent.features.gateway.mapping.request_syntax import MapName, Query, RequestPath
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
    """The pages of one request: each is added, and what it yields is taken().

    query: of the request, without `limit` and where to go on. limit: None = all there is, which is
    sent page by page. place: where to begin.
    """

    def __init__(
        self, response: OfResource, query: Query, limit: int | None, place: PagePosition
    ) -> None:
        self._response = response
        self._query = query
        self._limit = limit
        self._place = place
        self._answer: Object = {}
        self._entries: list[Object] = []
        self._given = 0
        self._next: PagePosition | None = None
        self._token = ""
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
        return self.query(self._place)

    def query(self, place: PagePosition) -> str:
        """Return the query of the page at a place."""
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
        return self.query(PagePosition(token)) if self.is_whole and token else None

    def add(self, decoded: Object, view: View) -> str | Unknown | None:
        """Take one page; return the query of the next one, None: it is complete."""
        unknown = unknown_namespaces(entries_of(decoded), self._response.members, view)
        if unknown is not None:
            return unknown
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
        is_cut = taken < len(entries)
        if is_cut:
            start = self._place.token
            self._next = PagePosition(start, "" if start else version, taken)
        else:
            # A page that was larger when its entries were counted continues in the next one.
            skip = max(0, self._place.skip - len(entries))
            self._next = PagePosition(token, "", skip) if token else None
        self._token = self._response.seal(self._next, view) if self._next is not None else ""
        if is_cut or self._next is None or self._is_full():
            return None
        self._place = self._next
        return self.query(self._place)

    def head(self) -> Object:
        """Return the list or Table without its entries."""
        metadata = self._answer.get("metadata")
        if isinstance(metadata, dict):
            metadata.pop("continue", None)
            metadata.pop("remainingItemCount", None)
            if self._token and not self.is_whole:
                metadata["continue"] = self._token
        return {key: value for key, value in self._answer.items() if key != self.field}

    def _is_full(self) -> bool:
        given = self._given + len(self._entries)
        return self._limit is not None and given >= self._limit

    def _take(
        self, decoded: Object, field: str, entries: list[Object], reader: ObjectReader, version: str
    ) -> int:
        """Take entries until the answer is full; return how many of the page were looked at."""
        step = max(1, len(entries)) if self.is_whole else 1
        for index in range(self._place.skip, len(entries), step):
            # Without a version the page could not be read again.
            if self._is_full() and version:
                return index
            page = {**decoded, field: entries[index : index + step]}
            self._response.filter(page, reader)
            self._entries += page[field]
        return len(entries)


_INCLUDE = "includeObject"
_NUMBER = re.compile(r"-?[0-9]{1,18}")


class PlanAnswer(msgspec.Struct, frozen=True):
    """A success answered without the host."""

    code: int
    content_type: str
    body: bytes


class Forward(msgspec.Struct, frozen=True):
    """One request to the host.

    path, query: encoded. accept: "" = none. authorize: checked before; 403 if it is denied, else
    the gateway sends it as itself instead of impersonating the client (G-30, G-40).
    is_long: no time limit. pages: with a LIST whose host pages are joined: each page is given to
    pages.add(), which returns the next query, up to PAGES_MAX times or PAGES_MAX_S unless
    pages.is_whole. A page that fails after others ends the list where it is. otherwise: what to
    send if the host answers 404. sets_up: a host namespace that the agent sets up once this made
    it; the answer waits for that, but not long. warnings: texts for the client.
    """

    method: str
    path: str
    response: Response
    query: str = ""
    accept: str = ""
    content_type: str = ""
    body: bytes = b""
    authorize: Attributes | None = None
    is_long: bool = False
    pages: JoinedPages | None = None
    otherwise: "Forward | None" = None
    sets_up: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def as_gateway(self) -> bool:
        """Whether it is sent as the gateway's own, which checked the client's right."""
        return self.authorize is not None


PAGES_MAX = 10
PAGES_MAX_S = 5.0

Plan = Forward | PlanAnswer | RefusalError


def map_selectors(query: Query, view: View, fields: Mapping[str, MapName] | None = None) -> Query:
    """Map names in selectors; fields: further fields of this resource. Raises RefusalError: 400."""
    names = object_membership.host_namespaces(view)

    def host(namespace: str) -> str:
        return names(namespace) if namespace else namespace

    mappings = {**dict.fromkeys(request_syntax.FIELDS_OF_NAMESPACES, host), **(fields or {})}
    query = query.changed(
        "fieldSelector", lambda text: request_syntax.map_field_selector(text, mappings)
    )
    return query.changed(
        "labelSelector", lambda text: request_syntax.map_label_selector(text, host)
    )


def with_label(query: Query, selector: str) -> Query:
    """Put a selector in front of the labelSelector, which only narrows it."""
    given = query.first("labelSelector") or ""
    return query.with_values(labelSelector=f"{selector},{given}" if given else selector)


def response_to(parsed: ParsedRequest, members: ObjectFilter, **options: Any) -> OfResource:
    """Return how the answer is mapped. options: further fields of OfResource."""
    kinds = {"list": ResponseKind.LIST, "watch": ResponseKind.WATCH}
    return OfResource(
        info=parsed.info,
        members=members,
        kind=kinds.get(parsed.verb, ResponseKind.OBJECT),
        name=parsed.name,
        scope=parsed.token_scope,
        without_objects=parsed.query.first(_INCLUDE) == "None",
        **options,
    )


def place_of(parsed: ParsedRequest) -> PagePosition:
    """Return where a list continues. Raises RefusalError: 400."""
    token = parsed.query.first("continue")
    return parsed.view.sealer().open(token, parsed.token_scope) if token else PagePosition("")


def limit_of(query: Query) -> int | None:
    """Return how many entries are requested, None = all. Raises RefusalError: 400."""
    given = query.first("limit") or "0"
    if not _NUMBER.fullmatch(given):
        raise refusals.bad_request("limit is not a number")
    limit = int(given)
    return limit if limit > 0 else None


def with_host_token(parsed: ParsedRequest) -> ParsedRequest:
    """Return the request with the `continue` token of the host. Raises RefusalError: 400."""
    token = place_of(parsed).token
    return replace(parsed, query=parsed.query.with_values(**{"continue": token or None}))


def forward(
    parsed: ParsedRequest,
    path: RequestPath,
    response: Response,
    *,
    body: bytes = b"",
    content_type: str = "",
    authorize: Attributes | None = None,
) -> Forward:
    """Return the request to the host."""
    return Forward(
        parsed.request.method,
        path.encoded(),
        response,
        query=_with_metadata(parsed.query).encoded(),
        accept=parsed.accept,
        content_type=content_type,
        body=body,
        authorize=authorize,
        is_long=parsed.verb == "watch",
    )


def filtered(parsed: ParsedRequest, response: OfResource) -> Forward:
    """Return a request for what is filtered here: authorized first, joined from pages (G-24, G-40).

    Also a list of all: what the gateway holds of it at once is one page.
    """
    planned = forward(parsed, parsed.path, response, authorize=parsed.attributes)
    if parsed.verb != "list":
        return planned
    limit, place = limit_of(parsed.query), place_of(parsed)
    query = _with_metadata(parsed.query).with_values(**{"limit": None, "continue": None})
    if query.first("resourceVersion") == "0" and not (limit or place.token):
        # Any version will do, so the newest will; an API server gives version 0 as a whole.
        query = query.with_values(resourceVersion=None, resourceVersionMatch=None)
    pages = JoinedPages(response, query, limit, place)
    return msgspec.structs.replace(planned, pages=pages, query=pages.query(place))


def _with_metadata(query: Query) -> Query:
    """Return a query for rows with what says whose they are; it is removed from the answer."""
    is_bare = query.first(_INCLUDE) == "None"
    return query.with_values(**{_INCLUDE: "Metadata"}) if is_bare else query
