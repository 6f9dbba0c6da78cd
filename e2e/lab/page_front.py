"""A proxy that ends TLS and HTTP before an API server, and serves pages in its place."""

import asyncio
import contextlib
import ssl
import threading
from pathlib import Path
from typing import Any, NamedTuple, Self

import orjson
from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web

from control_planes.pki import Authority
from e2e.lab.tls_front import lead, show_certificate
from karmada_vc_agent.kube.kubeconfig import read_kubeconfig
from tests.fakes.pages import PageFault

AUTHORITY = Authority("pages")
_HOP_BY_HOP = frozenset(("connection", "host", "keep-alive", "transfer-encoding"))
_GROUPS_PATH = "/apis"
STOP_S = 0.5
"""For requests that are under way, watches among them; and until their connections are closed."""


class Fault(NamedTuple):
    """page: the response to each path that begins so. unlisted: groups that discovery lacks."""

    page: PageFault
    prefixes: tuple[str, ...] = ("/",)
    unlisted: tuple[str, ...] = ()


class PageFront:
    """Forwards all requests to the server of a kubeconfig as its user, unless a fault lasts.

    The kubeconfig names this proxy from its start on.
    """

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._inwards = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        show_certificate(self._inwards, directory, AUTHORITY)
        self._kubeconfig = kubeconfig
        self._target = read_kubeconfig(kubeconfig)
        self._fault: Fault | None = None
        self._open: set[asyncio.BaseTransport] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        lead(self._kubeconfig, f"https://127.0.0.1:{port}", AUTHORITY)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def begin(self, fault: Fault) -> None:
        """Respond so from now on, and end all connections, as the reload of a proxy does."""
        self._loop.call_soon_threadsafe(self._change, fault)

    def end(self) -> None:
        """Forward all requests again."""
        self._loop.call_soon_threadsafe(self._change, None)

    def _change(self, fault: Fault | None) -> None:
        self._fault = fault
        for transport in tuple(self._open):
            transport.close()

    async def _listen(self) -> int:
        connector = TCPConnector(ssl=self._target.ssl_context or True, limit=0)
        timeout = ClientTimeout(total=None)
        self._session = ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        server = web.Server(self._serve, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=STOP_S)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._inwards)
        await site.start()
        port: int = self._runner.addresses[0][1]
        return port

    async def _stop(self) -> None:
        self._change(None)
        await self._session.close()  # what is under way ends with the server's part of it
        await self._runner.cleanup()
        await asyncio.sleep(STOP_S)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        self._open.add(transport)
        try:
            fault = self._fault
            if fault is not None and request.path.startswith(fault.prefixes):
                await request.read()
                return web.Response(status=fault.page.code, body=fault.page.body)
            return await self._forward(request, fault.unlisted if fault is not None else ())
        finally:
            self._open.discard(transport)

    async def _forward(
        self, request: web.BaseRequest, unlisted: tuple[str, ...]
    ) -> web.StreamResponse:
        is_changed = bool(unlisted) and request.path == _GROUPS_PATH
        headers = {key: value for key, value in request.headers.items() if _is_kept(key)}
        if is_changed:
            headers = {"Accept": headers.get("Accept", "")} | self._target.authorization()
        async with self._session.request(
            request.method,
            self._target.server + request.path_qs,
            headers=headers,
            data=await request.read() or None,  # of none at all the client would name a type
        ) as answer:
            if is_changed:
                content = _without(orjson.loads(await answer.read()), unlisted)
                return web.Response(body=orjson.dumps(content), content_type=answer.content_type)
            response = web.StreamResponse(status=answer.status)
            response.headers.extend(
                (key, value) for key, value in answer.headers.items() if _is_kept(key)
            )
            await response.prepare(request)
            with contextlib.suppress(ClientError, ConnectionError):
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
            return response


def _is_kept(header: str) -> bool:
    return header.lower() not in _HOP_BY_HOP


def _without(document: Any, groups: tuple[str, ...]) -> Any:
    """Return a discovery document, aggregated or not, without some groups."""
    for field, name_of in (("groups", _name), ("items", _metadata_name)):
        if field in document:
            document[field] = [each for each in document[field] if name_of(each) not in groups]
    return document


def _name(group: Any) -> str:
    return str(group["name"])


def _metadata_name(group: Any) -> str:
    return str(group["metadata"]["name"])
