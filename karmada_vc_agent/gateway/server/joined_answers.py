"""Lists over all namespaces, joined from pages of the host (G-40): never more than one is held."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import orjson

from karmada_vc_agent.gateway.mapping.exchange import PAGES_MAX, PAGES_MAX_S, Pages
from karmada_vc_agent.gateway.server.host_requests import HostAnswer, TooLargeError
from karmada_vc_agent.gateway.server.mapped_answers import MappedAnswer
from karmada_vc_agent.gateway.server.statuses import JSON, RefusalError
from karmada_vc_agent.model.objects import Object

PAGE_BYTES = 8 * 2**20
"""A larger page is read again with fewer entries."""

Sent = Callable[[str], AbstractAsyncContextManager[HostAnswer]]


class _FailedError(Exception):
    """A page that the host refuses."""


class JoinedAnswer:
    """Sends one joined list. sent: sends the request for a page, by its query."""

    def __init__(self, pages: Pages, sent: Sent, mapped: MappedAnswer) -> None:
        self._pages = pages
        self._sent = sent
        self._mapped = mapped
        self._content_type = JSON

    async def send(self, query: str) -> None:
        """Send it. query: of the first page. Raises RefusalError, ClientGoneError."""
        try:
            following = await self._take(query, is_first=True)
        except _FailedError:
            return
        if self._pages.is_whole:
            headers = [("Content-Type", self._content_type)]
            await self._mapped.send_parts(200, headers, self._parts(following))
            return
        await self._take_some(following)
        await self._mapped.send_object(200, self._pages.answer(), self._content_type)

    async def _take_some(self, query: str | None) -> None:
        """Take further pages until there are enough; the rest is left to further requests."""
        until = time.monotonic() + PAGES_MAX_S
        for _ in range(PAGES_MAX - 1):
            if query is None or time.monotonic() > until:
                return
            try:
                query = await self._take(query)
            except _FailedError:
                return  # what there is so far says where to go on

    async def _parts(self, query: str | None) -> AsyncIterator[bytes]:
        """Yield the JSON of the whole list, page by page."""
        opening = orjson.dumps(self._pages.opening())[:-1]
        begun = opening + (b"," if len(opening) > 1 else b"")
        yield begun + b'"' + self._pages.field.encode() + b'":['
        comma = b""
        while True:
            if entries := self._pages.taken():
                yield comma + orjson.dumps(entries)[1:-1]
                comma = b","
            if query is None:
                break
            try:
                query = await self._take(query)
            except _FailedError as error:
                raise RefusalError(500, "a page of the list cannot be read") from error
        yield b"]}"

    async def _take(self, query: str, *, is_first: bool = False) -> str | None:
        """Take one page; return the query of the next one. Raises _FailedError."""
        while True:
            try:
                page = await self._read(query, is_first=is_first)
            except TooLargeError:
                fewer = self._pages.smaller()
                if fewer is None:
                    raise
                query = fewer
                continue
            following: str | None = await self._mapped.mapped(self._pages.add, page)
            return following

    async def _read(self, query: str, *, is_first: bool) -> Object:
        async with self._sent(query) as answer:
            if answer.status >= 300:
                if is_first:
                    await self._mapped.send(answer)
                raise _FailedError
            self._content_type = answer.value(b"content-type") or JSON
            return self._mapped.decoded(await self._mapped.read(answer, PAGE_BYTES))
