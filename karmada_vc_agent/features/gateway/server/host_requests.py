"""Requests to the API server of the host: connections, headers, tunnels.

Plain ones use connections that are kept open, a few for each virtual cluster: what one does to a
connection cannot reach a neighbour. A watch or an upgrade has a connection of its own.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import h11
import msgspec

from karmada_vc_agent.features.gateway.identity import Caller
from karmada_vc_agent.features.gateway.mapping.cluster_view import ResponseKind
from karmada_vc_agent.features.gateway.mapping.refusals import JSON, RefusalError
from karmada_vc_agent.features.gateway.mapping.responses import Forward
from karmada_vc_agent.features.gateway.server.connections import (
    BROKEN,
    PASSED_ON,
    READ_BYTES,
    STREAM_BYTES,
    UPGRADE_HEADERS,
    ClientGoneError,
    Exchange,
    Head,
    Headers,
    MessageStream,
    OnLarge,
)
from karmada_vc_agent.features.gateway.server.fairness import LARGE_BYTES
from karmada_vc_agent.kube.transport import Credentials, keep_alive

_log = logging.getLogger(__name__)

CONNECT_S = 5.0
ANSWER_S = 60.0
"""How long a host may take to begin an answer, and then be silent within it (8)."""
KEPT = 4
"""Connections that are kept open for a virtual cluster; more are opened while it needs them."""
LONG_STREAM_BYTES = 32 * 1024
"""As STREAM_BYTES, of watches: there are many, and their clients may not read."""
BODY_BYTES = 16 * 2**20
"""The largest answer that is read as a whole."""
_REPEATED = frozenset({"GET", "HEAD"})


TOO_LARGE = "answer-too-large"
"""Counted for an answer that is larger than it may be."""


class HostRequest(msgspec.Struct, frozen=True):
    """One request to the host. target: path and query. headers: without Host and Authorization.

    is_long: it may take its time to answer, and has a connection of its own.
    """

    cluster: str
    method: str
    target: str
    headers: Headers
    body: bytes = b""
    is_long: bool = False
    is_upgrade: bool = False


class HostAnswer:
    """The answer to one request."""

    def __init__(
        self,
        head: h11.Response | h11.InformationalResponse,
        stream: MessageStream,
        silence_s: float | None,
    ) -> None:
        self.status = head.status_code
        self.headers: Headers = list(head.headers)
        self.stream = stream
        self._silence_s = silence_s

    def value(self, name: bytes) -> str:
        """Return the first header of a name, or ""."""
        return next((v.decode("latin-1") for key, v in self.headers if key == name), "")

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises RefusalError where the host falls silent."""
        body = self.stream.body(is_joined=True)
        while True:
            try:
                async with asyncio.timeout(self._silence_s):
                    part = await anext(body)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise _too_late() from error
            except BROKEN as error:
                raise _unreachable() from error
            yield part

    async def read(self, limit: int = BODY_BYTES, on_large: OnLarge | None = None) -> bytes:
        """Return the whole body. Raises RefusalError, counted as TOO_LARGE above the limit."""
        content = bytearray()
        async for part in self.parts():
            was_large = len(content) > LARGE_BYTES
            content += part
            if len(content) > limit:
                raise RefusalError(500, "the answer is too large", counted=TOO_LARGE)
            if on_large is not None and not was_large and len(content) > LARGE_BYTES:
                await on_large()
        return bytes(content)


