"""Listens for clients over TLS 1.3, and knows all connections to end them in good order."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress

import h11

from karmada_vc_agent.features.gateway.server.connection import Connection, Handle
from karmada_vc_agent.features.gateway.server.http_messages import STREAM_BYTES, MessageStream
from karmada_vc_agent.kube.connections import keep_alive
from karmada_vc_agent.telemetry.bounded_site import Door
from karmada_vc_agent.telemetry.handshakes import Handshakes

_log = logging.getLogger(__name__)

HANDSHAKE_S = 10.0
WAITING = 1024
"""Connections that may wait for a handshake or a request; a further one ends the oldest."""
BACKLOG = 512


class Listener:
    """Accepts connections and serves each in a task of its own."""

    def __init__(self, tls: ssl.SSLContext, handle: Handle, waiting: int = WAITING) -> None:
        self._tls = tls
        self._handle = handle
        self._most_waiting = waiting
        self._server: asyncio.Server | None = None
        self._handshakes = Handshakes(self._shake_hands)
        self._connections: dict[Connection, asyncio.Task[None]] = {}

    async def start(self, host: str | None, port: int) -> int:
        """Listen; return the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Door(self._enter), host, port, backlog=BACKLOG
        )
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def stop(self, grace_s: float, end_long: Callable[[], None]) -> None:
        """Accept nothing more; let what is being answered end, then cut the rest.

        end_long: ends watches in good order.
        """
        if self._server is not None:
            self._server.close()
        self._handshakes.end_all()
        for connection in list(self._connections):
            connection.end()
        end_long()
        tasks = set(self._connections.values())
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        for connection, task in list(self._connections.items()):
            connection.abort()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def count(self) -> int:
        """Return the number of connections, with handshakes."""
        return len(self._connections) + len(self._handshakes)

    def _enter(self, transport: asyncio.Transport) -> None:
        self._make_room()
        self._handshakes.begin(transport)

    def _make_room(self) -> None:
        """End the oldest connection that waits, if there are too many of them."""
        waiting = [each for each in self._connections if each.is_waiting]
        if len(waiting) + len(self._handshakes) < self._most_waiting:
            return
        if not self._handshakes.end_oldest():
            waiting[0].abort()

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=STREAM_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        try:
            with suppress(OSError):
                keep_alive(transport.get_extra_info("socket"))
            secured = await loop.start_tls(
                transport, protocol, self._tls, server_side=True, ssl_handshake_timeout=HANDSHAKE_S
            )
        except OSError:
            return  # what has to be said to a client that speaks no TLS?
        if secured is None:
            return
        protocol.connection_made(secured)
        writer = asyncio.StreamWriter(secured, protocol, reader, loop)
        connection = Connection(MessageStream(h11.SERVER, reader, writer), self._handle)
        task = loop.create_task(self._serve(connection))
        self._connections[connection] = task

    async def _serve(self, connection: Connection) -> None:
        try:
            await connection.run()
        except Exception:  # noqa: BLE001 - one client must not cost the others
            _log.exception("Failed to serve a connection")
        finally:
            self._connections.pop(connection, None)
