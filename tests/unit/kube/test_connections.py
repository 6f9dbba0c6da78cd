"""Connections: what each of them costs."""

import asyncio
import ssl
import tracemalloc
from asyncio.sslproto import SSLProtocol

import pytest

from karmada_vc_agent.kube.new_keys import serving_context
from karmada_vc_agent.kube.transport import TLS_BUFFER_BYTES, limit_tls_buffers

CONNECTIONS = 20


async def test_tls_connection_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch each for namespaces and Works: a hundred of them are nothing special."""
    monkeypatch.setattr(SSLProtocol, "max_size", SSLProtocol.max_size)
    limit_tls_buffers()
    server = await asyncio.start_server(_until_closed, "127.0.0.1", 0, ssl=serving_context())
    port = server.sockets[0].getsockname()[1]
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
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
    assert taken / (2 * CONNECTIONS) < TLS_BUFFER_BYTES + 32 * 1024


async def _until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()
