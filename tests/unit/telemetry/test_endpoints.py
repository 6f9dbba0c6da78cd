"""Endpoints: addresses, paths, and answers of now."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import closing
from typing import NamedTuple

import aiohttp
import pytest
from aiohttp import web

from karmada_vc_agent.kube.flows import ENDPOINT_CONNECTIONS as MOST
from karmada_vc_agent.kube.new_keys import serving_context
from karmada_vc_agent.telemetry import endpoints
from karmada_vc_agent.telemetry.endpoints import health_routes, is_local, metrics_routes, serve
from tests.fakes.bursts import burst, still_open


async def one_sample() -> bytes:
    return b"a 1\n"


@pytest.fixture
def ready() -> dict[str, str | None]:
    return {"hub": None}


@pytest.fixture
async def address(ready: dict[str, str | None]) -> AsyncIterator[str]:
    port = _free_port()
    routes = health_routes(lambda: {"leases": None}, lambda: ready)
    routes |= metrics_routes(one_sample)
    runner = await serve(f"127.0.0.1:{port}", routes)
    assert runner is not None
    yield f"http://127.0.0.1:{port}"
    await runner.cleanup()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


async def ask(url: str) -> tuple[int, str, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text(), response.headers["Content-Type"]


@pytest.mark.parametrize("path", ["healthz", "livez", "readyz", "healthz/ping", "readyz/hub"])
async def test_health_is_ok(address: str, path: str) -> None:
    assert (await ask(f"{address}/{path}"))[:2] == (200, "ok")


async def test_readiness_is_checked_at_each_request(
    address: str, ready: dict[str, str | None]
) -> None:
    ready["hub"] = "away"
    status, text, _ = await ask(f"{address}/readyz")
    assert (status, "[-]hub failed: away" in text) == (500, True)
    assert (await ask(f"{address}/readyz?exclude=hub"))[0] == 200
    assert (await ask(f"{address}/healthz"))[0] == 200
    ready["hub"] = None
    assert (await ask(f"{address}/readyz"))[0] == 200


async def test_verbose_names_the_checks(address: str) -> None:
    _, text, _ = await ask(f"{address}/healthz?verbose")
    assert text == "[+]ping ok\n[+]leases ok\nhealthz check passed\n"


async def test_unknown_check_returns_404(address: str) -> None:
    assert (await ask(f"{address}/healthz/none"))[0] == 404


async def test_metrics_come_in_the_format_of_prometheus(address: str) -> None:
    status, text, kind = await ask(f"{address}/metrics")
    assert (status, text) == (200, "a 1\n")
    assert kind == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize("address", ["0", ""])
async def test_nowhere_is_an_address(address: str) -> None:
    assert await serve(address, {}) is None


async def test_address_in_use_is_an_error(address: str) -> None:
    with pytest.raises(OSError, match="in use"):
        await serve(address.removeprefix("http://"), {})


class Bounded(NamedTuple):
    """An endpoint where `/slow` is answered late; tls: how a client secures its connection."""

    port: int
    tls: ssl.SSLContext | None


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
async def bounded(request: pytest.FixtureRequest) -> AsyncIterator[Bounded]:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    port = _free_port()
    tls = serving_context() if request.param else None
    routes = metrics_routes(one_sample) | {"/slow": slow}
    runner = await serve(f"127.0.0.1:{port}", routes, tls)
    assert runner is not None
    client = ssl.create_default_context() if request.param else None
    if client is not None:
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    yield Bounded(port, client)
    await runner.cleanup()


async def connected(
    port: int, tls: ssl.SSLContext | None, request: bytes
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    writer.write(request)
    await writer.drain()
    return reader, writer


METRICS = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
SLOW = b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    "said", [b"", b"GET /metr", METRICS, SLOW], ids=["nothing", "half", "one", "slow"]
)
async def test_oldest_connection_is_closed_for_a_new_one(bounded: Bounded, said: bytes) -> None:
    opened = [await connected(bounded.port, bounded.tls, said) for _ in range(MOST)]
    opened.append(await connected(bounded.port, bounded.tls, METRICS))
    assert b"200 OK" in await opened[-1][0].readline()
    assert await is_closed(opened[0][0])
    assert not any([await is_closed(other) for other, _ in opened[1:]])
    close(opened)


async def answer_of(bounded: Bounded) -> str:
    try:
        reader, writer = await connected(bounded.port, bounded.tls, METRICS)
    except OSError:
        return "refused"
    with closing(writer):
        return (await reader.readline()).split()[1].decode()


async def test_unfinished_handshake_frees_its_slot(bounded: Bounded) -> None:
    silent = [await connected(bounded.port, None, b"") for _ in range(3 * MOST)]
    assert await answer_of(bounded) == "200"
    assert sum([await is_closed(other) for other, _ in silent]) == 2 * MOST + 1
    close(silent)


async def test_simultaneous_connections_free_slots_too(bounded: Bounded) -> None:
    with burst(bounded.port, 3 * MOST) as opened:
        assert await still_open(opened) <= MOST
        assert await answer_of(bounded) == "200"


def close(opened: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
    for _, writer in opened:
        writer.close()


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Whether the other side closed a connection, whatever it had said before."""
    try:
        async with asyncio.timeout(0.05):
            while await reader.read(10_000):
                pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


async def test_connection_without_a_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "IDLE_S", 0.2)
    port = _free_port()
    runner = await serve(f"127.0.0.1:{port}", metrics_routes(one_sample))
    assert runner is not None
    opened = [await connected(port, None, said) for said in (b"", b"GET /metr", METRICS)]
    await asyncio.sleep(1.0)
    assert all([await is_closed(reader) for reader, _ in opened])
    close(opened)
    await runner.cleanup()


@pytest.mark.parametrize(
    ("header", "expected"), [("Bearer a", 200), ("Bearer b", 403), (None, 401)]
)
async def test_metrics_are_for_whom_is_admitted(header: str | None, expected: int) -> None:
    async def admission(authorization: str) -> tuple[int, str] | None:
        refusals = {"": (401, "who are you?"), "Bearer b": (403, "not you")}
        return refusals.get(authorization)

    port = _free_port()
    tls = serving_context()
    runner = await serve(f"127.0.0.1:{port}", metrics_routes(one_sample, admission), tls)
    assert runner is not None
    headers = {"Authorization": header} if header else {}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"https://127.0.0.1:{port}/metrics", ssl=False) as response,
    ):
        text = await response.text()
        assert response.status == expected
        assert ("a 1" in text) == (expected == 200)
        assert ("WWW-Authenticate" in response.headers) == (expected == 401)
    with pytest.raises(aiohttp.ClientError):
        await ask(f"http://127.0.0.1:{port}/metrics")
    await runner.cleanup()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        *(("127.0.0.1:1", True), ("[::1]:1", True), ("localhost:1", True), ("0", True)),
        *((":1", False), ("0.0.0.0:1", False), ("[::]:1", False), ("10.0.0.1:1", False)),
    ],
)
def test_is_local(address: str, *, expected: bool) -> None:
    assert is_local(address) == expected
