"""The connections of a client: how long they may be silent, and how a cut line is noticed."""

import asyncio
import socket
from dataclasses import dataclass
from typing import Any

import aiohttp

KEPT_OPEN_S = 75.0


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a client waits, in seconds.

    connect_s: for TCP and TLS together. silence_s: for the next byte of an answer. request_s,
    list_s: for a whole answer and for a whole page of a list, however slowly they flow; only
    against servers that drip. watch_silence_s: for the next byte of a watch; servers send a
    bookmark about every minute. patience_s: in all, where a server answers 429 with a time.
    """

    connect_s: float = 5.0
    silence_s: float = 30.0
    request_s: float = 120.0
    list_s: float = 600.0
    watch_silence_s: float = 150.0
    patience_s: float = 30.0


def new_session(
    connections: int, timeout: aiohttp.ClientTimeout, headers: dict[str, str]
) -> aiohttp.ClientSession:
    """Return a pool of connections; connections = 0: as many as are asked for."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=connections,
            keepalive_timeout=KEPT_OPEN_S,
            socket_factory=_keepalive_socket,
            enable_cleanup_closed=False,
        ),
        timeout=timeout,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        raise_for_status=False,
    )


class Lane:
    """A pool of connections, and who may use it at once."""

    def __init__(
        self,
        connections: int,
        silence_s: float,
        total_s: float | None,
        timeouts: Timeouts,
        headers: dict[str, str],
    ) -> None:
        timeout = aiohttp.ClientTimeout(
            total=total_s, sock_connect=timeouts.connect_s, sock_read=silence_s
        )
        self.session = new_session(connections, timeout, headers)
        self.slots = asyncio.Semaphore(connections)


def _keepalive_socket(address: Any) -> socket.socket:
    """Make a socket that notices a cut line after about 30 s, so that no watch hangs for ever."""
    family, kind, protocol = address[0], address[1], address[2]
    sock = socket.socket(family, kind, protocol)
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
    return sock
