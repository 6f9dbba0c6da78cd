"""OrphansController: counted, told once, never removed."""

import pytest

from karmada_vc_agent.controllers.orphans import EVERY, OrphansController
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.fakes.world import World

NAMESPACE = "edge-v-branch-a"


def controller(world: World) -> tuple[OrphansController, dict[str, int]]:
    """Return a controller, and the numbers that it tells."""
    world.work_store.is_synced = True
    counts: dict[str, int] = {}
    made = OrphansController(
        world.host_client,
        world.host_discovery,
        world.claims,
        world.works,
        world.virtual_clusters,
        counts.__setitem__,
    )
    return made, counts


def config_map(name: str, work: str, namespace: str = NAMESPACE) -> Object:
    obj = objects.config_map(name, namespace)
    obj["metadata"]["labels"] = {"virtualcluster.kubeedge.io/cluster": "branch-a"}
    obj["metadata"]["annotations"] = {
        "virtualcluster.kubeedge.io/work": f"karmada-es-branch-a/{work}"
    }
    return obj


async def test_objects_without_a_work_are_counted_and_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.host.seed(
        objects.claimed("branch-a"), config_map("lost", "gone"), config_map("web", "web")
    )
    world.hub.seed(objects.work(objects.config_map(), name="web"))
    world.look()
    made, counts = controller(world)
    for _ in range(2):
        assert await made.reconcile("") == EVERY
    assert counts == {"branch-a": 1, "branch-b": 0}
    told = [record for record in caplog.records if "whose Work is gone" in record.message]
    assert [record.__dict__["first"] for record in told] == [f"ConfigMap {NAMESPACE}/lost"]
    assert world.host.writes() == []


async def test_objects_in_namespaces_without_our_claim_are_not_ours(world: World) -> None:
    world.host.seed(objects.namespace("other"), config_map("lost", "gone", "other"))
    world.look()
    made, counts = controller(world)
    await made.reconcile("")
    assert counts["branch-a"] == 0


async def test_nothing_is_said_before_the_works_are_known(world: World) -> None:
    world.host.seed(objects.claimed("branch-a"), config_map("lost", "gone"))
    world.look()
    made, counts = controller(world)
    world.work_store.is_synced = False
    await made.reconcile("")
    assert counts == {}
