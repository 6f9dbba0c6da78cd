"""A server that ends TLS before the hub, with certificates as a test wants them."""

import asyncio
import base64
import contextlib
import datetime as dt
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

from control_planes.pki import LIFETIME, Authority
from karmada_vc_agent.kube.transport import make_ssl_context

CHUNK = 65536
STOP_S = 5.0
SETTLES_S = 0.3
"""Until handshakes that had begun are over, so that no connection is left without a task."""


def show_certificate(
    context: ssl.SSLContext,
    directory: Path,
    authority: Authority,
    lifetime: dt.timedelta = LIFETIME,
) -> None:
    """Have a server show a new certificate from now on; its file is in the directory."""
    pair = authority.issue_server(lifetime=lifetime)
    chain = directory / "server.pem"
    chain.write_bytes(pair.certificate + pair.key)
    context.load_cert_chain(chain)


class TlsFront:
    """Asks the server of a kubeconfig as its user, for all who connect; `server` leads here."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        content: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
        (cluster,), (user,) = content["clusters"], content["users"]
        self._target = urlsplit(cluster["cluster"]["server"])
        names = ("client-certificate-data", "client-key-data")
        certificate, key = (base64.b64decode(user["user"][name]) for name in names)
        ca = base64.b64decode(cluster["cluster"]["certificate-authority-data"]).decode()
        self._outwards = make_ssl_context(ca, (certificate, key), verify=True)
        self._inwards = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._directory = directory
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._port = 0

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        self._port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    def use(self, authority: Authority, lifetime: dt.timedelta = LIFETIME) -> None:
        """Show a new certificate from now on; connections there are end."""
        show_certificate(self._inwards, self._directory, authority, lifetime)
        self._loop.call_soon_threadsafe(self._end_all)

    def changed(self, chunk: bytes) -> bytes:
        """Return a piece of an answer as clients get it."""
        return chunk

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._inwards)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _stop(self) -> None:
        """Listen no more, and end whoever is served."""
        assert self._server is not None
        self._server.close()
        await asyncio.sleep(SETTLES_S)
        for writer in list(self._open):
            writer.transport.abort()
        served = asyncio.all_tasks() - {asyncio.current_task()}
        if served:
            await asyncio.wait(served, timeout=STOP_S)
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)

    def _end_all(self) -> None:
        for writer in list(self._open):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            with contextlib.suppress(OSError):
                there, back = await asyncio.open_connection(
                    self._target.hostname, self._target.port, ssl=self._outwards
                )
                self._open.add(back)
                try:
                    answers = _copy(there, writer, self.changed)
                    await asyncio.gather(_copy(reader, back), answers)
                finally:
                    self._open.discard(back)
        finally:
            self._open.discard(writer)
            writer.transport.abort()


async def _copy(
    source: asyncio.StreamReader,
    target: asyncio.StreamWriter,
    change: Callable[[bytes], bytes] = bytes,
) -> None:
    """Carry one direction until it ends; then both connections do."""
    with contextlib.suppress(OSError):
        while chunk := await source.read(CHUNK):
            target.write(change(chunk))
            await target.drain()
    target.transport.abort()


def lead(kubeconfig: Path, server: str, authority: Authority) -> None:
    """Have a kubeconfig name this server, and trust this authority."""
    content: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    ca = base64.b64encode(authority.key_pair.certificate).decode()
    for entry in content["clusters"]:
        entry["cluster"] |= {"server": server, "certificate-authority-data": ca}
    kubeconfig.write_text(yaml.safe_dump(content))
