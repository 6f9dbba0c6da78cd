"""OrphansController: counted, told once, never removed."""

import asyncio

import pytest

from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.runner import controllers
from karmada_vc_agent.work import removal
from karmada_vc_agent.work.removal import COUNT_EVERY, COUNT_WHILE_ANY, OrphansController
from tests.fakes import objects
from tests.fakes.reported import Reported
from tests.fakes.world import World

NAMESPACE = "edge-v-branch-a"


def controller(world: World) -> tuple[OrphansController, dict[str, int]]:
    """Return a controller, and the numbers that it reports."""
    for name in world.virtual_clusters:
        world.register(name)
    world.look()
    counts: dict[str, int] = {}
    made = OrphansController(
        world.host_client,
        world.host_discovery,
        world.claims,
        world.works,
        world.virtual_clusters,
        lambda name, names: counts.__setitem__(name, len(names)),
    )
    return made, counts


def config_map(name: str, work: str, namespace: str = NAMESPACE) -> Object:
    obj = objects.config_map(name, namespace)
    obj["metadata"]["labels"] = {"virtualcluster.kubeedge.io/cluster": "branch-a"}
    obj["metadata"]["annotations"] = {
        "virtualcluster.kubeedge.io/work": f"karmada-es-branch-a/{work}"
    }
    return obj


async def test_objects_without_a_work_are_counted(world: World) -> None:
    world.host.seed(
        objects.claimed("branch-a"), config_map("lost", "gone"), config_map("web", "web")
    )
    world.hub.seed(objects.work(objects.config_map(), name="web"))
    world.look()
    made, counts = controller(world)
    for _ in range(2):
        assert await made.reconcile("") == COUNT_WHILE_ANY
    assert counts == {"branch-a": 1, "branch-b": 0}
    assert world.host.writes() == []


async def test_an_object_that_is_being_deleted_is_none(world: World) -> None:
    ending = config_map("lost", "gone")
    ending["metadata"] |= {
        "deletionTimestamp": "2026-11-26T17:02:58Z",
        "finalizers": ["example.com/slow"],
    }
    world.host.seed(objects.claimed("branch-a"), ending)
    made, counts = controller(world)
    assert await made.reconcile("") == COUNT_EVERY
    assert counts == {"branch-a": 0, "branch-b": 0}


async def test_the_host_is_listed_seldom_beside_a_virtual_cluster_that_is_not_registered(
    world: World,
) -> None:
    """One that stays away, as its Cluster was deleted, has no Works to wait for."""
    made, counts = controller(world)
    world.hub.remove("/apis/cluster.karmada.io/v1alpha1/clusters/branch-b")
    world.look()
    assert await made.reconcile("") == COUNT_EVERY
    assert counts == {"branch-a": 0}


async def test_the_host_is_listed_again_soon_while_works_are_not_all_listed(world: World) -> None:
    made, counts = controller(world)
    store = world.works.store("branch-b")
    assert store is not None
    store.is_synced = False
    assert await made.reconcile("") == COUNT_WHILE_ANY
    assert counts == {"branch-a": 0}


async def test_works_of_the_checkpoint_that_the_hub_does_not_list_are_reported(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """What an old checkpoint brought back stays; the Cluster says so, and how it is removed."""
    world.host.seed(objects.claimed("branch-a"), config_map("lost", "gone"))
    for name in world.virtual_clusters:
        world.register(name)
    world.look()
    store = world.works.store("branch-a")
    assert store is not None
    store.is_synced = False
    store.seed([objects.work(objects.config_map("lost"), name="gone")])
    spec = world.spec(controllers.orphans)
    for source in spec.sources:
        source.connect(spec.queue)
    await asyncio.sleep(removal.WORKS_SETTLE_S)
    store.replace_all([], "100")
    await asyncio.sleep(removal.WORKS_SETTLE_S)
    assert await spec.queue.take() == removal.ALL_CLUSTERS
    world.look()
    await spec.reconcile(removal.ALL_CLUSTERS)
    orphaned = Reported(world, "ObjectsOrphaned")
    for _ in range(2):
        (found,) = orphaned.condition(world.virtual_clusters["branch-a"], {})
    logged = [record for record in caplog.records if "have no Work on the hub" in record.message]
    assert [record.__dict__["text"] for record in logged] == [found["message"]]
    assert (found["type"], found["status"]) == ("ObjectsOrphaned", "True")
    assert f"ConfigMap {NAMESPACE}/lost" in found["message"]
    assert "leave --prune" in found["message"]
    assert world.host.writes() == []


async def test_objects_in_namespaces_without_our_claim_are_not_ours(world: World) -> None:
    world.host.seed(objects.namespace("other"), config_map("lost", "gone", "other"))
    world.look()
    made, counts = controller(world)
    await made.reconcile("")
    assert counts["branch-a"] == 0


async def test_nothing_is_reported_before_the_works_are_listed(world: World) -> None:
    world.host.seed(objects.claimed("branch-a"), config_map("lost", "gone"))
    world.look()
    made, counts = controller(world)
    for name in world.virtual_clusters:
        world.works._stores[name].is_synced = False
    await made.reconcile("")
    assert counts == {}


async def test_works_that_are_listed_again_meanwhile_orphan_nothing(world: World) -> None:
    world.host.seed(objects.claimed("branch-a"), config_map("web", "web"))
    world.hub.seed(objects.work(objects.config_map(), name="web"))
    world.look()
    made, counts = controller(world)
    stores = world.works._stores
    assert isinstance(stores, dict)
    # As where its bounds change, or it is taken out of the settings and put back.
    listed_anew = {"branch-a": Store(RawCodec())}
    world.host.before("GET", "/api/v1/configmaps", lambda: stores.update(listed_anew))
    await made.reconcile("")
    assert counts == {"branch-b": 0}
