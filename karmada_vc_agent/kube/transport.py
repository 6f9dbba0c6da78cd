"""HTTP of one API server: credentials, names, connections, bodies."""

import asyncio
import os
import socket
import ssl
import tempfile
import threading
from asyncio import sslproto
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from aiohttp.abc import AbstractResolver, ResolveResult

from karmada_vc_agent.kube import codec
from karmada_vc_agent.kube.errors import TooLargeError, UnreadableError, UnwritableError, need_of
from karmada_vc_agent.kube.flows import in_daemon_thread
from karmada_vc_agent.kube.store import is_of_storage
from karmada_vc_agent.model.objects import Object, dig


@dataclass(frozen=True, slots=True)
class Credentials:
    """An API server and the identity to use; created by kubeconfig.py.

    server: URL without a trailing slash. token: returns the bearer token, or None. source: the file
    or account, for messages. kubeconfig, context: to read them again. suspect: called when the
    server rejects the credential. is_outdated: whether to read them again although the file is the
    same. certificate: the client certificate of the file with its chain, in PEM.
    """

    server: str
    ssl_context: ssl.SSLContext | None
    source: str
    token: Callable[[], str | None] = lambda: None
    server_hostname: str | None = None
    proxy: str | None = None
    kubeconfig: Path | None = None
    context: str = ""
    suspect: Callable[[], None] = lambda: None
    is_outdated: Callable[[], bool] = lambda: False
    certificate: bytes | None = None

    def authorization(self) -> dict[str, str]:
        token = self.token()
        return {"Authorization": f"Bearer {token}"} if token else {}


def trusting(ca_pem: str | None) -> ssl.SSLContext:
    """Return a client context; None = what this machine trusts. Raises ssl.SSLError, ValueError."""
    context = ssl.create_default_context(cadata=ca_pem)  # noqa: TID251 - the one
    # Python 3.13 requires more of certificates than Go, which these are made for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def make_ssl_context(
    ca_pem: str | None, certificate: tuple[bytes, bytes] | None, *, verify: bool
) -> ssl.SSLContext:
    """Return a client context; certificate = (chain, key) in PEM. Raises ssl.SSLError."""
    context = trusting(ca_pem)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        # The ssl module reads key material from files only.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "client.pem")
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(b"\n".join(certificate))
            context.load_cert_chain(path)
    return context


NAMES_AT_ONCE = 16
"""Names that are resolved at the same time, each in a thread; a client has one, webhooks more."""

_Addresses = list[tuple[Any, ...]]
_Name = tuple[str, int, socket.AddressFamily]


class Resolver(AbstractResolver):
    """Resolves each name in one thread of its own, for at most timeout_s.

    The pool of the event loop has few threads: a dead name server would hold up all that uses them.
    """

    def __init__(
        self, timeout_s: float, getaddrinfo: Callable[..., _Addresses] = socket.getaddrinfo
    ) -> None:
        self._timeout_s = timeout_s
        self._getaddrinfo = getaddrinfo
        self._running: dict[_Name, Future[_Addresses]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        name = (host, port, family)
        running = self._running.get(name)
        if running is None:
            if len(self._running) >= NAMES_AT_ONCE:
                text = f"{host} was not resolved: {NAMES_AT_ONCE} other names are in progress"
                raise OSError(text)
            options = {"type": socket.SOCK_STREAM, "family": family, "flags": socket.AI_ADDRCONFIG}
            look_up = partial(self._getaddrinfo, host, port, **options)
            try:
                running = self._running[name] = in_daemon_thread(look_up, f"resolve {host}")
            except RuntimeError as error:
                raise OSError(f"{host} was not resolved: {error}") from error
            running.add_done_callback(lambda _: self._running.pop(name, None))
        try:
            async with asyncio.timeout(self._timeout_s):
                # A thread cannot be stopped: after a time-out the next request waits for it.
                addresses = await asyncio.wrap_future(running)
        except TimeoutError as error:
            raise OSError(f"{host} was not resolved within {self._timeout_s:g} s") from error
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(
                hostname=host, host=at[0], port=int(at[1]), family=of, proto=proto, flags=flags
            )
            for of, _, proto, _, at in addresses
        ]

    async def close(self) -> None:
        """Do nothing: threads end with their names."""


KEPT_OPEN_S, TLS_BUFFER_BYTES = 75.0, 64 * 1024
"""The read buffer of TLS connections; asyncio has one of 256 KB for each of them."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The time-outs of a client, in seconds.

    connect_s: TCP and TLS together. silence_s, watch_silence_s: for the next byte; servers send a
    bookmark about every minute. request_s, list_s: for a whole response or page, against servers
    that drip. patience_s: in total, while a server answers 429 with Retry-After.
    """

    connect_s: float = 5.0
    silence_s: float = 30.0
    request_s: float = 120.0
    list_s: float = 600.0
    watch_silence_s: float = 150.0
    patience_s: float = 30.0


class ClientInstrument:
    """Hooks for the metrics of the requests to one API server; these do nothing."""

    def answered(self, method: str, code: str, took_s: float) -> None:
        """Count a request; code: HTTP status, or `<error>` without one."""

    def listed(self, path: str) -> None:
        """Count a list that starts."""

    def watched(self, path: str) -> None:
        """Count a watch that is opened."""

    def failed(self, path: str, part: str) -> None:
        """Count a bug at one object; part: watch, index, handler."""

    def unreadable(self, source: str, path: str, reasons: Mapping[str, str]) -> None:
        """Record the objects of one reflector that cannot be read now, and why."""


