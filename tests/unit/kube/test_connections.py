"""Connections: what each of them costs, and whom they trust."""

import asyncio
import random
import ssl
import tracemalloc
from asyncio import sslproto
from asyncio.sslproto import SSLProtocol
from contextlib import suppress

import pytest

from karmada_vc_agent.kube.new_keys import serving_context
from karmada_vc_agent.kube.transport import (
    TLS_BUFFER_BYTES,
    limit_tls_buffers,
    make_ssl_context,
)

CONNECTIONS = 20
CONNECTION_BYTES = 16 * 1024
RECORD_BYTES = 16 * 1024


@pytest.fixture(autouse=True)
def _limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SSLProtocol, "max_size", SSLProtocol.max_size)
    monkeypatch.setattr(sslproto, "SSLProtocol", SSLProtocol)
    limit_tls_buffers()


def trusting_context() -> ssl.SSLContext:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    return trusting


async def test_tls_connection_takes_little_memory() -> None:
    """A watch each for namespaces and Works: a hundred of them are nothing special."""
    server = await asyncio.start_server(_until_closed, "127.0.0.1", 0, ssl=serving_context())
    port = server.sockets[0].getsockname()[1]
    trusting = trusting_context()
    _, first = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
    first.close()
    tracemalloc.start()
    opened = [
        await asyncio.open_connection("127.0.0.1", port, ssl=trusting) for _ in range(CONNECTIONS)
    ]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for _, writer in opened:
        writer.close()
        await writer.wait_closed()
    server.close()
    assert taken / (2 * CONNECTIONS) < CONNECTION_BYTES


async def test_what_is_not_read_or_not_sent_yet_is_bounded() -> None:
    """A server sends to a client that does not read: both hold little of it, and lose none."""
    accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def send(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.put_nowait(writer)
        with suppress(ConnectionError):
            while True:
                writer.write(b"x" * RECORD_BYTES)
                await writer.drain()

    async with await asyncio.start_server(send, "127.0.0.1", 0, ssl=serving_context()) as server:
        port, trusting = server.sockets[0].getsockname()[1], trusting_context()
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting, limit=1024)
        sender = (await accepted.get()).transport
        theirs, ours = (each._ssl_protocol for each in (sender, writer.transport))  # type: ignore[attr-defined]
        while not (theirs._app_writing_paused and ours._ssl_reading_paused):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert ours._get_read_buffer_size() <= 2 * TLS_BUFFER_BYTES
        assert theirs._get_write_buffer_size() <= TLS_BUFFER_BYTES + 2 * RECORD_BYTES
        for size in range(1, 2 * TLS_BUFFER_BYTES, 997):
            assert await reader.readexactly(size) == b"x" * size
        sender.abort()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def test_connections_that_share_a_buffer_receive_what_was_sent_to_them() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while content := await reader.read(2**20):
            writer.write(content)
            await writer.drain()
        writer.close()

    async def exchange(number: int) -> None:
        rng = random.Random(number)  # noqa: S311 - the same each time
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        for _ in range(20):
            sent = rng.randbytes(rng.randrange(1, 200_000))
            writer.write(sent)
            assert await reader.readexactly(len(sent)) == sent
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(echo, "127.0.0.1", 0, ssl=serving_context()) as server:
        port, trusting = server.sockets[0].getsockname()[1], trusting_context()
        await asyncio.gather(*map(exchange, range(10)))


async def _until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@pytest.mark.parametrize("verify", [True, False])
def test_no_more_is_required_of_certificates_than_go_requires(
    monkeypatch: pytest.MonkeyPatch, *, verify: bool
) -> None:
    """Python 3.13 refuses the certificates of an API server that have no key identifiers."""

    def of_python_3_13(cadata: str | None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VERIFY_X509_STRICT
        assert cadata is None
        return context

    monkeypatch.setattr(ssl, "create_default_context", of_python_3_13)
    context = make_ssl_context(None, None, verify=verify)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN
    assert context.check_hostname is verify
