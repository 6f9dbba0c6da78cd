"""Endpoints: addresses, paths, and answers of now."""

import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from karmada_vc_agent.telemetry.endpoints import health_routes, metrics_routes, serve


@pytest.fixture
def ready() -> dict[str, str | None]:
    return {"hub": None}


@pytest.fixture
async def address(ready: dict[str, str | None]) -> AsyncIterator[str]:
    port = _free_port()
    routes = health_routes(lambda: {"leases": None}, lambda: ready)
    routes |= metrics_routes(lambda: b"a 1\n")
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


async def test_readiness_is_asked_at_each_request(
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


async def test_unknown_check_is_not_found(address: str) -> None:
    assert (await ask(f"{address}/healthz/none"))[0] == 404


async def test_metrics_come_in_the_format_of_prometheus(address: str) -> None:
    status, text, kind = await ask(f"{address}/metrics")
    assert (status, text) == (200, "a 1\n")
    assert kind == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize("address", ["0", ""])
async def test_nowhere_is_an_address(address: str) -> None:
    assert await serve(address, {}) is None


@pytest.mark.parametrize("address", ["8080", "host:", ":http"])
async def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"is no address; write host:port, :port, or 0"):
        await serve(address, {})


async def test_address_in_use_is_an_error(address: str) -> None:
    with pytest.raises(OSError, match="in use"):
        await serve(address.removeprefix("http://"), {})