_buffers = threading.local()


class _SharedBuffer(SSLProtocol):
    """Has the read buffer of its thread: a loop receives into it, and at once takes all of it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        vars(self)["max_size"] = 0  # no buffer of its own
        super().__init__(*args, **options)
        del vars(self)["max_size"]
        # What is not sent, or not read, of each is as much; of asyncio itself 512 and 256 KiB.
        self._set_write_buffer_limits(self.max_size)  # type: ignore[attr-defined]
        # Up to 16 KiB stay unread until the rest of a record arrives: the low limit is above that.
        self._set_read_buffer_limits(self.max_size, self.max_size * 3 // 4)  # type: ignore[attr-defined]
        if len(getattr(_buffers, "view", b"")) != self.max_size:
            _buffers.view = memoryview(bytearray(self.max_size))
        self._ssl_buffer, self._ssl_buffer_view = _buffers.view.obj, _buffers.view


def limit_tls_buffers(size: int = TLS_BUFFER_BYTES) -> None:
    """Have the TLS connections of a thread share one buffer, in bytes, from now on."""
    SSLProtocol.max_size = size
    sslproto.SSLProtocol = _SharedBuffer  # type: ignore[misc]


def new_session(
    connections: int, resolver: Resolver, timeout: aiohttp.ClientTimeout, user_agent: str
) -> aiohttp.ClientSession:
    """Return a connection pool; connections = 0: unlimited."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=connections,
            resolver=resolver,
            keepalive_timeout=KEPT_OPEN_S,
            socket_factory=keepalive_socket,
        ),
        timeout=timeout,
        read_bufsize=TLS_BUFFER_BYTES,  # of each that is not read; twice, and one read more
        headers={"User-Agent": user_agent},
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def keepalive_socket(address: Any) -> socket.socket:
    """Create a socket that detects a dead connection after about 30 s, so that no watch hangs."""
    sock = socket.socket(*address[:3])
    keep_alive(sock)
    return sock


def keep_alive(sock: socket.socket) -> None:
    """Have a connection detected as dead after about 30 s."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 15),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 30_000),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


ANSWER_BYTES = 64 * 2**20
"""The largest response that is read; etcd stores no object above 1.5 MiB, pages are far smaller."""


def encode_body(body: Any) -> bytes | None:
    """Encode a body as JSON; None and bytes are not changed. Raises UnwritableError."""
    if body is None or isinstance(body, bytes):
        return body
    try:
        return orjson.dumps(body)
    except (TypeError, RecursionError) as error:  # nested too deep, or invalid Unicode
        raise UnwritableError(f"cannot be encoded as JSON: {error}") from error


def decode_object(content: bytes) -> Object:
    """Return the JSON object of a response. Raises UnreadableError."""
    try:
        answer, _ = codec.decode_json(content)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"the response is not JSON: {error}") from error
    if not isinstance(answer, dict):
        raise UnreadableError("the response is not a JSON object")
    return answer


def decode(content: bytes, path: str, *, or_status: bool = False) -> Object:
    """Decode a response. or_status: it may be a Status. Raises UnreadableError for a page."""
    obj, need = decode_object(content), need_of("GET", path)
    if need is None or (not need.resource.endswith("/status") and "/" in need.resource):
        return obj
    if not need.name:
        check_version(dig(obj, "metadata", "resourceVersion"))
    elif not (or_status and obj.get("kind") == "Status"):
        _check_name(obj, need.name)
    return obj


def decode_created(content: bytes, sent: Any) -> Object:
    """Decode the response to a create; reviews and subresources have no name."""
    obj = decode_object(content)
    name = dig(sent, "metadata", "name")
    if isinstance(name, str):
        _check_name(obj, name)
    return obj


def _check_name(obj: Object, name: str) -> None:
    if dig(obj, "metadata", "name") != name:
        raise UnreadableError(f"the response is not the object {name!r}")


def check_version(version: Any) -> None:
    """Raise UnreadableError for the version of what is no list, as of a page."""
    if not isinstance(version, str) or not is_of_storage(version):
        raise UnreadableError("the response is no list: it has no resourceVersion")


def check_success(status: int) -> None:
    """Raise UnreadableError for a status that says neither success nor an error."""
    if not 200 <= status < 300:
        raise UnreadableError(f"unexpected status {status}")


async def read_body(response: aiohttp.ClientResponse, most: int = ANSWER_BYTES) -> bytes:
    """Read a body. Raises TooLargeError if it has more bytes than `most`."""
    content = bytearray()
    async for part in response.content.iter_any():
        content += part
        if len(content) > most:
            raise TooLargeError(f"the response is larger than {most >> 20} MiB")
    return bytes(content)


async def read_lines(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    """Yield the non-empty lines of a body as they arrive. Raises UnreadableError."""
    parts: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            whole = b"".join((*parts, line))
            parts, size = [], 0
            if whole:
                yield whole
        parts.append(rest)
        size += len(rest)
        if size > ANSWER_BYTES:
            raise UnreadableError(f"a line is larger than {ANSWER_BYTES >> 20} MiB")
