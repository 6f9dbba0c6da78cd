"""HTTP messages: streams of h11, heads of requests.

Nothing of a head is passed on as it is, but the headers of PASSED_ON and UPGRADE_HEADERS.
"""

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Iterable

import h11
import msgspec

from karmada_vc_agent.features.gateway.identity import Impersonation
from karmada_vc_agent.features.gateway.mapping.refusals import RefusalError

READ_BYTES = 64 * 1024
HEAD_BYTES = 64 * 1024
STREAM_BYTES = 128 * 1024
"""A StreamReader stops reading at twice this much (G-62)."""


_Next = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]


class MessageStream:
    """Events of h11 to and from one connection; role: h11.SERVER or h11.CLIENT.

    Raises h11.RemoteProtocolError for what is no HTTP, OSError where the connection broke.
    """

    def __init__(
        self,
        role: type[h11.CLIENT] | type[h11.SERVER],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.reader = reader
        self.writer = writer
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
                yield b"".join(chunks)
            if isinstance(event, h11.EndOfMessage):
                return
            if event is not h11.NEED_DATA:
                raise h11.RemoteProtocolError("the connection was closed within a body")

    @property
    def is_done(self) -> bool:
        """Whether both sides have ended their messages, so that others may follow."""
        return self.state.our_state is h11.DONE and self.state.their_state is h11.DONE

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

PATH_PREFIX = "/virtualclusters/"
"""What each path begins with; then follows the name of a virtual cluster, and a slash."""
_CLUSTER = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_TARGET = re.compile(rb"/[\x21\x22\x24-\x7e]*")
"""A path with its query: no scheme, no host, no fragment, nothing that is no visible ASCII."""
_PROTOCOLS = b"sec-websocket-protocol"
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
        return ", ".join(value.decode("latin-1") for key, value in self.headers if key == name)


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
    target, _, query = request.target.decode("ascii").partition("?")
    cluster, path = _split_target(target)
    token, headers = _without_token_protocol(headers)
    return Head(
        method=request.method.decode("ascii"),
        cluster=cluster,
        path=path,
        query=query,
        headers=headers,
        token=_bearer(headers) or token,
        is_upgrade=_is_upgrade(headers),
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


def _split_target(target: str) -> tuple[str, str]:
    """Return the virtual cluster, "" for what names none, and the path below it."""
    rest = target.removeprefix(PATH_PREFIX)
    if rest == target:
        return "", target
    cluster, slash, path = rest.partition("/")
    if not _CLUSTER.fullmatch(cluster):
        return "", target
    return cluster, slash + path or "/"


def _bearer(headers: Headers) -> str:
    """Return the token of the header Authorization; Karmada writes its scheme in lower case."""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, token = value.decode("latin-1").partition(" ")
            return token.strip() if scheme.lower() == "bearer" else ""
    return ""


def _is_upgrade(headers: Headers) -> bool:
    """Whether `upgrade` is among the options of Connection, in any case (G-60)."""
    options = (
        option.strip().lower()
        for name, value in headers
        if name == b"connection"
        for option in value.split(b",")
    )
    return b"upgrade" in options


def _without_token_protocol(headers: Headers) -> tuple[str, Headers]:
    """Take a token out of the protocols of a WebSocket, where browsers put it (G-11)."""
    token, kept = "", []
    for name, value in headers:
        if name != _PROTOCOLS:
            kept.append((name, value))
            continue
        protocols = [part.strip() for part in value.decode("latin-1").split(",")]
        left = [part for part in protocols if not part.startswith(_TOKEN_PROTOCOL)]
        for part in protocols:
            if part.startswith(_TOKEN_PROTOCOL):
                text = part.removeprefix(_TOKEN_PROTOCOL)
                try:
                    token = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
                except ValueError:  # a binascii.Error is one
                    token = ""
        if left:
            kept.append((name, ", ".join(left).encode("latin-1")))
    return token, kept
