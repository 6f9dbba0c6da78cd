"""A start with many Works to repair: what changes meanwhile does not wait for them.

Counts of writes, and virtual time, with an agent that runs between fake servers.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from karmada_vc_agent.agent import Agent
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.objects import dig
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.model.virtual_cluster import Bounds
from karmada_vc_agent.work.works import applied_of
from tests.fakes import objects, served
from tests.fakes.api_server import FakeApiServer, Fault
from tests.fakes.storage import Change
from tests.fuzz.served_ways import _HUB, NEIGHBOUR, TENANT, Field, _furnish

WORKS = 160
BEGUN = 40
"""Writes of the backlog before something changes."""
SOON = 64
"""Writes of the backlog between a change and its write: those that had begun, and its share."""
SLOW_S = 29.0
"""A write may take almost as long as a request may."""
UNTIMED = Bounds(loop_milliseconds=0)
"""What the loop computes takes real time, which no virtual second waits for."""
DRIFTED = {"value": "by hand"}
MAPS = "/api/v1/namespaces/edge-v-{}/configmaps/{}"
WORK = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{}/works/{}"


@asynccontextmanager
async def agent(hub: FakeApiServer, host: FakeApiServer) -> AsyncIterator[Field]:
    config = AgentConfig(
        agent_namespace="agents",
        install_policies=False,
        cluster_success_threshold=Duration(0),
        virtual_clusters=tuple(
            objects.virtual_cluster(name, bounds=UNTIMED) for name in (TENANT, NEIGHBOUR)
        ),
    )
    ends = [Credentials(server.url, None, "a test") for server in (hub, host)]
    made = Field(hub, host, Agent(config, ends[0], ends[1]))
    stop = asyncio.Event()
    made.task = asyncio.create_task(made.agent.run(stop))
    try:
        yield made
    finally:
        stop.set()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(made.task, 10)


def is_applied(hub: FakeApiServer, cluster: str, name: str) -> bool:
    work = hub.find(WORK.format(cluster, name))
    return bool(dig(applied_of(dig(work, "status")), "status") == "True")


class Writes:
    """The ConfigMaps that are written to the host, in order.

    meanwhile: called at BEGUN, with the first one.
    """

    def __init__(self, host: FakeApiServer, meanwhile: Callable[[str], object]) -> None:
        self.names: list[str] = []
        self._host, self._meanwhile = host, meanwhile
        host.storage.listener = self._changed

    def _changed(self, change: Change) -> None:
        self._host._changed(change)
        if change.obj["kind"] != "ConfigMap" or change.obj.get("data") == DRIFTED:
            return
        self.names.append(change.obj["metadata"]["name"])
        if len(self.names) == BEGUN:
            asyncio.get_running_loop().call_soon(self._meanwhile, self.names[0])


def make_work(hub: FakeApiServer, cluster: str, name: str) -> None:
    hub.seed(objects.work(objects.config_map(name), vc=cluster, name=name))


@asynccontextmanager
async def started(
    meanwhile: Callable[[FakeApiServer, FakeApiServer, str], object],
) -> AsyncIterator[tuple[Field, Writes]]:
    """Start an agent after the objects of all Works drifted while none ran."""
    async with FakeApiServer(_HUB) as hub, FakeApiServer(served.HOST) as host:
        _furnish(hub, host)
        names = [f"old-{number}" for number in range(WORKS)]
        for name in names:
            make_work(hub, TENANT, name)
        async with agent(hub, host) as before:
            await before.until(
                lambda: all(is_applied(hub, TENANT, name) for name in names), "not all applied"
            )
        for name in names:
            host.change(MAPS.format(TENANT, name), data=DRIFTED)
        writes = Writes(host, partial(meanwhile, hub, host))
        async with agent(hub, host) as after:
            yield after, writes
            await after.until(lambda: set(names) <= set(writes.names), "not all repaired")
            assert len(writes.names) <= WORKS + BEGUN


def change_all(hub: FakeApiServer, host: FakeApiServer, repaired: str) -> None:
    """Make a Work of each virtual cluster, and have an object drift that was repaired before."""
    for cluster in (TENANT, NEIGHBOUR):
        make_work(hub, cluster, f"fresh-{cluster}")
    host.change(MAPS.format(TENANT, repaired), data=DRIFTED)


async def test_fresh_works_and_drift_precede_the_backlog() -> None:
    async with started(change_all) as (here, writes):
        fresh = {TENANT: f"fresh-{TENANT}", NEIGHBOUR: f"fresh-{NEIGHBOUR}"}
        await here.until(
            lambda: all(is_applied(here.hub, *each) for each in fresh.items()), "not applied"
        )
        later = writes.names[BEGUN:]
        assert max(map(later.index, (writes.names[0], *fresh.values()))) <= SOON


async def test_slow_writes_of_a_backlog_hold_no_other_virtual_cluster() -> None:
    async with FakeApiServer(_HUB) as hub, FakeApiServer(served.HOST) as host:
        _furnish(hub, host)
        for number in range(WORKS):
            make_work(hub, TENANT, f"slow-{number}")
        collection = MAPS.format(TENANT, "").removesuffix("/")
        host._faults.append(Fault(lambda _: asyncio.sleep(SLOW_S), "POST", collection))
        async with agent(hub, host) as here:
            await here.until(lambda: bool(host.asked("POST", collection)), "not begun")
            for number in range(5):
                began = asyncio.get_running_loop().time()
                await here.neighbour_lives()
                assert asyncio.get_running_loop().time() - began < 1.0, number
                await asyncio.sleep(SLOW_S / 4)
            assert len(host.asked("POST", collection)) < WORKS
