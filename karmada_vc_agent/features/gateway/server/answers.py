"""Answers of the host, mapped and joined, on their way to the client."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

import orjson

from karmada_vc_agent.features.gateway.host_state import ClusterView
from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    ResponseKind,
    UnknownNamespacesError,
)
from karmada_vc_agent.features.gateway.mapping.decoding import PartialDecoder, TooDeepError
from karmada_vc_agent.features.gateway.mapping.object_membership import ObjectReader
from karmada_vc_agent.features.gateway.mapping.refusals import JSON, RefusalError
from karmada_vc_agent.features.gateway.mapping.responses import (
    PAGES_MAX,
    PAGES_MAX_S,
    Forward,
    JoinedPages,
)
from karmada_vc_agent.features.gateway.server.connections import Exchange
from karmada_vc_agent.features.gateway.server.fairness import Reservation, TimeSlice, held_bytes
from karmada_vc_agent.features.gateway.server.host_requests import (
    BODY_BYTES,
    TOO_LARGE,
    HostAnswer,
    to_client,
)
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.model.objects import Object, dig

_log = logging.getLogger(__name__)

STATUS_BYTES = 2**20
WATCH_BYTES = 448 * 1024
"""What a watch holds whose client does not read; measured."""
LARGE_LINE_BYTES = 32 * 1024
"""A larger event of a watch needs memory from here on until its client read it."""
OTHERS_S = 5.0
"""After this time a watch counts as one whose client does not read while it waits for others."""
PART_BYTES = 256 * 1024
PAGE_BYTES = 8 * 2**20
"""A larger page is read again with fewer entries; one object may have 9 MiB, escaped."""
DECODED_BYTES = 96 * 2**20
"""As PAGE_BYTES, in held_bytes(); those of one object that etcd stores are less."""
_PLAIN = frozenset(chr(code) for code in range(32, 127)) - {'"', "\\"}
_WARNING_LENGTH = 256
READS = 4
"""How often a value may name namespaces that no watch reported yet."""
_EXPIRED = RefusalError(410, "the namespaces of the cluster changed; list again")
EXPIRED = orjson.dumps({"type": "ERROR", "object": _EXPIRED.status()}) + b"\n"
"""The last event of a watch once a namespace was adopted or released (G-41)."""

ReadNamespace = Callable[[str], Awaitable[bool]]
Sent = Callable[[str], AbstractAsyncContextManager[HostAnswer]]
Map = Callable[[Object, ClusterView], Any]
Out = TypeVar("Out")
TakePlace = Callable[[], Awaitable[Reservation]]
EventPlace = Callable[[], AbstractAsyncContextManager[Reservation]]


class _PageFailedError(Exception):
    """A page that the host refuses."""


@dataclass(eq=False)
class MappedAnswer:
    """Sends one answer of the host on.

    read_namespace: reads one, and returns whether it exists. on_large: reserves memory for a large
    answer; on_large_event: for one large event of a watch; on_watch: for all that is small of one.
    decoder: decodes lists and events, and encodes what they became.
    """

    _exchange: Exchange
    _forward: Forward
    _view: ClusterView
    _read_namespace: ReadNamespace
    time_slice: TimeSlice
    _on_large: TakePlace
    _on_large_event: EventPlace
    _on_watch: EventPlace
    _place: Reservation | None = None

    def __post_init__(self) -> None:
        self.decoder: PartialDecoder = self._forward.response.decoder(self._view)

    async def send(self, answer: HostAnswer) -> None:
        """Send it. Raises RefusalError before anything is sent, ClientGoneError."""
        kind = self._forward.response.kind
        if answer.status >= 300:
            await self._send_failure(answer)
        elif kind is ResponseKind.OPAQUE:
            await self._send_bytes(answer)
        elif kind is ResponseKind.WATCH:
            await self._send_watch(answer)
        else:
            await self._send_whole(answer)

    def holds(self, size: int) -> None:
        """Take note of how much is held while the client reads, in bytes."""
        if self._place is not None:
            self._place.size = size
            self._place.extend()

    async def reserve(self) -> None:
        """Reserve memory for a large answer, once."""
        if self._place is None:
            self._place = await self._on_large()

    async def decoded(self, decode: Callable[[bytes], Out], content: bytes) -> Out:
        """Return what a function of the decoder makes of an answer. Raises RefusalError."""
        try:
            try:
                return decode(content)
            except TooDeepError:
                shallow = bytearray()
                for part in self.decoder.shallow_parts(content):
                    shallow += part
                    await self.time_slice.rest()
                return decode(bytes(shallow))
        except ValueError as error:
            raise _unreadable() from error

    def encoded(self, mapped: Any) -> bytes:
        """Return the JSON of what the decoder returned. Raises RefusalError."""
        try:
            return self.decoder.encoded(mapped)
        except TooDeepError as error:
            raise RefusalError(500, str(error), counted="unreadable") from error

    async def _give(self, content: bytes) -> None:
        """Send a part, in small ones: what a client takes of it is progress."""
        for start in range(0, len(content), PART_BYTES):
            part = content[start : start + PART_BYTES]
            async with nullcontext() if self._place is None else self._place.lent_if_slow():
                await self._exchange.send(part)

    async def mapped(self, function: Map, value: Object) -> Any:
        """Map a value, once all namespaces that it is in are cached (G-41)."""
        self._view.absent.clear()
        for _ in range(READS):
            try:
                return function(value, self._view)
            except UnknownNamespacesError as error:
                unknown = sorted(error.host_namespaces)
            try:
                for name in unknown:
                    if not await self._read_namespace(name):
                        self._view.absent.add(name)
            except KubeError as error:
                text = "the namespaces of the cluster cannot be read"
                raise RefusalError(503, text, counted="host-away") from error
        raise RefusalError(503, "the namespaces of the cluster change; try again")

    def _headers(self, answer: HostAnswer, *, is_mapped: bool) -> list[tuple[str, str]]:
        headers = to_client(
            answer.headers, lambda text: ObjectReader(self._view).text(text), is_mapped=is_mapped
        )
        return [*headers, *(("Warning", _warning(text)) for text in self._forward.warnings)]

    async def _send_failure(self, answer: HostAnswer) -> None:
        body = await answer.read(STATUS_BYTES)
        status, response = _status_in(body), self._forward.response
        is_read = self._forward.method == "GET" and response.kind is ResponseKind.OBJECT
        if answer.status == 404 and is_read:
            if not dig(status, "details", "name"):  # a page of the API server: an outage
                text = "the host does not serve this kind at the moment"
                raise RefusalError(503, text, counted="host-away")
            # As for an object of others: a client sees no difference.
            raise response.not_found()
        if status is not None:
            _refuse_own_fault(answer.status, status)
            body = orjson.dumps(response.map_status(status, self._view))
        headers = self._headers(answer, is_mapped=status is not None)
        await self._exchange.answer(answer.status, headers, body)

    async def _send_bytes(self, answer: HostAnswer) -> None:
        headers = self._headers(answer, is_mapped=False)
        if length := answer.value(b"content-length"):
            headers.append(("Content-Length", length))
        await self._exchange.begin(answer.status, headers, is_long=self._forward.is_long)
        async for part in answer.parts():
            await self._exchange.send(part)
            await self.time_slice.rest()
        await self._exchange.end()

    async def _send_whole(self, answer: HostAnswer) -> None:
        content = await answer.read(BODY_BYTES, self.reserve)
        if held_bytes(content) > DECODED_BYTES:
            raise RefusalError(500, "the answer is too large", counted=TOO_LARGE)
        self.holds(len(content))
        await self.time_slice.begin()
        obj = await self.decoded(_decoded, content)
        mapped = await self.mapped(self._forward.response.map, obj)
        if mapped is None:
            raise self._forward.response.not_found()
        headers, body = self._headers(answer, is_mapped=True), self.encoded(mapped)
        del content, obj, mapped  # up to thirty times the body, and the client may read slowly
        headers.append(("Content-Length", str(len(body))))
        await self._exchange.begin(answer.status, headers)
        await self._give(body)
        await self._exchange.end()

    async def send_pages(self, pages: JoinedPages, sent: Sent, query: str) -> None:
        """Send a list that is joined. Raises RefusalError, ClientGoneError."""
        parts = self._joined(pages, sent, query)
        with suppress(_PageFailedError):  # the first one, which was sent as it is
            try:
                first = await anext(parts)
                await self._exchange.begin(200, [("Content-Type", JSON)])
                await self._give(first)
                async for part in parts:
                    await self._give(part)
                    del part  # the next one is made first
            except ValueError as error:
                raise _unreadable() from error
            await self._exchange.end()

    async def _joined(self, pages: JoinedPages, sent: Sent, query: str) -> AsyncIterator[bytes]:
        """Yield the JSON of a list, page by page; one with a limit ends after some of them."""
        until = time.monotonic() + PAGES_MAX_S
        following = await self._take(pages, sent, query)
        yield b'{"%b":[' % pages.field.encode()
        for number in count(1):
            yield self._taken(pages)
            is_enough = number == PAGES_MAX or time.monotonic() > until
            if following is None or (is_enough and not pages.is_whole):
                break
            try:
                following = await self._take(pages, sent, following)
            except (RefusalError, _PageFailedError) as error:
                if pages.is_whole:
                    raise RefusalError(500, "a page of the list cannot be read") from error
                break  # what there is so far says where to go on
        text = self.encoded(pages.head())
        yield b"]" + (b"," if len(text) > 2 else b"") + text[1:]

    def _taken(self, pages: JoinedPages) -> bytes:
        """Return the JSON of the taken entries, of which nothing else is held then."""
        comma = b"," if pages.given else b""
        entries = pages.taken()
        return comma + memoryview(self.encoded(entries))[1:-1] if entries else b""

    async def _take(self, pages: JoinedPages, sent: Sent, query: str) -> str | None:
        """Take one page; return the query of the next one. Raises _PageFailedError."""
        try:
            async with sent(query) as answer:
                if answer.status >= 300:
                    if not self._exchange.has_begun:
                        await self.send(answer)
                    raise _PageFailedError
                most = BODY_BYTES if pages.page == 1 else PAGE_BYTES
                content = await answer.read(most, self.reserve)
        except RefusalError as refusal:
            fewer = pages.smaller() if refusal.counted == TOO_LARGE else None
            if fewer is None:
                raise
            return await self._take(pages, sent, fewer)
        if held_bytes(content) > DECODED_BYTES and (fewer := pages.smaller()) is not None:
            del content
            return await self._take(pages, sent, fewer)
        self.holds(len(content))
        await self.time_slice.begin()
        page = await self.decoded(self.decoder.answer, content)
        following: str | None = await self.mapped(pages.add, page)
        return following

    async def _send_watch(self, answer: HostAnswer) -> None:
        headers = self._headers(answer, is_mapped=True)
        await self._exchange.begin(answer.status, headers, is_long=True)
        rest, parts = b"", answer.parts()
        async with self._on_watch() as small:
            self._place, small.size = small, WATCH_BYTES
            async for part in parts:
                rest = await self._send_lines([rest, part])
                if len(rest) > LARGE_LINE_BYTES:
                    async with small.lent_if_slow(OTHERS_S):
                        rest = await self._send_large_line(rest, parts)
                    self._place = small
        await self._exchange.end()

    async def _send_lines(self, received: list[bytes]) -> bytes:
        """Send the received events, and empty it; return the beginning of the next event."""
        time_slice, mapped = self.time_slice, bytearray()
        await time_slice.begin()
        lines = b"".join(received).split(b"\n")[::-1]
        received.clear()
        while len(lines) > 1:
            mapped += await self._mapped_line(lines.pop())
            if time_slice.is_over:
                await self._flush(mapped)
                await time_slice.rest()
        await self._flush(mapped)
        return lines[0]

    async def _send_large_line(self, begun: bytes, parts: AsyncIterator[bytes]) -> bytes:
        """Send a large event once there is memory; return the beginning of the next one."""
        async with self._on_large_event() as place:
            self._place, received = place, [begun]
            async for part in parts:
                received.append(part)
                place.size += len(part)
                if place.size > BODY_BYTES:
                    raise _unreadable()
                if b"\n" in part:
                    break
            return await self._send_lines(received)

    async def _flush(self, mapped: bytearray) -> None:
        if content := bytes(mapped):
            mapped.clear()
            await self._give(content)

    async def _mapped_line(self, line: bytes) -> bytes:
        if not line.strip():
            return b""
        event = await self.decoded(self.decoder.event, line)
        # The namespace of what was deleted may be deleted by now, and reported before it.
        self._view.has_past = event.get("type") == "DELETED"
        mapped = await self.mapped(self._forward.response.map, event)
        return b"" if mapped is None else self.encoded(mapped) + b"\n"


def _warning(text: str) -> str:
    quoted = "".join(each if each in _PLAIN else "?" for each in text)[:_WARNING_LENGTH]
    return f'299 - "{quoted}"'


def _decoded(content: bytes) -> Object:
    try:
        obj = orjson.loads(content)
    except ValueError as error:
        raise _unreadable() from error
    if not isinstance(obj, dict):
        raise _unreadable()
    return obj


def _unreadable() -> RefusalError:
    return RefusalError(500, "the answer of the cluster cannot be read", counted="unreadable")


def _status_in(body: bytes) -> Object | None:
    with suppress(RefusalError):
        status = _decoded(body)
        return status if status.get("kind") == "Status" else None
    return None


def _refuse_own_fault(code: int, status: Object) -> None:
    """Raise RefusalError where the host refused the gateway, not its client."""
    if code == 401:
        _log.error("The host does not know the gateway", extra={"reason": status.get("message")})
        raise RefusalError(503, "the cluster does not recognize the gateway", counted="own-rights")
    if code == 403 and "cannot impersonate resource" in str(status.get("message")):
        _log.error("The gateway lacks a right", extra={"reason": status.get("message")})
        raise RefusalError(500, "the gateway lacks a right", counted="own-rights")


async def first_of(main: Awaitable[None], *others: Awaitable[Any]) -> set[int]:
    """Run until one ends, cancel the others; return which did, 0 = main, whose error is raised."""
    tasks = [asyncio.ensure_future(each) for each in (main, *others)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        ended = {number for number, task in enumerate(tasks) if task.done()}
        if 0 in ended:
            tasks[0].result()
        return ended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
