"""Requests to the host, and how answers are mapped, Tables too (G-43 to G-50)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from karmada_vc_agent.features.gateway.mapping import cluster_view, object_membership, refusals
from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    MapName,
    ParsedRequest,
    Query,
    RequestPath,
    ResponseKind,
    View,
    by_kind,
)
from karmada_vc_agent.features.gateway.mapping.decoding import PartialDecoder
from karmada_vc_agent.features.gateway.mapping.object_membership import (
    BINDINGS,
    ObjectFilter,
    ObjectReader,
    is_readable,
    reach_of,
    require_namespaces,
)
from karmada_vc_agent.features.gateway.mapping.refusals import Attributes, KindInfo, RefusalError
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object, dig, list_at, maps_at, text_at
from karmada_vc_agent.model.vocabulary import BUILT_INS

_TEXT_COLUMNS = by_kind("columns")


def _text_cell(column: str, cell: Any, reader: ObjectReader) -> Any:
    if not isinstance(cell, str) or not cell:
        return cell
    kind, _, name = cell.partition("/")
    if column == "Role" and kind == vocabulary.CLUSTER_ROLE.kind and name in BUILT_INS:
        return f"{kind}/{BUILT_INS[name]}"
    return reader.text(cell)


def is_table(obj: Object) -> bool:
    return obj.get("kind") == "Table" and str(obj.get("apiVersion")).startswith("meta.k8s.io/")


_BOOKMARK, _ERROR = "BOOKMARK", "ERROR"


class Response:
    """How to map an answer; the base is for those whose bytes pass. Made for one request.

    kind: of an answer below 300. OPAQUE: bytes pass untouched; else map() is for the body, of WATCH
    for each line. Answers from 300 on, whatever the kind: map_status() if the body is a JSON
    Status, else bytes pass. All functions change what they are given, and return it.
    """

    kind = ResponseKind.OPAQUE

    def decoder(self, _view: View) -> PartialDecoder:
        """Return what decodes lists and events; here all of them."""
        return PartialDecoder()

    def map(self, decoded: Object, _view: View) -> Object | None:
        """Map what the answer is; None: not of this virtual cluster, so not_found(), or dropped."""
        return decoded

    def map_status(self, decoded: Object, view: View) -> Object:
        """Map a Status (G-48)."""
        return ObjectReader(view).status(decoded)

    def not_found(self) -> RefusalError:
        """Return a 404."""
        return refusals.unknown_resource()


@dataclass(kw_only=True, eq=False)
class _OfResource(Response):
    """The answer to a request for one resource.

    scope: of its `continue` tokens. without_objects: the client requested rows alone.
    written: both names, host's first, of a Namespace that may not be claimed yet.
    """

    info: KindInfo
    members: ObjectFilter
    kind: ResponseKind
    name: str
    scope: tuple[str, ...]
    without_objects: bool = False
    written: tuple[str, str] | None = None
    _columns: list[Object] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)
    _are_columns_shown: bool = False

    def decoder(self, view: View) -> PartialDecoder:
        """Return what decodes what restoring objects of the kind looks at."""
        return PartialDecoder(reach_of(self.info, view))

    def map(self, decoded: Object, view: View) -> Object | None:
        """Map an object, a list or parts of one, or one event of a watch."""
        if self.kind is ResponseKind.LIST:
            return self._map_list(decoded, view)
        if self.kind is ResponseKind.WATCH:
            return self._map_event(decoded, view)
        return self._map_object(decoded, view)

    def map_status(self, decoded: Object, view: View) -> Object:
        """Map a Status, also one about a Namespace that no watch reported yet."""
        mapped = super().map_status(decoded, view)
        if self.written is not None:
            host, virtual = self.written
            details = mapped.get("details")
            if isinstance(details, dict) and details.get("name") == host:
                details["name"] = virtual
            if isinstance(mapped.get("message"), str):
                mapped["message"] = mapped["message"].replace(host, virtual)
        return mapped

    def not_found(self) -> RefusalError:
        """Return the 404 for the requested object."""
        return refusals.not_found(self.info, self.name)

    def filter(self, decoded: Object, reader: ObjectReader) -> None:
        """Keep, in place, what is of the virtual cluster, mapped."""
        if is_table(decoded):
            self._columns = decoded.get("columnDefinitions") or self._columns
            self._names = [str(dig(column, "name")) for column in self._columns]
            rows = maps_at(decoded, "rows")
            decoded["rows"] = [row for row in rows if self._takes_row(row, reader)]
            self._strip(decoded)
        elif isinstance(decoded.get("items"), list):
            decoded["items"] = [item for item in decoded["items"] if self._takes(item, reader)]
        if decoded.get("kind") == "RoleBindingList" and self.members is BINDINGS:
            decoded["kind"] = "ClusterRoleBindingList"

    def seal(self, token: str, view: View) -> str:
        """Return a `continue` token for clients (G-40a)."""
        return view.sealer().seal(token, self.scope)

    def _map_object(self, decoded: Object, view: View) -> Object | None:
        if is_status(decoded):
            return self.map_status(decoded, view)
        if is_table(decoded):
            table = self._map_list(decoded, view)
            return table if table["rows"] else None
        if decoded.get("kind") != self.info.kind and isinstance(decoded.get("items"), list):
            return self._map_list(decoded, view)
        return self._take(decoded, decoded, view)

    def _map_list(self, decoded: Object, view: View) -> Object:
        require_namespaces(entries_of(decoded), self.members, view)
        self.filter(decoded, ObjectReader(view, self.info))
        metadata = decoded.get("metadata")
        if isinstance(metadata, dict):  # lists that are read are JoinedPages
            metadata.pop("continue", None)
            metadata.pop("remainingItemCount", None)
        return decoded

    def _map_event(self, decoded: Object, view: View) -> Object | None:
        """Map `{"type", "object"}`; bookmarks pass (G-47)."""
        obj, kind = decoded.get("object"), decoded.get("type")
        if not isinstance(obj, dict):
            return None
        if kind == _ERROR:
            return {**decoded, "object": self.map_status(obj, view)}
        if is_table(obj):
            return self._map_table_event(decoded, obj, view)
        if kind == _BOOKMARK:
            return decoded
        return self._take(obj, decoded, view)

    def _map_table_event(self, decoded: Object, table: Object, view: View) -> Object | None:
        """Map one; only the first that is passed on has columns."""
        if decoded.get("type") != _BOOKMARK and not self._map_list(table, view)["rows"]:
            return None
        self._columns = table.get("columnDefinitions") or self._columns
        if not self._are_columns_shown and self._columns:
            table["columnDefinitions"] = self._columns
        self._are_columns_shown = True
        self._strip(table)
        return decoded

    def _take(self, obj: Object, whole: Object, view: View) -> Object | None:
        """Map one object, and return what it is in, or is itself; None: it is not shown."""
        if not is_readable(obj):
            return None
        require_namespaces([obj], self.members, view)
        return whole if self.members.take(obj, ObjectReader(view, self.info)) else None

    def _takes(self, obj: Any, reader: ObjectReader) -> bool:
        return is_readable(obj) and self.members.take(obj, reader)

    def _takes_row(self, row: Object, reader: ObjectReader) -> bool:
        obj = row.get("object")
        if not isinstance(obj, dict) or not self._takes(obj, reader):
            return False
        cells = list_at(row, "cells")
        texts = _TEXT_COLUMNS.get(self.info.gvk.group_kind, ())
        for index, column in enumerate(self._names[: len(cells)]):
            if column in texts:
                cells[index] = _text_cell(column, cells[index], reader)
            elif column == "Name" and index == 0:
                cells[index] = dig(obj, "metadata", "name")
        return True

    def _strip(self, table: Object) -> None:
        """Remove, in place, the objects that the client did not ask for."""
        if self.without_objects:
            for row in maps_at(table, "rows"):
                row["object"] = None


def is_status(obj: Object) -> bool:
    return obj.get("kind") == "Status" and obj.get("apiVersion") == "v1"


def entries_of(decoded: Object) -> list[Object]:
    """Return the objects of a list or of the rows of a Table."""
    if not is_table(decoded):
        return maps_at(decoded, "items")
    objects = (row.get("object") for row in maps_at(decoded, "rows"))
    return [obj for obj in objects if isinstance(obj, dict)]


PAGE_ENTRIES = 500
"""Entries of a host page at most: most may be of others, and a page is decoded at once."""
_GROWTH = 4
"""How much larger the next page is where one did not yield enough."""


class JoinedPages:
    """The pages of one request: each is added, and what it yields is taken().

    query: without `limit` and `continue`. limit: None = all there is. token: of the host, where to
    begin. A page that yields too much is read again up to the last entry that is missing.
    """

    def __init__(self, response: _OfResource, query: Query, limit: int | None, token: str) -> None:
        self._response = response
        self._query = query
        self._limit = limit
        self._token = token
        self._answer: Object = {}
        self._entries: list[Object] = []
        self.given = 0
        self._sealed = ""
        self.page, self._page_max = min(limit or PAGE_ENTRIES, PAGE_ENTRIES), PAGE_ENTRIES

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
        self.given += len(entries)
        return entries

    def smaller(self) -> str | None:
        """Return the query of the same page with fewer entries; None: it has one."""
        if self.page == 1:
            return None
        self.page = self._page_max = max(1, self.page // 10)
        return self.query()

    def query(self) -> str:
        values: dict[str, str | None] = {"limit": str(self.page)}
        if self._token:
            unversioned = {"resourceVersion": None, "resourceVersionMatch": None}
            values |= {**unversioned, "continue": self._token}
        return self._query.with_values(**values).encoded()

    def add(self, decoded: Object, view: View) -> str | None:
        """Take one page; return the query of the next one, None: it is complete."""
        require_namespaces(entries_of(decoded), self._response.members, view)
        token = text_at(decoded, "metadata", "continue")
        field = "rows" if is_table(decoded) else "items"
        there = decoded.get(field) or []
        self._response.filter(decoded, ObjectReader(view, self._response.info))
        entries = decoded.get(field) or []
        missing = None if self._limit is None else self._limit - self.given - len(self._entries)
        # A host that sends more than was requested would send the same again.
        if missing is not None and len(entries) > missing and len(there) <= self.page:
            last = entries[missing - 1]
            self.page = 1 + next(at for at, entry in enumerate(there) if entry is last)
            return self.query()
        self._answer = self._answer or {**decoded, field: []}
        self._entries += entries
        self._token = token
        self._sealed = self._response.seal(token, view) if token else ""
        if not token or (missing is not None and missing <= len(entries)):
            return None
        self.page = min(self.page * _GROWTH, self._page_max)
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


class Forward(msgspec.Struct, frozen=True):
    """One request to the host.

    path, query: encoded. authorize: checked before; the gateway sends it as itself then, instead of
    impersonating the client (G-30, G-40). is_long: no time limit. pages: of a list: each is given
    to pages.add(), which returns the next query. otherwise: what to send if the host answers 404.
    sets_up: a host namespace that the answer waits for. warnings: texts for the client.
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

