"""The bare client keeps the order of waves and chains, and stops at the first refusal."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bench import bare_client
from bench.bare_client import Chain, Request
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.model.vocabulary import CLUSTER_FINALIZER


class Server:
    """Remembers what was sent; refuses paths that end in `refused`."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, str]] = []
        self.url = ""
        self.has_written = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await self.watched(request)
        agent, form = request.headers["User-Agent"], request.content_type
        self.seen.append((request.method, request.path, agent, form))
        self.has_written.set()
        return web.json_response({}, status=409 if request.path.endswith("refused") else 200)

    async def watched(self, request: web.Request) -> web.StreamResponse:
        """Report Cluster a without the finalizer, and with it once b was written."""
        response = web.StreamResponse()
        await response.prepare(request)
        for finalizers in ([], [CLUSTER_FINALIZER]):
            metadata = {"name": "a", "finalizers": finalizers}
            event = {"type": "MODIFIED", "object": {"metadata": metadata}}
            await response.write(json.dumps(event).encode() + b"\n")
            await self.has_written.wait()
        await asyncio.Event().wait()
        return response


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


async def test_status_of_a_cluster_waits_for_the_finalizer(server: Server, tmp_path: Path) -> None:
    status = request("PATCH", f"{CLUSTERS_PATH}/a/status")
    other = request("PATCH", f"{CLUSTERS_PATH}/b")
    await sent(server, tmp_path, [[[status], [other]]])
    assert [path for _, path, _, _ in server.seen] == [other.path, status.path]


async def test_refusal_ends_it(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        await sent(server, tmp_path, [[[request("POST", "/refused")]]])
    assert raised.group_contains(RuntimeError, match="POST /refused: 409")
