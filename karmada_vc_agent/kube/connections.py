"""The connections of a client: timeouts, and detection of dead ones."""

import socket
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from karmada_vc_agent.kube.flows import FairSlots
from karmada_vc_agent.kube.resolver import Resolver

KEPT_OPEN_S = 75.0
PART_OF_OWN = 16
"""One of so many connections is of the agent itself alone, however many flows are slow."""
TLS_BUFFER_BYTES = 64 * 1024
"""The read buffer of each TLS connection.

It is filled with zeros, so all of it is memory from the start; asyncio's own 256 KB are a third of
what the agent takes with a hundred connections. A record of TLS has at most 16 KB.
"""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The time-outs of a client, in seconds.

    connect_s: for TCP and TLS together.
    silence_s: for the next byte of a response.
    request_s, list_s: for a whole response and for a whole page of a list, against servers that
    drip.
    watch_silence_s: for the next byte of a watch; servers send a bookmark about every minute.
    patience_s: in total, while a server answers 429 with Retry-After.
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


def limit_tls_buffers(size: int = TLS_BUFFER_BYTES) -> None:
    """Have the TLS connections of this process keep small buffers, in bytes, from now on."""
    SSLProtocol.max_size = size


class Lane:
    """A connection pool that flows share; connections = 0: unlimited."""

    def __init__(
        self,
        connections: int,
        silence_s: float,
        total_s: float | None,
        timeouts: Timeouts,
        headers: dict[str, str],
        resolver: Resolver,
        is_shared: Callable[[], bool],
    ) -> None:
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=connections,
                resolver=resolver,
                keepalive_timeout=KEPT_OPEN_S,
                socket_factory=keepalive_socket,
            ),
            timeout=aiohttp.ClientTimeout(
                total=total_s, sock_connect=timeouts.connect_s, sock_read=silence_s
            ),
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self.slots = FairSlots(connections, is_shared, connections // PART_OF_OWN)


def keepalive_socket(address: Any) -> socket.socket:
    """Create a socket that detects a dead connection after about 30 s, so that no watch hangs."""
    family, kind, protocol = address[0], address[1], address[2]
    sock = socket.socket(family, kind, protocol)
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
