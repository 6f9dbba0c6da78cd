"""Each lane while all requests of one virtual cluster hang: the neighbour's are answered."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.flows import TokenBucket
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.clients import Clients, connect
from tests.fakes.api_server import FakeApiServer
from tests.fakes.hanging import HELD_S, NAMESPACES, asking, hanging

LANES = [name for name in Clients.__dataclass_fields__ if name != "host_reviews"]
"""Reviews are of clients of the endpoints of the agent, and of no virtual cluster."""


@pytest.fixture
async def clients(host: FakeApiServer) -> AsyncIterator[Clients]:
    registry = VirtualClusters(VirtualCluster(name=f"branch-{each}") for each in "abcd")
    credentials = Credentials(host.url, None, "a test")
    made = connect(
        AgentConfig(), credentials, credentials, lambda: True, is_shared=registry.are_several
    )
    for client in (*made.of_hub(), *made.of_host()):
        client._limit = TokenBucket(0.0, 1, asyncio.get_running_loop().time)  # test_rate_limit.py
    yield made
    await made.close()


@pytest.mark.parametrize(
    ("name", "is_list", "slow"),
    [
        *((name, False, slow) for name in LANES for slow in ("a", "ab", "abc")),
        *((name, True, slow) for name in ("hub", "host") for slow in ("a", "ab")),
    ],
)
async def test_neighbour_is_answered_while_all_requests_of_others_hang(
    host: FakeApiServer, clients: Clients, name: str, slow: str, *, is_list: bool
) -> None:
    client: ApiClient = getattr(clients, name)
    clusters = tuple(f"branch-{each}" for each in slow)
    async with hanging(host, client, clusters, is_list=is_list) as tasks:
        async with asyncio.timeout(HELD_S / 4):  # of virtual time, which jumps where all wait
            for _ in range(5):
                await flows.run("branch-d", asking(client, NAMESPACES, is_list=is_list))
        assert not any(task.done() for task in tasks)


async def test_a_virtual_cluster_that_is_alone_has_nearly_all(host: FakeApiServer) -> None:
    client = host.client(connections=16, is_shared=lambda: False)
    async with hanging(host, client, ("branch-a",), is_list=False):
        assert len(host.asked("GET", f"{NAMESPACES}/branch-a")) == 15


@pytest.mark.parametrize("name", ["hub", "host", "hub_leases"])
async def test_the_agent_itself_is_answered_however_many_are_slow(
    host: FakeApiServer, clients: Clients, name: str
) -> None:
    client: ApiClient = getattr(clients, name)
    many = tuple(f"branch-{each}" for each in "abcdefghijkl")
    async with hanging(host, client, many, is_list=False):
        async with asyncio.timeout(HELD_S / 4):
            for _ in range(5):
                await asking(client, NAMESPACES, is_list=False)()
