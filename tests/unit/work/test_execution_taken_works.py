"""ExecutionController, with a Cluster that goes while it is not Ready: the hub takes its Works."""

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects
from tests.fakes.world import World

CLUSTER = f"{CLUSTERS_PATH}/branch-a"
WORKS = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works"
NAMESPACE = "/api/v1/namespaces/edge-v-branch-a"
SETTINGS = f"{NAMESPACE}/configmaps/settings"
KEY, SPACE = ("branch-a", "web-1"), ("branch-a", "space")


async def applied(world: World, *, preserve: bool = False) -> None:
    """Apply a Work with a ConfigMap, and one with its namespace; the Cluster gets its mark."""
    world.register()
    spec = {"preserveResourcesOnDeletion": True} if preserve else {}
    world.hub.seed(
        objects.work(objects.namespace_manifest(), name="space"),
        objects.work(objects.config_map(), spec=spec),
    )
    world.look()
    for key in (SPACE, KEY):
        await world.execution.reconcile(key)
    world.hub.mark_deleted(CLUSTER)
    world.look()
    world.forget_requests()


def take(world: World, *names: str) -> None:
    """Take Works away, as the hub does once it stripped their finalizers."""
    for name in names:
        world.hub.remove(f"{WORKS}/{name}")
    world.look()


def strip(world: World, name: str) -> Object:
    live = world.hub.live(f"{WORKS}/{name}")
    return world.hub.seed({**live, "metadata": {**live["metadata"], "finalizers": []}})


async def test_work_whose_finalizer_the_hub_stripped_is_cleaned_up(world: World) -> None:
    await applied(world)
    strip(world, "web-1")
    world.look()
    await world.execution.reconcile(KEY)
    assert world.host.find(SETTINGS) is None
    assert world.hub.writes() == []


async def test_work_that_the_hub_took_away_is_cleaned_up_once(world: World) -> None:
    await applied(world)
    take(world, "web-1", "space")
    with pytest.raises(RetryError, match="still used by work web-1"):
        await world.execution.reconcile(SPACE)
    await world.execution.reconcile(KEY)
    assert world.host.find(SETTINGS) is None
    await world.execution.reconcile(SPACE)
    assert world.host.find(NAMESPACE) is None
    assert world.hub.writes() == []
    world.forget_requests()
    for key in (SPACE, KEY):
        await world.execution.reconcile(key)
    assert world.host.requests == []


async def test_preserved_work_that_the_hub_took_away_leaves_its_objects(world: World) -> None:
    await applied(world, preserve=True)
    take(world, "web-1")
    await world.execution.reconcile(KEY)
    assert world.host.live(SETTINGS)


async def test_work_that_the_hub_took_away_is_abandoned_with_its_host(world: World) -> None:
    await applied(world)
    world.register(ready="False", deletionTimestamp="2026-01-01T00:00:00Z")
    take(world, "web-1")
    with world.host.down():
        await world.execution.reconcile(KEY)
    await world.execution.reconcile(KEY)
    assert world.host.live(SETTINGS)


async def test_work_deleted_by_itself_is_left_alone(world: World) -> None:
    world.register()
    world.hub.seed(objects.work(objects.config_map()))
    world.look()
    await world.execution.reconcile(KEY)
    take(world, "web-1")
    await world.execution.reconcile(KEY)
    assert world.host.live(SETTINGS)
