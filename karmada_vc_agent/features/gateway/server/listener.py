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
from karmada_vc_agent.telemetry.bounded_site import Door, shake_hands

_log = logging.getLogger(__name__)

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
        self._handshakes: dict[asyncio.Transport, asyncio.Task[None]] = {}
        self._connections: dict[Connection, asyncio.Task[None]] = {}

    async def start(self, host: str | None, port: int) -> int:
        """Listen; return the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Door(self._enter), host, port, backlog=BACKLOG
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self, grace_s: float, end_long: Callable[[], None]) -> None:
        """Accept nothing more; let what is being answered end, then cut the rest.

        end_long: ends watches in good order.
        """
        if self._server is not None:
            self._server.close()
        for transport, task in self._handshakes.items():
            task.cancel()
            transport.abort()
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
        self._end_oldest_waiting()
        transport.pause_reading()
        task = asyncio.get_running_loop().create_task(self._shake_hands(transport))
        self._handshakes[transport] = task

    def _end_oldest_waiting(self) -> None:
        """End the oldest connection that waits, if there are too many of them."""
        waiting = [each for each in self._connections if each.is_waiting]
        if len(waiting) + len(self._handshakes) < self._most_waiting:
            return
        oldest = next(iter(self._handshakes), None)
        if oldest is None:
            waiting[0].abort()
        else:
            self._handshakes.pop(oldest).cancel()
            oldest.abort()

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        try:
            await self._secure(transport)
        finally:
            self._handshakes.pop(transport, None)

    async def _secure(self, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=STREAM_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        with suppress(OSError):
            keep_alive(transport.get_extra_info("socket"))
        secured = await shake_hands(transport, protocol, self._tls)
        if secured is None:
            return
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
