"""What is done once for all virtual clusters, while all requests of one of them hang."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from karmada_vc_agent.cluster.hub_clusters import AgentState, ClusterRecord
from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery, HealthProbe
from tests.fakes.api_server import FakeApiServer
from tests.fakes.hanging import HELD_S, hanging
from tests.unit.features.checkpoint.checkpoint_scene import Scene

SLOW, QUICK = "branch-a", "branch-b"

Share = Callable[[str], Awaitable[object]]
"""Does its part for one virtual cluster."""


async def of_discovery(_: FakeApiServer, client: ApiClient) -> Share:
    discovery = Discovery(client)
    return lambda _: discovery.refresh()


async def of_health(_: FakeApiServer, client: ApiClient) -> Share:
    probe = HealthProbe(client, 0.0)

    async def ask(_: str) -> None:
        assert await probe.status() == 200

    return ask


async def of_agent_state(_: FakeApiServer, client: ApiClient) -> Share:
    state = AgentState(client, "agents", "agent")
    await state.ensure_namespace()
    await state.load()
    return lambda cluster: state.remember(cluster, ClusterRecord("uid", "settings"))


async def of_checkpoint(host: FakeApiServer, client: ApiClient) -> Share:
    scene = Scene(host, client, SLOW, QUICK)
    for cluster in (SLOW, QUICK):
        scene.work(f"of-{cluster}", of=cluster)
    await scene.write()

    async def strike(cluster: str) -> None:
        deleted = {"deletionTimestamp": "2026-05-01T10:00:00Z"}
        scene.work(f"of-{cluster}", of=cluster, **deleted)
        await scene.writer.strike(cluster, f"of-{cluster}")
        assert scene.names(cluster) == []

    return strike


@pytest.mark.parametrize("begin", [of_discovery, of_health, of_agent_state, of_checkpoint])
async def test_no_one_waits_for_the_slots_of_a_slow_virtual_cluster(
    host: FakeApiServer, begin: Callable[[FakeApiServer, ApiClient], Awaitable[Share]]
) -> None:
    client = host.client()
    share = await begin(host, client)
    async with hanging(host, client, (SLOW,), is_list=False) as hung:
        async with asyncio.timeout(HELD_S / 4), asyncio.TaskGroup() as group:
            for cluster in (SLOW, QUICK):
                group.create_task(flows.run(cluster, partial(share, cluster)))
        assert not any(task.done() for task in hung)