class HostRequests:
    """Sends requests to the host. credentials: may be replaced at any time.

    suspect: called when the host does not know us.
    """

    def __init__(
        self,
        credentials: Credentials,
        answer_s: float = ANSWER_S,
        suspect: Callable[[], None] = lambda: None,
    ) -> None:
        self._credentials = credentials
        self._answer_s = answer_s
        self._suspect = suspect
        self._kept: dict[str, list[MessageStream]] = defaultdict(list)

    def use(self, credentials: Credentials) -> None:
        """Use other credentials from the next request on."""
        self._credentials = credentials
        self.close()

    def close(self) -> None:
        for cluster in list(self._kept):
            self.forget(cluster)

    def forget(self, cluster: str) -> None:
        """Close what is kept open for a virtual cluster that is no longer served."""
        for stream in self._kept.pop(cluster, ()):
            stream.close()

    @asynccontextmanager
    async def send(self, request: HostRequest) -> AsyncIterator[HostAnswer]:
        """Send a request. Raises RefusalError: 503 without a host, 504 if it takes too long."""
        credentials = self._credentials
        answer = await self._answer_to(request)
        try:
            yield answer
        except BaseException:
            answer.stream.abort()
            raise
        if not answer.stream.is_done or answer.stream.has_more:
            answer.stream.abort()
            return
        is_kept = not (request.is_long or request.is_upgrade) and credentials is self._credentials
        self._give_back(request.cluster, answer.stream, is_kept=is_kept)

    async def _answer_to(self, request: HostRequest) -> HostAnswer:
        kept = None if request.is_long or request.is_upgrade else self._take(request.cluster)
        if kept is not None:
            try:
                return await self._exchange(request, kept)
            except RefusalError as refusal:
                # It was closed while it was idle: that says nothing about the server.
                if refusal.code != 503 or request.method not in _REPEATED:
                    raise
        limit = LONG_STREAM_BYTES if request.is_long else STREAM_BYTES
        return await self._exchange(request, await self._connect(limit))

    def _take(self, cluster: str) -> MessageStream | None:
        all_kept = self._kept.get(cluster, [])
        while all_kept:
            stream = all_kept.pop()
            if not stream.reader.at_eof():
                return stream
            stream.close()
        return None

    async def _connect(self, limit: int = STREAM_BYTES) -> MessageStream:
        server = urlsplit(self._credentials.server)
        tls = self._credentials.ssl_context if server.scheme == "https" else None
        name = (self._credentials.server_hostname or server.hostname) if tls else None
        port = server.port or (443 if tls else 80)
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(
                    server.hostname, port, ssl=tls, server_hostname=name, limit=limit
                )
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            _log.debug("Cannot connect to the host", extra={"reason": str(error)})
            raise _unreachable() from error
        keep_alive(writer.get_extra_info("socket"))
        return MessageStream(h11.CLIENT, reader, writer)

    async def _exchange(self, request: HostRequest, stream: MessageStream) -> HostAnswer:
        is_patient = request.is_long or request.is_upgrade
        silence_s = None if is_patient else self._answer_s
        try:
            async with asyncio.timeout(silence_s):
                stream.write(self._head(request))
                if request.body:
                    stream.write(h11.Data(data=request.body))
                await stream.send(h11.EndOfMessage())
                head = await _answer_head(stream)
        except BaseException as error:
            stream.abort()
            if isinstance(error, TimeoutError):
                raise _too_late() from error
            if isinstance(error, BROKEN):
                raise _unreachable() from error
            raise
        if head.status_code == 401:
            self._suspect()
        return HostAnswer(head, stream, silence_s)

    def _head(self, request: HostRequest) -> h11.Request:
        server = urlsplit(self._credentials.server)
        headers: Headers = [(b"host", server.netloc.encode())]
        headers += [
            (name.encode(), value.encode())
            for name, value in self._credentials.authorization().items()
        ]
        headers += request.headers
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            headers.append((b"content-length", str(len(request.body)).encode()))
        target = server.path.rstrip("/") + request.target
        return h11.Request(method=request.method, target=target, headers=headers)

    def _give_back(self, cluster: str, stream: MessageStream, *, is_kept: bool) -> None:
        if not is_kept or len(self._kept[cluster]) >= KEPT:
            stream.close()
            return
        with suppress(h11.ProtocolError):
            stream.state.start_next_cycle()
            self._kept[cluster].append(stream)


async def _answer_head(stream: MessageStream) -> h11.Response | h11.InformationalResponse:
    """Return the head of an answer; what is only informational is not passed on, but a 101."""
    while isinstance(event := await stream.next_event(), h11.Response | h11.InformationalResponse):
        if isinstance(event, h11.Response) or event.status_code == 101:
            return event
    raise h11.RemoteProtocolError("the connection was closed without an answer")


def _unreachable() -> RefusalError:
    return RefusalError(503, "the API server of the cluster does not answer", counted="host-away")


