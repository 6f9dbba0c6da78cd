"""A listening address that serves a bounded number of connections at once.

Whoever reaches it may open connections, say nothing on them, and leave the agent without files
for its own. So where there are too many, a new connection takes the place of the oldest handshake,
or else of the oldest connection: an answer takes some milliseconds.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from aiohttp import web

from karmada_vc_agent.kube import open_files
from karmada_vc_agent.telemetry.handshakes import Handshakes

IDLE_S = 60.0
"""How long a connection may wait for a request; longer than most scrape intervals."""
HANDSHAKE_S = 10.0


class BoundedSite(web.BaseSite):
    """As `web.TCPSite`, but of so many connections. tls: None = in the clear."""

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
        self._handshakes = Handshakes(self._shake_hands)

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
        self._handshakes.end_all()

    def _enter(self, transport: asyncio.Transport) -> None:
        self._make_room()
        if self._tls is None:
            self._serve(transport)
        else:
            self._handshakes.begin(transport)

    def _make_room(self) -> None:
        """Close the oldest handshake or connection, if there are too many."""
        there = [each for each in self._handlers().connections if each.transport is not None]
        if len(there) + len(self._handshakes) < self._most or self._handshakes.end_oldest():
            return
        there[0].force_close()

    def _handlers(self) -> web.Server:
        assert self._runner.server is not None  # noqa: S101 - set up before there is a site
        return self._runner.server

    def _serve(self, transport: asyncio.Transport) -> None:
        connection = self._handlers()()
        transport.set_protocol(connection)
        connection.connection_made(transport)

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        connection = self._handlers()()
        loop, tls = asyncio.get_running_loop(), self._tls
        assert tls is not None  # noqa: S101 - without it there is no handshake
        with suppress(OSError):  # what has to be said of a client that speaks no TLS?
            secured = await loop.start_tls(
                transport, connection, tls, server_side=True, ssl_handshake_timeout=HANDSHAKE_S
            )
            if secured is not None:
                connection.connection_made(secured)


class Door(asyncio.Protocol):
    """Hands a connection on as soon as it is there."""

    def __init__(self, enter: Callable[[asyncio.Transport], None]) -> None:
        self._enter = enter

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._enter(cast(asyncio.Transport, transport))
