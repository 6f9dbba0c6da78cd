"""Manifests and objects that hold much: few at once, and none that holds too much."""

import asyncio
from typing import Any

from karmada_vc_agent.model.objects import OBJECT_BYTES, SMALL_BYTES, STORED_BYTES, Object, bytes_of
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL
from tests.fakes import objects
from tests.fakes.world import World

WORKS = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{}/works/{}"
CONFIG_MAPS = "/api/v1/namespaces/edge-v-branch-{}/configmaps"
LARGE = "x" * (2 * SMALL_BYTES)


def given(world: World, cluster: str, name: str, value: Any) -> None:
    manifest = {**objects.config_map(name), "data": {"value": value}}
    world.hub.seed(objects.work(manifest, vc=cluster, name=name))


def applied(world: World, cluster: str, name: str) -> Object:
    conditions = world.hub.live(WORKS.format(cluster, name))["status"]["conditions"]
    return dict(next(c for c in conditions if c["type"] == "Applied"))


async def test_large_manifests_of_one_virtual_cluster_come_one_after_the_other(
    world: World,
) -> None:
    for cluster in ("branch-a", "branch-b"):
        world.register(cluster)
        for name, value in (("first", LARGE), ("second", LARGE), ("small", "1")):
            given(world, cluster, name, value)
    world.look()
    for cluster in ("branch-a", "branch-b"):
        await world.execution.reconcile((cluster, "small"))
    of_a = CONFIG_MAPS.format("a")
    released = world.host.hold("POST", of_a)
    async with asyncio.TaskGroup() as group:
        for name in ("first", "second"):
            group.create_task(_reconcile(world, ("branch-a", name)))
        await _reconcile(world, ("branch-b", "first"))
        given(world, "branch-a", "another", "1")
        world.look()
        await _reconcile(world, ("branch-a", "another"))
        released.set()
    names = [request.body["metadata"]["name"] for request in world.host.asked("POST", of_a)]
    assert names == ["small", "first", "another", "second"]
    for key in (("branch-a", "first"), ("branch-a", "second"), ("branch-b", "first")):
        assert applied(world, *key)["status"] == "True"


async def _reconcile(world: World, key: tuple[str, str]) -> None:
    await world.execution.reconcile(key)


async def test_manifest_that_holds_too_much_is_refused(world: World) -> None:
    """Its JSON is less than etcd stores."""
    tiny: list[Any] = [{} for _ in range(OBJECT_BYTES // 72 + 1)]
    assert len(tiny) * len("{},") < STORED_BYTES
    world.register()
    given(world, "branch-a", "large", tiny)
    world.look()
    await world.execution.reconcile(("branch-a", "large"))
    message = applied(world, "branch-a", "large")["message"]
    assert f"BoundExceeded: it holds more than {OBJECT_BYTES} bytes of memory" in message
    assert world.host.asked("POST", CONFIG_MAPS.format("a")) == []
    assert ("branch-a", "BoundExceeded") in list(world.memory.refusals())
    assert "BoundExceeded" in [reason for _, reason, _ in await world.events()]


async def test_manifest_without_a_kind_that_holds_too_much_is_refused(world: World) -> None:
    world.register()
    tiny: list[Any] = [{} for _ in range(OBJECT_BYTES // 72 + 1)]
    world.hub.seed(objects.work({"metadata": {"name": "x"}, "data": tiny}, name="large"))
    world.look()
    await world.execution.reconcile(("branch-a", "large"))
    assert "BoundExceeded" in applied(world, "branch-a", "large")["message"]


async def test_object_that_is_large_is_compared_and_reflected(world: World) -> None:
    await _apply_over(world, "x" * (2 * SMALL_BYTES))
    assert applied(world, "branch-a", "settings")["status"] == "True"
    live = world.host.live(f"{CONFIG_MAPS.format('a')}/settings")
    assert live["data"] == {"value": "1"}


async def test_object_that_holds_too_much_is_not_compared(world: World) -> None:
    await _apply_over(world, [{} for _ in range(OBJECT_BYTES // 72 + 1)])
    found = applied(world, "branch-a", "settings")
    assert found["status"] == "False"
    assert f"its object on the host holds more than {OBJECT_BYTES} bytes" in found["message"]


async def _apply_over(world: World, value: Any) -> None:
    """Apply a small manifest whose object was changed by a tenant on the host."""
    world.register()
    given(world, "branch-a", "settings", "1")
    world.look()
    await world.execution.reconcile(("branch-a", "settings"))
    path = f"{CONFIG_MAPS.format('a')}/settings"
    assert CLUSTER_LABEL in world.host.live(path)["metadata"]["labels"]
    world.host.change(path, data={"value": value})
    assert bytes_of(world.host.live(path)) > SMALL_BYTES
    world.look()
    await world.execution.reconcile(("branch-a", "settings"))
