"""Service: what has its controllers look again at what failed, and at all there is."""

import asyncio
from typing import Any

import pytest
from prometheus_client import generate_latest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import WorkQueue
from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.kube.store import SECOND_LIST_S
from karmada_vc_agent.model.vocabulary import AGENT_ANNOTATION
from karmada_vc_agent.runner.service import CHANGES_SETTLE_S
from karmada_vc_agent.telemetry.endpoints import Note
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer
from tests.fakes.world import World

KEY = ("branch-a", "web-1")
FAILURES = 20
"""So many in a row that the back-off is as long as it gets."""


@pytest.fixture
async def served(world: World) -> World:
    """A world with all controllers, none of which runs; a Work of branch-a has its object."""
    world.serve()
    world.register("branch-a")
    world.register("branch-b")
    world.hub.seed(objects.work(objects.config_map()))
    world.look()
    await world.execution.reconcile(KEY)
    world.look()
    return world


def queue(world: World, name: str = "execution") -> WorkQueue[Any]:
    (found,) = (c.queue for c in world.parts.controllers if c.name == name)
    return found


async def taken(found: WorkQueue[Any]) -> set[Any]:
    """Take out all keys that are ready."""
    keys = set()
    while len(found):
        key = await found.take()
        found.done(key)
        keys.add(key)
    return keys


async def backing_off(world: World) -> WorkQueue[Any]:
    """Have a Work back off for as long as it gets."""
    found = queue(world)
    await asyncio.sleep(1.0)  # what changed before is passed on
    await taken(found)
    for _ in range(FAILURES):
        found.add_rate_limited(KEY)
        await taken(found)
    await asyncio.sleep(30.0)
    await taken(found)
    found.add_rate_limited(KEY)
    await asyncio.sleep(1.0)
    assert await taken(found) == set()
    return found


def end(world: World, server: str) -> tuple[FakeApiServer, ApiClient]:
    return {"hub": (world.hub, world.hub_client), "host": (world.host, world.host_client)}[server]


@pytest.mark.parametrize("server", ["hub", "host"])
async def test_what_failed_is_tried_when_a_server_answers_again(served: World, server: str) -> None:
    found = await backing_off(served)
    fake, client = end(served, server)
    with fake.down(), pytest.raises(UnreachableError):
        await client.get("/version")
    assert await taken(found) == set()
    await client.get("/version")
    assert await taken(found) == {KEY}


@pytest.mark.parametrize("server", ["hub", "host"])
async def test_any_lane_that_is_answered_has_what_failed_tried(served: World, server: str) -> None:
    fake, client = end(served, server)
    lane = fake.client(server, history=client.history)
    with fake.down(), pytest.raises(UnreachableError):
        await client.get("/version")
    found = await backing_off(served)
    await lane.get("/version")
    assert await taken(found) == {KEY}
    assert not client.is_reachable


@pytest.mark.parametrize("server", ["hub", "host"])
async def test_everything_is_checked_once_a_rolled_back_server_is_trusted_again(
    served: World, server: str
) -> None:
    _, client = end(served, server)
    found, quotas = queue(served), queue(served, "quotas")
    for each in (found, quotas):
        await taken(each)
    client.history.notice("restored")
    assert await taken(found) == set()
    await asyncio.sleep(SECOND_LIST_S + 1.0)
    assert await taken(found) == {KEY}
    assert await taken(quotas) == {"branch-a", "branch-b"}


async def test_drift_is_repaired_before_what_a_resync_enqueues(served: World) -> None:
    found, names = queue(served), [f"w{number}" for number in range(20)]
    served.hub.seed(*(objects.work(objects.config_map(name), name=name) for name in names))
    served.look()
    for key in await taken(found):
        await served.execution.reconcile(key)
    served.look()
    await taken(found)
    served.host_client.history.settled.emit()
    served.host.change("/api/v1/namespaces/edge-v-branch-a/configmaps/w9", data={})
    served.look()
    assert len(found) == 1 + len(names)
    assert await found.take() == ("branch-a", "w9")


async def test_failed_key_is_retried_once_a_rolled_back_server_is_trusted_again(
    served: World,
) -> None:
    found = queue(served, "registration")
    for _ in range(FAILURES):
        found.add_rate_limited("gone")
    await asyncio.sleep(100.0)
    await taken(found)
    found.add_rate_limited("gone")
    served.hub_client.history.notice("restored")
    await asyncio.sleep(SECOND_LIST_S + 1.0)
    assert "gone" in await taken(found)


async def test_state_of_a_rolled_back_host_is_not_trusted(served: World) -> None:
    assert len(served.host_objects._memory) > 0
    served.host_client.history.notice("restored")
    assert len(served.host_objects._memory) == 0


async def test_added_virtual_cluster_is_checked_by_all(served: World) -> None:
    await asyncio.sleep(10.0)  # what changed before has settled
    for name in ("registration", "quotas"):
        await taken(queue(served, name))
    served.virtual_clusters.put(objects.virtual_cluster("branch-c"))
    await asyncio.sleep(CHANGES_SETTLE_S)
    for name in ("registration", "quotas"):
        assert await taken(queue(served, name)) == {"branch-c"}


async def test_removed_virtual_cluster_is_checked_before_its_record_is_removed(
    served: World,
) -> None:
    await asyncio.sleep(10.0)  # what changed before has settled
    served.virtual_clusters.put(objects.virtual_cluster("branch-c"))
    await taken(queue(served, "departures"))
    served.virtual_clusters.replace_all([served.virtual_clusters["branch-a"]])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await taken(queue(served, "departures")) >= {"branch-b"}
    await taken(queue(served, "registration"))
    await asyncio.sleep(CHANGES_SETTLE_S)
    assert await taken(queue(served, "registration")) == set(), "nothing is left for the timer"


async def test_metrics_report_the_virtual_clusters_served(served: World) -> None:
    text = generate_latest(served.parts.common.metrics.registry).decode()
    assert 'virtual_cluster_works{member_cluster="branch-a"' in text


async def test_agent_is_ready_while_it_has_others_to_serve(world: World) -> None:
    service = world.serve()
    taken = {AGENT_ANNOTATION: "agents/another"}
    world.register("branch-a", annotations=taken)
    world.look()
    text = service.checks()["agents"]
    assert text == "Cluster branch-a is served by agent agents/another"
    assert isinstance(text, Note)
    world.register("branch-b", annotations=taken)
    world.look()
    text = service.checks()["agents"]
    assert text is not None
    assert not isinstance(text, Note)


async def test_what_is_discovered_and_not_served_is_a_warning(world: World) -> None:
    service = world.serve()
    origins = world.parts.common.origins
    for name in "abcdefg":
        origins.refuse("nodeGroups", name, f"cannot serve {name}")
    text = service.checks()["found"]
    assert isinstance(text, Note)
    assert text == "; ".join([*(f"cannot serve {name}" for name in "abcde"), "and 2 more"])


async def test_lists_that_have_not_arrived_are_named(world: World) -> None:
    service = world.serve()
    lists = "/api/v1/nodes, /api/v1/namespaces, /api/v1/pods"
    assert service.checks()["lists"] == f"waiting for the first list of {CLUSTERS_PATH}, {lists}"
    assert [name for name, text in service.checks().items() if text] == ["lists"]
