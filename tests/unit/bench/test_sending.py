"""The bare client keeps the order of waves and chains, and stops at the first refusal."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bench import bare_client
from bench.bare_client import Chain, Request


class Server:
    """Remembers what was sent; refuses paths that end in `refused`."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, str]] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        agent, form = request.headers["User-Agent"], request.content_type
        self.seen.append((request.method, request.path, agent, form))
        return web.json_response({}, status=409 if request.path.endswith("refused") else 200)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.answer)
    async with TestServer(application) as running:
        server.url = f"http://127.0.0.1:{running.port}"
        yield server


async def sent(server: Server, directory: Path, waves: list[list[Chain]]) -> bare_client.BareRun:
    cluster = {"name": "c", "cluster": {"server": server.url}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    kubeconfig = directory / "kubeconfig"
    users = [{"name": "u", "user": {}}]
    content = {"clusters": [cluster], "contexts": [context], "users": users, "current-context": "x"}
    kubeconfig.write_text(json.dumps(content))
    return await bare_client.run(bare_client.Task({"hub": str(kubeconfig)}, waves))


def request(method: str, path: str) -> Request:
    return Request("hub", method, path, msgspec.Raw(b"{}"))


async def test_waves_and_chains_are_in_order(server: Server, tmp_path: Path) -> None:
    chains = [
        [request("POST", f"/works/{number}"), request("PATCH", f"/works/{number}/status")]
        for number in range(30)
    ]
    done = await sent(server, tmp_path, [[[request("POST", "/namespaces")]], chains])
    assert done.requests == len(server.seen) == 61
    paths = [path for _, path, _, _ in server.seen]
    assert paths[0] == "/namespaces"
    assert all(paths.index(f"/works/{n}") < paths.index(f"/works/{n}/status") for n in range(30))
    assert {(method, form) for method, _, _, form in server.seen} == {
        ("POST", "application/json"),
        ("PATCH", bare_client.MERGE),
    }
    assert {agent for _, _, agent, _ in server.seen} == {"bench-bare-client"}


async def test_refusal_ends_it(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        await sent(server, tmp_path, [[[request("POST", "/refused")]]])
    assert "POST /refused: 409" in str(raised.value.exceptions[0])
