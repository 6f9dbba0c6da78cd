"""Streams of pods on nodes that report nothing (G-63)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from karmada_vc_agent.model.objects import Object
from tests.fakes.gateway_lab import Lab, gateway_lab

UPGRADE = (("Connection", "upgrade"), ("Upgrade", "SPDY/3.1"))
PODS = "/api/v1/namespaces/edge/pods"
ON_HOST = "/api/v1/namespaces/edge-v-a/pods/web"


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    async with gateway_lab(tmp_path) as found:
        found.host.seed(pod("edge-1"))
        yield found


def pod(node: str) -> Object:
    metadata = {"name": "web", "namespace": "edge-v-a"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": node}}


def node(name: str, ready: str, branch: str = "a") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"branch": branch}},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


async def cached(lab: Lab, *nodes: Object) -> None:
    lab.host.seed(*nodes)
    async with asyncio.timeout(10):
        while len(list(lab.state.nodes)) < len(nodes):  # noqa: ASYNC110 - no signal
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("stream", ["exec", "attach", "portforward"])
async def test_stream_of_a_pod_on_an_offline_node_says_so(lab: Lab, stream: str) -> None:
    sent = lab.noted(f"{ON_HOST}/{stream}")
    await cached(lab, node("edge-1", "Unknown"))
    reply = await lab.ask(f"{PODS}/web/{stream}", *UPGRADE)
    text = 'node "edge-1" of pod "web" is offline: its condition Ready is Unknown'
    assert (reply.code, reply.json["message"]) == (500, text)
    assert not sent


async def test_log_of_a_pod_on_an_offline_node_says_so(lab: Lab) -> None:
    await cached(lab, node("edge-1", "Unknown"))
    reply = await lab.ask(f"{PODS}/web/log")
    assert (reply.code, b"is offline" in reply.body) == (500, True)


async def test_pod_is_read_with_the_rights_of_the_caller(lab: Lab) -> None:
    read = lab.noted(ON_HOST)
    await cached(lab, node("edge-1", "Unknown"))
    await lab.ask(f"{PODS}/web/exec", *UPGRADE)
    (headers,) = read
    assert ("impersonate-user", "vc:a:karmada") in headers


@pytest.mark.parametrize(
    ("nodes", "reads"),
    [
        ([node("edge-1", "True")], 0),
        ([node("edge-1", "False")], 0),
        ([node("edge-1", "True"), node("edge-2", "Unknown", "b")], 0),
        ([node("edge-1", "True"), node("edge-2", "Unknown")], 1),
    ],
)
async def test_any_other_stream_is_sent_on(lab: Lab, nodes: list[Object], reads: int) -> None:
    sent, read = lab.noted(f"{ON_HOST}/exec"), lab.noted(ON_HOST)
    await cached(lab, *nodes)
    await lab.ask(f"{PODS}/web/exec", *UPGRADE)
    assert (len(sent), len(read)) == (1, reads)


async def test_pod_that_the_caller_cannot_read_is_left_to_the_host(lab: Lab) -> None:
    sent = lab.noted("/api/v1/namespaces/edge-v-a/pods/gone/exec")
    await cached(lab, node("edge-1", "Unknown"))
    await lab.ask(f"{PODS}/gone/exec", *UPGRADE)
    assert len(sent) == 1