Plan = Forward | RefusalError


def map_selectors(query: Query, view: View, fields: Mapping[str, MapName] | None = None) -> Query:
    """Map names in selectors; fields: further fields of this resource. Raises RefusalError: 400."""
    names = object_membership.host_namespaces(view)

    def host(namespace: str) -> str:
        return names(namespace) if namespace else namespace

    mappings = {**dict.fromkeys(cluster_view.FIELDS_OF_NAMESPACES, host), **(fields or {})}
    query = query.changed(
        "fieldSelector", lambda text: cluster_view.map_field_selector(text, mappings)
    )
    return query.changed("labelSelector", lambda text: cluster_view.map_label_selector(text, host))


def response_to(parsed: ParsedRequest, members: ObjectFilter, **options: Any) -> _OfResource:
    """Return how the answer is mapped. options: further fields of _OfResource."""
    kinds = {"list": ResponseKind.LIST, "watch": ResponseKind.WATCH}
    return _OfResource(
        info=parsed.info,
        members=members,
        kind=kinds.get(parsed.verb, ResponseKind.OBJECT),
        name=parsed.name,
        scope=parsed.token_scope,
        without_objects=parsed.query.first(_INCLUDE) == "None",
        **options,
    )


def forward(
    parsed: ParsedRequest,
    path: RequestPath,
    response: Response,
    *,
    body: bytes = b"",
    content_type: str = "",
    authorize: Attributes | None = None,
) -> Forward:
    """Return the request to the host; a list is joined from pages of it (G-40)."""
    planned = Forward(
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
    if parsed.verb != "list" or not isinstance(response, _OfResource):
        return planned
    limit, token = parsed.query.first("limit") or "0", parsed.query.first("continue")
    if not _NUMBER.fullmatch(limit):
        raise refusals.bad_request(f'strconv.ParseInt: parsing "{limit}": invalid syntax')
    token = parsed.view.sealer().open(token, parsed.token_scope) if token else ""
    query = _with_metadata(parsed.query).with_values(**{"limit": None, "continue": None})
    if query.first("resourceVersion") == "0" and not token:
        # Any version will do, so the newest will; an API server gives version 0 as a whole.
        query = query.with_values(resourceVersion=None, resourceVersionMatch=None)
    pages = JoinedPages(response, query, max(int(limit), 0) or None, token)
    return msgspec.structs.replace(planned, pages=pages, query=pages.query())


def _with_metadata(query: Query) -> Query:
    """Return a query for rows with what says whose they are; it is removed from the answer."""
    is_bare = query.first(_INCLUDE) == "None"
    return query.with_values(**{_INCLUDE: "Metadata"}) if is_bare else query
