"""Connections of clients over TLS 1.3: listening, requests, answers; streams of h11."""

import asyncio
import logging
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate

import h11
import msgspec
import orjson

from karmada_vc_agent.features.gateway.identity import Impersonation
from karmada_vc_agent.features.gateway.mapping.refusals import RefusalError
from karmada_vc_agent.features.gateway.request_metrics import RequestRecord
from karmada_vc_agent.features.gateway.server.fairness import LARGE_BYTES, TimeSlice
from karmada_vc_agent.kube.transport import keep_alive
from karmada_vc_agent.telemetry.endpoints import Door, shake_hands

READ_BYTES = 64 * 1024
HEAD_BYTES = 64 * 1024
STREAM_BYTES = 64 * 1024
"""A StreamReader stops reading at twice this much (G-62)."""


_Next = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]


class MessageStream:
    """Events of one connection. Raises h11.RemoteProtocolError; OSError where it broke.

    plain: what is below TLS, where it may hold what is not sent yet.
    """

    def __init__(
        self,
        role: type[h11.CLIENT] | type[h11.SERVER],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        plain: asyncio.WriteTransport | None = None,
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.plain = plain or writer.transport
        self.state = h11.Connection(role, max_incomplete_event_size=HEAD_BYTES)

    async def next_event(self) -> _Next:
        """Return the next event of the other side, or PAUSED."""
        while True:
            event = self.state.next_event()
            if event is h11.PAUSED or isinstance(event, h11.Event):
                return event
            self.state.receive_data(await self.read())

    async def read(self) -> bytes:
        """Return what the other side sent, b"" at its end."""
        return await self.reader.read(READ_BYTES)

    def write(self, event: h11.Event) -> None:
        """Write without waiting: for heads, and what is small."""
        data = self.state.send(event)
        if data:
            self.writer.write(data)

    async def send(self, event: h11.Event) -> None:
        """Write, and wait while the other side reads slowly."""
        self.write(event)
        await self.writer.drain()

    async def body(self, *, is_joined: bool = False) -> AsyncIterator[bytes]:
        """Yield the body of the message whose head was read, to its end.

        is_joined: chunks that arrive together are one part.
        """
        while True:
            event, chunks = await self.next_event(), []
            while isinstance(event, h11.Data):
                chunks.append(event.data)
                event = self.state.next_event() if is_joined else h11.NEED_DATA
            if chunks:
                chunks = [b"".join(chunks)]
                yield chunks.pop()
            if isinstance(event, h11.EndOfMessage):
                return
            if event is not h11.NEED_DATA:
                raise h11.RemoteProtocolError("the connection was closed within a body")

    @property
    def is_done(self) -> bool:
        """Whether both sides have ended their messages, so that others may follow."""
        return self.state.our_state is h11.DONE and self.state.their_state is h11.DONE

    @property
    def has_unsent(self) -> bool:
        """Whether anything that was written is not sent yet."""
        return any(x.get_write_buffer_size() for x in (self.writer.transport, self.plain))

    @property
    def has_more(self) -> bool:
        """Whether more was received than belongs to the message."""
        return bool(self.state.trailing_data[0])

    def close(self) -> None:
        """Close the connection; what was written is still sent."""
        self.writer.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self.writer.transport.abort()


Headers = list[tuple[bytes, bytes]]
"""Lower-case name -> value, in the order of the message."""

_CLUSTER_PATH = re.compile(r"/virtualclusters/([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)(/.*)?")
"""What each path begins with: the name of a virtual cluster; then its path."""
_TARGET = re.compile(rb"/[\x21\x22\x24-\x7e]*")
"""A path with its query: no scheme, no host, no fragment, nothing that is no visible ASCII."""
_TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."  # noqa: S105 - a name, no secret
PASSED_ON = frozenset({b"user-agent", b"if-none-match", b"if-modified-since", b"range"})
"""Headers of a request that are passed on, beside those that a VirtualRequest has."""
UPGRADE_HEADERS = frozenset(
    b"upgrade x-stream-protocol-version origin sec-websocket-key sec-websocket-version "
    b"sec-websocket-extensions sec-websocket-protocol".split()
)
"""Headers that are passed on with an upgrade (G-61), repeated ones too."""


class Head(msgspec.Struct, frozen=True):
    """The head of a request. path: of the virtual cluster, percent-encoded as received."""

    method: str
    cluster: str
    path: str
    query: str
    headers: Headers
    token: str
    is_upgrade: bool

    def value(self, name: bytes) -> str:
        """Return a header that may occur several times, its values joined as HTTP says."""
        return _value(self.headers, name)


def _value(headers: Headers, name: bytes) -> str:
    return ", ".join(value.decode("latin-1") for key, value in headers if key == name)


def head_of(request: h11.Request) -> Head:
    """Return what a request says. Raises RefusalError: what no client of Kubernetes sends."""
    headers = list(request.headers)
    if len(request.target) + sum(len(n) + len(v) + 4 for n, v in headers) > HEAD_BYTES:
        raise RefusalError(431, "the head of the request is too large")
    # What two readers may take for two different messages; h11 has refused other transfer encodings
    # than chunked, and lengths that differ.
    names = [name for name, _ in headers]
    if b"transfer-encoding" in names and b"content-length" in names:
        raise RefusalError(400, "the request has both a length and a transfer encoding")
    if names.count(b"authorization") > 1:
        raise RefusalError(400, "the request has several headers Authorization")
    if not _TARGET.fullmatch(request.target):
        raise RefusalError(400, "the request needs an absolute path")
    if _TOKEN_PROTOCOL in _value(headers, b"sec-websocket-protocol"):  # as of browsers (G-11)
        raise RefusalError(400, "a token is read from the header Authorization alone")
    target, _, query = request.target.decode("ascii").partition("?")
    match = _CLUSTER_PATH.fullmatch(target)
    scheme, _, token = _value(headers, b"authorization").partition(" ")
    options = _value(headers, b"connection").lower().split(",")
    return Head(
        method=request.method.decode("ascii"),
        cluster=match[1] if match else "",
        path=(match[2] or "/") if match else target,
        query=query,
        headers=headers,
        token=token.strip() if scheme.lower() == "bearer" else "",
        is_upgrade="upgrade" in map(str.strip, options),
    )


def impersonation_of(headers: Iterable[tuple[bytes, bytes]]) -> Impersonation:
    """Return the headers Impersonate-* of a request. Raises RefusalError if one is no text."""
    users, groups, others = [], [], []
    for name, value in headers:
        if not name.startswith(b"impersonate-"):
            continue
        try:
            text = value.decode()
        except UnicodeDecodeError as error:
            raise RefusalError(400, f"the header {name.decode()} is not UTF-8") from error
        if name == b"impersonate-user":
            users.append(text)
        elif name == b"impersonate-group":
            groups.append(text)
        else:
            others.append(name.decode().title())
    return Impersonation(tuple(users), tuple(groups), tuple(others))


IDLE_S = 90.0
"""How long a connection may wait for its next request."""
HEAD_S = 10.0
"""How long the first request, and the rest of a head that began, may take."""
BODY_S = 30.0
"""How long a client may be silent within a body."""
WRITE_S = 60.0
"""How long a client may take to read a part of an answer that is not long."""
BODY_BYTES = 3 * 2**20
PARTS, PART_BYTES = 1024, 256
"""Chunks that a body may have, and one more for so many bytes: each costs as much as 64 KiB."""
HEAD_LINES = 1024
"""Lines of a head; each header costs as much as a kilobyte of one."""
LINGER_S, LINGER_BYTES = 1.0, 16 * 2**20
"""How much of a request is read and thrown away after it was refused."""
_HEAD_END = re.compile(rb"\n\r?\n")
_SAID_ALL = frozenset({h11.DONE, h11.MUST_CLOSE, h11.CLOSED})
"""States of a client that sends no more of its request."""
BROKEN = (OSError, EOFError, h11.ProtocolError)
"""What ends a connection; a TimeoutError is an OSError."""
_HTTP_ERRORS = frozenset({400, 431, 501})


OnLarge = Callable[[], Awaitable[object]]


class ClientGoneError(Exception):
    """The client closed its connection, or does not read."""


class Exchange:
    """One request, and the way to answer it. head: of the request.

    record: what is reported of it. has_begun: whether the head of the answer is sent.
    """

    def __init__(self, stream: MessageStream, head: Head) -> None:
        self.head = head
        self.stream = stream
        self.record = RequestRecord(head.method, head.cluster, head.path)
        self.has_begun = False
        self._is_long = False

    async def body(self, on_large: OnLarge) -> bytes:
        """Return the whole body of the request; on_large: waited for once it is a large one.

        Raises RefusalError: 400, 413; ClientGoneError.
        """
        stream, time_slice = self.stream, TimeSlice()
        content, parts = bytearray(), 0
        try:
            # Only a client whose body may be small enough is let go on.
            if int(self.head.value(b"content-length") or 0) > BODY_BYTES:
                raise _too_large()
            if stream.state.they_are_waiting_for_100_continue:
                await stream.send(h11.InformationalResponse(status_code=100, headers=[]))
            body = stream.body()
            while True:
                async with asyncio.timeout(BODY_S):
                    part = await anext(body)
                was_large = len(content) > LARGE_BYTES
                content += part
                parts += 1
                if len(content) > BODY_BYTES:
                    raise _too_large()
                if parts > PARTS + len(content) // PART_BYTES:
                    raise RefusalError(400, "the request body has too many small chunks")
                if not was_large and len(content) > LARGE_BYTES:
                    await on_large()
                await time_slice.rest()
        except StopAsyncIteration:
            return bytes(content)
        except h11.RemoteProtocolError as error:
            raise RefusalError(400, "the request body cannot be read") from error
        except OSError as error:  # a TimeoutError is one
            raise ClientGoneError from error

    async def refuse(self, refusal: RefusalError) -> None:
        """Answer with a Status; with nothing if an answer has begun. Raises ClientGoneError."""
        if self.has_begun:
            self.record.code = refusal.code
            self.stream.abort()
            return
        await self.answer(refusal.code, refusal.headers(), orjson.dumps(refusal.status()))

    async def answer(self, code: int, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        """Answer at once, and whole. Raises ClientGoneError."""
        await self.begin(code, [*headers, ("Content-Length", str(len(body)))])
        if body:
            await self.send(body)
        await self.end()

    async def begin(
        self, code: int, headers: Iterable[tuple[str, str]], *, is_long: bool = False
    ) -> None:
        """Send the head of an answer; without Content-Length its body is chunked."""
        self.record.code, self.has_begun, self._is_long = code, True, is_long
        wire = [
            (name.encode(), value.encode("latin-1"))
            for name, value in (("Date", formatdate(usegmt=True)), *headers)
        ]
        if self.stream.state.their_state is not h11.DONE:
            wire.append((b"Connection", b"close"))  # the rest of the request is never read
        with _broken_is_gone():
            self.stream.write(h11.Response(status_code=code, headers=wire))

    async def send(self, part: bytes) -> None:
        """Send a part of the body, and wait while the client reads slowly."""
        self.record.bytes_out += len(part)
        with _broken_is_gone():
            if self.head.method == "HEAD":
                return
            async with asyncio.timeout(None if self._is_long else WRITE_S):
                await self.stream.send(h11.Data(data=part))

    async def end(self) -> None:
        with _broken_is_gone():
            await self.stream.send(h11.EndOfMessage())

    async def disconnected(self) -> None:
        """Return once the client closes its connection, or says what it must not say now."""
        with suppress(*BROKEN):
            await self.stream.reader.read(1)


def _too_large() -> RefusalError:
    return RefusalError(413, f"the request body is larger than {BODY_BYTES >> 20} MiB")


@contextmanager
def _broken_is_gone() -> Iterator[None]:
    try:
        yield
    except BROKEN as error:
        raise ClientGoneError from error


Handle = Callable[[Exchange], Awaitable[None]]


async def _next_head(stream: MessageStream, wait_s: float) -> h11.Request | None:
    async with asyncio.timeout(wait_s) as patience:
        while True:
            _check_lines(stream.state.trailing_data[0])
            event = stream.state.next_event()
            if isinstance(event, h11.Request):
                return event
            if event is not h11.NEED_DATA:
                return None
            data = await stream.read()
            if not data and not stream.has_more:
                return None
            stream.state.receive_data(data)
            until = asyncio.get_running_loop().time() + HEAD_S
            if until < (patience.when() or until):
                patience.reschedule(until)


def _check_lines(read: bytes) -> None:
    """Refuse a head of many lines before it is parsed. Raises h11.RemoteProtocolError."""
    if len(read) <= HEAD_LINES:
        return
    end = _HEAD_END.search(read)
    if read.count(b"\n", 0, end.start() if end else len(read)) > HEAD_LINES:
        raise h11.RemoteProtocolError("too many lines", error_status_hint=431)


async def _linger(stream: MessageStream) -> None:
    """Read what a refused client still sends: to close earlier would take its answer away."""
    if stream.state.our_state is h11.IDLE or stream.state.their_state in _SAID_ALL:
        return
    left = LINGER_BYTES
    with suppress(*BROKEN):
        async with asyncio.timeout(LINGER_S):
            while left > 0 and (data := await stream.read()):
                left -= len(data)


_NO_HEAD = Head("", "", "", "", [], "", is_upgrade=False)


_log = logging.getLogger(__name__)

WAITING = 1024
"""Connections that may wait for a handshake or a request; a further one ends the oldest."""
BACKLOG = 512


class Listener:
    """Accepts connections and serves each in a task of its own. handle: answers one request."""

    def __init__(self, tls: ssl.SSLContext, handle: Handle, waiting: int = WAITING) -> None:
        self._tls = tls
        self._handle = handle
        self._most_waiting = waiting
        self._is_ending = False
        self._server: asyncio.Server | None = None
        self._handshakes: dict[asyncio.Transport, asyncio.Task[None]] = {}
        self._connections: dict[MessageStream, asyncio.Task[None]] = {}
        self._waiting: dict[MessageStream, None] = {}
        """Those of which no request is being answered, the one that waits longest first."""

    async def start(self, host: str | None, port: int) -> int:
        """Listen; return the port. Raises OSError."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Door(self._enter), host, port, backlog=BACKLOG
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self, grace_s: float, end_long: Callable[[], None]) -> None:
        """Accept nothing more; let answers end, cut the rest. end_long: ends watches in order.

        An idle client that does not read would not close for 30 s, so it is not waited for.
        """
        self._is_ending = True
        if self._server is not None:
            self._server.close()
        for transport, handshake in self._handshakes.items():
            handshake.cancel()
            transport.abort()
        idle = [stream for stream in self._waiting if not stream.has_unsent]
        for stream in self._waiting:
            stream.close()
        end_long()
        tasks = set(self._connections.values())
        if busy := [task for each, task in self._connections.items() if each not in idle]:
            await asyncio.wait(busy, timeout=grace_s)
        for stream, task in self._connections.items():
            stream.abort()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def count(self) -> int:
        """Return the number of connections, with handshakes."""
        return len(self._connections) + len(self._handshakes)

    def _enter(self, transport: asyncio.Transport) -> None:
        """Begin a handshake; of too many connections that wait, the oldest one ends."""
        if len(self._waiting) + len(self._handshakes) >= self._most_waiting:
            oldest = next(iter(self._handshakes), None)
            if oldest is not None:
                self._handshakes.pop(oldest).cancel()
                oldest.abort()
            else:
                stream = next(iter(self._waiting))
                del self._waiting[stream]
                stream.abort()
        transport.pause_reading()
        task = asyncio.get_running_loop().create_task(self._shake_hands(transport))
        self._handshakes[transport] = task

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=STREAM_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        try:
            with suppress(OSError):
                keep_alive(transport.get_extra_info("socket"))
            secured = await shake_hands(transport, protocol, self._tls)
        finally:
            self._handshakes.pop(transport, None)
        if secured is not None:
            writer = asyncio.StreamWriter(secured, protocol, reader, loop)
            stream = MessageStream(h11.SERVER, reader, writer, transport)
            self._connections[stream] = loop.create_task(self._serve(stream))

    async def _serve(self, stream: MessageStream) -> None:
        wait_s = HEAD_S
        try:
            while not self._is_ending and await self._serve_one(stream, wait_s):
                wait_s = IDLE_S
            await _linger(stream)
        except (ClientGoneError, *BROKEN):
            pass
        except Exception:  # noqa: BLE001 - one client must not cost the others
            _log.exception("Failed to serve a connection")
        finally:
            stream.close()
            self._connections.pop(stream, None)

    async def _serve_one(self, stream: MessageStream, wait_s: float) -> bool:
        self._waiting[stream] = None
        try:
            request = await _next_head(stream, wait_s)
            if request is None:
                return False
            exchange, refusal = Exchange(stream, head_of(request)), None
        except h11.RemoteProtocolError as error:
            hint = error.error_status_hint
            is_large = hint == 431
            text = (
                "the head of the request is too large" if is_large else "the request is malformed"
            )
            refusal = RefusalError(hint if hint in _HTTP_ERRORS else 400, text)
        except RefusalError as error:
            refusal = error
        finally:
            self._waiting.pop(stream, None)
        if refusal is not None:
            await Exchange(stream, _NO_HEAD).refuse(refusal)
            return False
        await self._handle(exchange)
        if stream.is_done:
            stream.state.start_next_cycle()
            return True
        return False
