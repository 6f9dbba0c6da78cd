"""A listening address that serves a bounded number of connections at once."""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from aiohttp import web

from karmada_vc_agent.kube import open_files

IDLE_S = 60.0
"""How long a connection may wait for a request; longer than most scrape intervals."""
HANDSHAKE_S = 10.0


class BoundedSite(web.BaseSite):
    """As `web.TCPSite`, but of so many connections. tls: None = in the clear.

    A client may open connections, send nothing on them, and leave the agent without files for its
    own. So a new connection above the bound replaces the oldest one: an answer takes milliseconds.
    """

    def __init__(
        self,
        runner: web.AppRunner,
        address: tuple[str | None, int],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(runner)
        self._address = address
        self._tls = tls
        self._most = open_files.endpoint_connections(open_files.allow_most())
        self._there: list[asyncio.Transport] = []
        self._shaking: set[asyncio.Task[asyncio.Transport | None]] = set()

    @property
    def name(self) -> str:
        """The address as text."""
        host, port = self._address
        return f"{host or ''}:{port}"

    async def start(self) -> None:
        """Begin to listen. Raises OSError."""
        await super().start()
        loop = asyncio.get_running_loop()
        host, port = self._address
        self._server = await loop.create_server(lambda: Door(self._enter), host, port)

    async def stop(self) -> None:
        """Listen no more."""
        await super().stop()
        for transport in self._there:
            transport.abort()

    def _enter(self, transport: asyncio.Transport) -> None:
        self._there = [each for each in self._there if not each.is_closing()]
        if len(self._there) >= self._most:
            self._there.pop(0).abort()
        self._there.append(transport)
        assert self._runner.server is not None  # noqa: S101 - set up before there is a site
        connection = self._runner.server()
        if self._tls is None:
            transport.set_protocol(connection)
            connection.connection_made(transport)
        else:
            transport.pause_reading()
            task = asyncio.create_task(shake_hands(transport, connection, self._tls))
            self._shaking.add(task)
            task.add_done_callback(self._shaking.discard)


async def shake_hands(
    transport: asyncio.Transport, protocol: asyncio.Protocol, tls: ssl.SSLContext
) -> asyncio.Transport | None:
    """Return the secured transport, connected to a protocol; None if the client speaks no TLS."""
    if transport.is_closing():
        return None  # others arrived in the same round of the loop
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        secured = await loop.start_tls(
            transport, protocol, tls, server_side=True, ssl_handshake_timeout=HANDSHAKE_S
        )
        if secured is not None:
            protocol.connection_made(secured)
        return secured
    return None


class Door(asyncio.Protocol):
    """Hands a connection on as soon as it is there."""

    def __init__(self, enter: Callable[[asyncio.Transport], None]) -> None:
        self._enter = enter

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._enter(cast(asyncio.Transport, transport))
