"""Tunnels for exec, attach, port-forward and other upgrades, whatever they speak (G-60, G-61)."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import h11

from karmada_vc_agent.features.gateway.server.connection import ClientGoneError, Exchange
from karmada_vc_agent.features.gateway.server.host_requests import HostAnswer
from karmada_vc_agent.features.gateway.server.http_messages import READ_BYTES

LINGER_S = 5.0
"""How long one direction may go on after the other one ended (G-61)."""
_HOP = frozenset({b"content-length", b"transfer-encoding"})
_BROKEN = (OSError, EOFError)


async def tunnel(exchange: Exchange, answer: HostAnswer, count: Callable[[int], object]) -> None:
    """Send the head of a 101 on, then copy bytes both ways until both ends are done.

    count: takes the number of bytes sent to the client. Raises ClientGoneError.
    """
    client, host = exchange.stream, answer.stream
    head = h11.InformationalResponse(
        status_code=101,
        headers=[(name, value) for name, value in answer.headers if name not in _HOP],
        reason=b"Switching Protocols",
    )
    exchange.has_begun = True
    try:
        client.write(head)
        # What was read behind the heads belongs to the tunnel.
        client.writer.write(host.state.trailing_data[0])
        host.writer.write(client.state.trailing_data[0])
        await client.writer.drain()
        await host.writer.drain()
    except (*_BROKEN, h11.LocalProtocolError) as error:
        raise ClientGoneError from error
    count(len(host.state.trailing_data[0]))
    up = asyncio.create_task(_copy(client.reader, host.writer, lambda _: None))
    down = asyncio.create_task(_copy(host.reader, client.writer, count))
    try:
        await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((up, down), timeout=LINGER_S)
    finally:
        for task in (up, down):
            task.cancel()
        await asyncio.gather(up, down, return_exceptions=True)
        with suppress(*_BROKEN, TimeoutError):
            async with asyncio.timeout(LINGER_S):
                await client.writer.drain()
        client.close()
        host.close()


async def _copy(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    count: Callable[[int], object],
) -> None:
    """Copy until the end of the input, and pass the end on where the transport can."""
    with suppress(*_BROKEN):
        while data := await reader.read(READ_BYTES):
            writer.write(data)
            count(len(data))
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
