"""Joins pages of the host to the pages of all-namespaces lists (G-40).

All pages of one chain have one resource version, so what is joined is what one list of the host
would have shown of this virtual cluster. A page that yields more than the client requested is read
again from its beginning: its place is sealed with the number of entries that were given already.
"""

from karmada_vc_agent.features.gateway.mapping.continue_tokens import PagePosition
from karmada_vc_agent.features.gateway.mapping.exchange import Unknown, View
from karmada_vc_agent.features.gateway.mapping.membership import (
    Membership,
    unknown_namespaces,
)
from karmada_vc_agent.features.gateway.mapping.queries import Query
from karmada_vc_agent.features.gateway.mapping.reading import ObjectReader
from karmada_vc_agent.features.gateway.mapping.responses import OfResource, entries_of
from karmada_vc_agent.features.gateway.mapping.tables import is_table
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
        membership: Membership,
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
