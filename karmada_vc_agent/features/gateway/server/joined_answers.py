"""Lists over all namespaces, joined from pages of the host (G-40).

One page is held at a time. Where they are small, the next one is requested meanwhile.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from msgspec import Raw

from karmada_vc_agent.features.gateway.mapping.parsed_request import (
    PAGES_MAX,
    PAGES_MAX_S,
    JoinedPages,
)
from karmada_vc_agent.features.gateway.mapping.refusals import JSON, RefusalError
from karmada_vc_agent.features.gateway.server.host_requests import TOO_LARGE, HostAnswer
from karmada_vc_agent.features.gateway.server.mapped_answers import MappedAnswer

PAGE_BYTES = 8 * 2**20
"""A larger page is read again with fewer entries."""
AHEAD_BYTES = 2**20
"""After a smaller page, the host makes the next one while this one is mapped and sent."""

Sent = Callable[[str], AbstractAsyncContextManager[HostAnswer]]


class _AnswerFailedError(Exception):
    """A page that the host refuses."""


class JoinedAnswer:
    """Sends one joined list. sent: sends the request for a page, by its query."""

    def __init__(self, pages: JoinedPages, sent: Sent, mapped: MappedAnswer) -> None:
        self._pages = pages
        self._sent = sent
        self._mapped = mapped
        self._content_type = JSON
        self._ahead: asyncio.Task[bytes] | None = None
        self._held = 0
        """The entries of the pages before the one that is read, in bytes."""

    async def send(self, query: str) -> None:
        """Send it. query: of the first page. Raises RefusalError, ClientGoneError."""
        try:
            following = await self._take(query, is_first=True)
            headers = [("Content-Type", self._content_type)]
            if self._pages.is_whole:
                await self._mapped.send_parts(200, headers, self._parts(following))
                return
            entries = await self._some(following)
            joined = {**self._pages.head(), self._pages.field: Raw(b"[" + entries + b"]")}
            await self._mapped.send_whole(200, headers, self._mapped.encoded(joined))
        except _AnswerFailedError:
            return  # the first one, which was sent as it is
        finally:
            if self._ahead is not None:
                self._ahead.cancel()
                await asyncio.gather(self._ahead, return_exceptions=True)

    async def _some(self, query: str | None) -> bytes:
        """Take further pages until there are enough; the rest is left to further requests.

        Returns the entries, in JSON: those that are decoded hold the bytes of their page.
        """
        until = time.monotonic() + PAGES_MAX_S
        parts = [self._taken()]
        for _ in range(PAGES_MAX - 1):
            self._held = sum(map(len, parts))
            if query is None or time.monotonic() > until or self._held > PAGE_BYTES:
                break
            try:
                query = await self._take(query)
            except _AnswerFailedError:
                break  # what there is so far says where to go on
            parts.append(self._taken())
        return b",".join(filter(None, parts))

    def _taken(self) -> bytes:
        """Return the JSON of the entries of the last page, without brackets."""
        entries = self._pages.taken()
        return self._mapped.encoded(entries)[1:-1] if entries else b""

    async def _parts(self, query: str | None) -> AsyncIterator[bytes]:
        """Yield the JSON of the whole list, page by page."""
        yield self._mapped.opened(self._pages.head(), self._pages.field)
        comma = b""
        while True:
            if entries := self._taken():
                yield comma + entries
                comma = b","
            if query is None:
                break
            try:
                query = await self._take(query)
            except _AnswerFailedError as error:
                raise RefusalError(500, "a page of the list cannot be read") from error
        yield b"]}"

    async def _take(self, query: str, *, is_first: bool = False) -> str | None:
        """Take one page; return the query of the next one. Raises _AnswerFailedError."""
        mapped = self._mapped
        while True:
            try:
                content = await (self._ahead or self._read(query, is_first=is_first))
            except RefusalError as refusal:
                fewer = self._pages.smaller() if refusal.counted == TOO_LARGE else None
                if fewer is None:
                    raise
                query = fewer
                continue
            finally:
                self._ahead = None
            mapped.holds(self._held + len(content))
            await mapped.time_slice.begin()
            page = await mapped.decoded(mapped.decoder.answer, content)
            ahead = self._pages.ahead(page)
            if ahead is not None and len(content) <= AHEAD_BYTES and mapped.has_reservation:
                self._ahead = asyncio.create_task(self._read(ahead))
                await asyncio.sleep(0)  # for it to be sent
                await mapped.time_slice.begin()
            following: str | None = await mapped.mapped(self._pages.add, page)
            return following

    async def _read(self, query: str, *, is_first: bool = False) -> bytes:
        async with self._sent(query) as answer:
            if answer.status >= 300:
                if is_first:
                    await self._mapped.send(answer)
                raise _AnswerFailedError
            self._content_type = answer.value(b"content-type") or JSON
            return await answer.read(PAGE_BYTES, self._mapped.reserve)