def _too_late() -> RefusalError:
    return RefusalError(
        504, "the API server of the cluster did not answer in time", counted="host-late"
    )


_CONDITIONAL = frozenset({b"if-none-match", b"if-modified-since", b"range"})
"""What depends on the bytes of the host: passed on where those are untouched."""
_OF_THE_CONNECTION = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade content-length date".split()
)
_OF_THE_HOST = frozenset({b"audit-id", b"set-cookie", b"server", b"alt-svc"})
_FLOW_CONTROL = b"x-kubernetes-pf-"
_OF_MAPPED = frozenset({b"content-type", b"cache-control", b"retry-after"})
"""What still holds once a body was mapped."""
_WARNING, _LOCATION = b"warning", b"location"

MapText = Callable[[str], str]


def to_host(head: Head, forward: Forward, who: Caller) -> Headers:
    """Return the headers of a request to the host, all but Host, length and our own token."""
    is_opaque = forward.response.kind is ResponseKind.OPAQUE
    accept = forward.accept or ("*/*" if is_opaque else JSON)
    headers: Headers = [(b"accept", accept.encode("latin-1")), (b"accept-encoding", b"identity")]
    if forward.content_type:
        headers.append((b"content-type", forward.content_type.encode("latin-1")))
    passed = PASSED_ON if is_opaque else PASSED_ON - _CONDITIONAL
    if head.is_upgrade:
        passed |= UPGRADE_HEADERS
        headers.append((b"connection", b"Upgrade"))
    headers += [(name, value) for name, value in head.headers if name in passed]
    if not forward.as_gateway:
        headers += impersonating(who)
    return headers


def impersonating(who: Caller) -> Headers:
    """Return the headers by which the host takes a request for the client's."""
    groups = [(b"impersonate-group", group.encode()) for group in who.host_groups]
    return [(b"impersonate-user", who.host_user.encode()), *groups]


def to_client(headers: Headers, map_text: MapText, *, is_mapped: bool) -> list[tuple[str, str]]:
    """Return the headers of an answer. map_text: maps names of the host in texts (G-48)."""
    passed = []
    for name, raw in headers:
        if name in _OF_THE_CONNECTION or name in _OF_THE_HOST or name.startswith(_FLOW_CONTROL):
            continue
        value = raw.decode("latin-1")
        if name in (_WARNING, _LOCATION):
            value = map_text(value)
        elif is_mapped and name not in _OF_MAPPED:
            continue
        passed.append((name.decode().title(), value))
    return passed


TUNNEL_LINGER_S = 5.0
"""How long one direction may go on after the other one ended (G-61)."""
_HOP = frozenset({b"content-length", b"transfer-encoding"})


async def tunnel(exchange: Exchange, answer: HostAnswer) -> None:
    """Send the head of a 101 on, then copy bytes until both ends end. Raises ClientGoneError."""
    client, host = exchange.stream, answer.stream
    head = h11.InformationalResponse(
        status_code=101,
        headers=[(name, value) for name, value in answer.headers if name not in _HOP],
        reason=b"Switching Protocols",
    )
    exchange.has_begun, exchange.record.code = True, 101
    try:
        client.write(head)
        # What was read behind the heads belongs to the tunnel.
        client.writer.write(host.state.trailing_data[0])
        host.writer.write(client.state.trailing_data[0])
        await client.writer.drain()
        await host.writer.drain()
    except BROKEN as error:
        raise ClientGoneError from error
    exchange.record.bytes_out += len(host.state.trailing_data[0])

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy until the end of the input, and pass the end on where the transport can."""
        with suppress(*BROKEN):
            while data := await reader.read(READ_BYTES):
                writer.write(data)
                exchange.record.bytes_out += len(data) if writer is client.writer else 0
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()

    up = asyncio.create_task(copy(client.reader, host.writer))
    down = asyncio.create_task(copy(host.reader, client.writer))
    try:
        await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((up, down), timeout=TUNNEL_LINGER_S)
    finally:
        for task in (up, down):
            task.cancel()
        await asyncio.gather(up, down, return_exceptions=True)
        with suppress(*BROKEN):
            async with asyncio.timeout(TUNNEL_LINGER_S):
                await client.writer.drain()
        client.close()
        host.close()
