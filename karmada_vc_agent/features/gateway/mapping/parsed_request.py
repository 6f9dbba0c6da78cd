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
"""Entries of a host page at most: most may be of others, and a page is decoded at once."""
_SMALLER = {500: 50, 50: 5, 5: 1}
"""Where entries are so large that a page is."""
_GROWTH = 4
"""How much larger the next page is where one did not yield enough."""


class JoinedPages:
    """The pages of one request: each is added, and what it yields is taken().

    query: of the request, without `limit` and where to go on. limit: None = all there is, which is
    sent page by page. token: of the host, where to begin. A page that yields too much is read
    again up to the last entry that is missing: a token of the host fits any size, and the first
    page, which has none, is no larger than the limit.
    """

    def __init__(self, response: OfResource, query: Query, limit: int | None, token: str) -> None:
        self._response = response
        self._query = query
        self._limit = limit
        self._token = token
        self._answer: Object = {}
        self._entries: list[Object] = []
        self._given = 0
        self._sealed = ""
        self._page_max = PAGE_ENTRIES
        self._page = min(limit or PAGE_ENTRIES, PAGE_ENTRIES)

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
        """Return the query of the same page with fewer entries; None: it has one."""
        size = next((smaller for smaller in _SMALLER.values() if smaller < self._page), None)
        if size is None:
            return None
        self._page = self._page_max = size
        return self.query()

    def query(self, token: str = "") -> str:
        """Return the query of the page at a token of the host, by default of the next one."""
        values: dict[str, str | None] = {"limit": str(self._page)}
        if token := token or self._token:
            values |= {"resourceVersion": None, "resourceVersionMatch": None, "continue": token}
        return self._query.with_values(**values).encoded()

    def ahead(self, decoded: Object) -> str | None:
        """Return the query of the page behind one, before it is taken, where all are requested."""
        token = text_at(decoded, "metadata", "continue")
        return self.query(token) if self.is_whole and token else None

    def add(self, decoded: Object, view: View) -> str | Unknown | None:
        """Take one page; return the query of the next one, None: it is complete."""
        unknown = unknown_namespaces(entries_of(decoded), self._response.members, view)
        if unknown is not None:
            return unknown
        token = text_at(decoded, "metadata", "continue")
        field = "rows" if is_table(decoded) else "items"
        there = decoded.get(field) or []
        self._response.filter(decoded, ObjectReader(view, self._response.info))
        entries = decoded.get(field) or []
        missing = None if self._limit is None else self._limit - self._given - len(self._entries)
        # A host that sends more than was requested would send the same again.
        if missing is not None and len(entries) > missing and len(there) <= self._page:
            last = entries[missing - 1]
            self._page = 1 + next(at for at, entry in enumerate(there) if entry is last)
            return self.query()
        self._answer = self._answer or {**decoded, field: []}
        self._entries += entries
        self._token = token
        self._sealed = self._response.seal(token, view) if token else ""
        if not token or missing == len(entries):
            return None
        self._page = min(self._page * _GROWTH, self._page_max)
        return self.query()

    def head(self) -> Object:
        """Return the list or Table without its entries."""
        metadata = self._answer.get("metadata")
        if isinstance(metadata, dict):
            metadata.pop("continue", None)
            metadata.pop("remainingItemCount", None)
            if self._sealed and not self.is_whole:
                metadata["continue"] = self._sealed
        return {key: value for key, value in self._answer.items() if key != self.field}


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


def host_token(parsed: ParsedRequest) -> str:
    """Return the host's `continue` token of a list, or "". Raises RefusalError: 400."""
    token = parsed.query.first("continue")
    return parsed.view.sealer().open(token, parsed.token_scope) if token else ""


def limit_of(query: Query) -> int | None:
    """Return how many entries are requested, None = all. Raises RefusalError: 400."""
    given = query.first("limit") or "0"
    if not _NUMBER.fullmatch(given):
        raise refusals.bad_request("limit is not a number")
    limit = int(given)
    return limit if limit > 0 else None


def with_host_token(parsed: ParsedRequest) -> ParsedRequest:
    """Return the request with the `continue` token of the host. Raises RefusalError: 400."""
    query = parsed.query.with_values(**{"continue": host_token(parsed) or None})
    return replace(parsed, query=query)


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
    limit, token = limit_of(parsed.query), host_token(parsed)
    query = _with_metadata(parsed.query).with_values(**{"limit": None, "continue": None})
    if query.first("resourceVersion") == "0" and not (limit or token):
        # Any version will do, so the newest will; an API server gives version 0 as a whole.
        query = query.with_values(resourceVersion=None, resourceVersionMatch=None)
    pages = JoinedPages(response, query, limit, token)
    return msgspec.structs.replace(planned, pages=pages, query=pages.query())


def _with_metadata(query: Query) -> Query:
    """Return a query for rows with what says whose they are; it is removed from the answer."""
    is_bare = query.first(_INCLUDE) == "None"
    return query.with_values(**{_INCLUDE: "Metadata"}) if is_bare else query
