"""Works that fail for one cause: they try together, and come back together when it is over."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from karmada_vc_agent.features.policies.feature import PlacementState
from karmada_vc_agent.interpretation.user_hooks import (
    INTERPRET_HEALTH,
    Hook,
    Operation,
    UnavailableError,
)
from karmada_vc_agent.kube.controller import Controller, ControllerSpec, RetryError, WorkQueue
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.translation.kind_policy import Code, Refusal
from karmada_vc_agent.work.reporting import Dependency, kind_dependency, refused
from tests.fakes import objects
from tests.fakes.served import Served
from tests.fakes.world import World

GADGET = GroupVersionKind("example.com", "v1", "Gadget")
WORKS = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-branch-a/works"
CONFIG_MAPS = "/api/v1/namespaces/edge-v-branch-a/configmaps"
Queue = WorkQueue[tuple[str, str]]


def gadget(name: str = "g") -> Object:
    metadata = {"name": name, "namespace": "edge"}
    return {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": metadata}


def config_map(name: str) -> Object:
    metadata = {"name": name, "namespace": "edge"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}


def given(world: World, *manifests: Object, name: str = "web-1", vc: str = "branch-a") -> None:
    if world.hub.find(f"/apis/cluster.karmada.io/v1alpha1/clusters/{vc}") is None:
        world.register(vc)
    world.hub.seed(objects.work(*manifests, name=name, vc=vc))


def applied(world: World, name: str = "web-1") -> Object | None:
    conditions = (world.hub.live(f"{WORKS}/{name}").get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == "Applied"), None)


async def blamed(world: World) -> RetryError:
    world.look()
    with pytest.raises(RetryError) as caught:
        await world.execution.reconcile(("branch-a", "web-1"))
    return caught.value


async def test_unserved_kind_is_a_dependency(world: World) -> None:
    given(world, gadget(), gadget("h"))
    error = await blamed(world)
    assert error.dependencies == (kind_dependency(GADGET),)
    assert not error.is_own


async def test_failure_of_one_work_is_no_dependency(world: World) -> None:
    given(world, gadget(), config_map("c"))
    world.host.fail(422, method="POST", path=CONFIG_MAPS)
    error = await blamed(world)
    assert error.dependencies == (kind_dependency(GADGET),)
    assert error.is_own


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            'configmaps is forbidden: User "x" cannot create resource "configmaps" in API group ""',
            ((GroupVersionKind("", "v1", "ConfigMap"), "edge"),),
        ),
        ('configmaps "c" is forbidden: exceeded quota: q', ()),
    ],
)
async def test_missing_right_is_a_dependency_but_a_quota_is_not(
    world: World, message: str, expected: tuple[Dependency, ...]
) -> None:
    given(world, config_map("c"))
    world.host.fail(403, method="POST", path=CONFIG_MAPS, message=message)
    error = await blamed(world)
    assert error.dependencies == expected
    assert error.is_own == (not expected)


async def test_cluster_that_is_not_ready_is_a_dependency(world: World) -> None:
    world.register(ready="False")
    given(world, config_map("c"))
    error = await blamed(world)
    assert error.dependencies == ("branch-a",)


class Silent:
    """A webhook for ConfigMaps that is silent for 10 s, until it answers."""

    name = "webhook"

    def __init__(self) -> None:
        self.answers = False
        self.asked = 0

    def hook(self, kind: GroupVersionKind, operation: Operation) -> Hook | None:
        if kind.kind != "ConfigMap" or operation != INTERPRET_HEALTH:
            return None

        async def ask(_cluster: str, _objects: Sequence[Object]) -> Any:
            self.asked += 1
            if not self.answers:
                await asyncio.sleep(10.0)
                raise UnavailableError("no response within 10 s")
            return True

        return Hook("silent", "the hook", ask)


@asynccontextmanager
async def working(
    world: World, count: int, spec: ControllerSpec[tuple[str, str]] | None = None
) -> AsyncIterator[None]:
    """Have the controller carry out Works `web-<number>` as in a service."""
    controller = Controller(spec or world.execution)
    controller.connect()
    world.parts.common.part(PlacementState).settle()
    task = asyncio.ensure_future(controller.run())
    world.look()
    assert len(controller.queue) == count
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_200_works_of_an_unknown_kind_ask_discovery_seldom_and_heal_at_once(
    world: World,
) -> None:
    for number in range(200):
        given(world, gadget(f"g-{number}"), name=f"web-{number}")
    async with working(world, 200):
        await asyncio.sleep(100.0)
        asked = [r.path for s in (world.host, world.hub) for r in s.requests]
        assert asked.count("/apis") <= 100 / 5 + 100 / 30 + 4
        assert len(world.hub.writes()) == 200  # one status each, and nothing again
        world.host.storage.served.append(Served("example.com/v1", "gadgets", "Gadget"))
        world.host_discovery.expire()
        served = await world.host_discovery.refresh()
        world.parts.common.signals.served.emit(served)
        await asyncio.sleep(1.0)
        for number in range(200):
            condition = applied(world, f"web-{number}")
            assert condition is not None
            assert condition["status"] == "True"


async def test_works_of_a_silent_webhook_are_parked_and_heal_together(world: World) -> None:
    silent = Silent()
    world.levels.append(cast(Any, silent))
    for number in range(50):
        given(world, config_map(f"c-{number}"), name=f"web-{number}")
    secret = {**gadget(), "apiVersion": "v1", "kind": "Secret"}
    async with working(world, 50):
        await asyncio.sleep(5.0)
        given(world, secret, name="quick", vc="branch-b")
        world.look()
        await asyncio.sleep(0.5)
        assert world.host.listed("/api/v1/namespaces/edge-v-branch-b/secrets")
        await asyncio.sleep(300.0)
        # By the workers of a virtual cluster, by a Work each 10 s, and by probes.
        assert silent.asked <= 16 + 300 / 10 + 50
        assert len(world.parts.works.queue) == 0
        silent.answers = True
        await asyncio.sleep(15.0)  # one was still waiting for its answer
        healthy = [
            entry["health"]
            for number in range(50)
            for entry in world.hub.live(f"{WORKS}/web-{number}")["status"]["manifestStatuses"]
        ]
        assert healthy == ["Healthy"] * 50


async def test_hook_without_a_response_is_a_dependency(world: World) -> None:
    silent = Silent()
    world.levels.append(cast(Any, silent))
    given(world, config_map("c"))
    error = await blamed(world)
    assert error.dependencies == (("branch-a", "silent"),)
    assert not error.is_own


def test_definition_that_waits_for_objects_of_others_is_tried_again() -> None:
    vc = objects.virtual_cluster("branch-a")
    refusal = Refusal(Code.SHARED_OBJECT_CONFLICT, "spec", "differs", "example.com/Gadget")
    failure = refused(vc, gadget(), refusal)
    assert (failure.waits_for, failure.is_final) == ((("example.com/Gadget",),), False)
    assert refused(vc, gadget(), replace(refusal, about="")).is_final


async def test_namespaces_of_one_cluster_that_come_and_go_retry_none_of_a_neighbour(
    world: World,
) -> None:
    synced: list[str] = []
    spec = world.execution

    async def reconcile(key: tuple[str, str]) -> Any:
        if key[1].startswith("web-"):
            synced.append(key[0])
        return await spec.reconcile(key)

    for vc in ("branch-a", "branch-b"):
        world.host.seed(objects.namespace(f"edge-v-{vc}"))  # not ours: what is in it is refused
        for number in range(20):
            given(world, config_map(f"c-{number}"), name=f"web-{number}", vc=vc)
    async with working(world, 40, replace(spec, reconcile=reconcile)):
        await asyncio.sleep(10.0)
        synced.clear()
        writes = len(world.host.writes())
        for number in range(200):
            world.host.seed(objects.claimed(virtual=f"n{number}"))
            world.look()
            await asyncio.sleep(0.1)
        assert 20 * 20 <= synced.count("branch-a") <= 20 * (20 / 0.5 + 3)
        assert "branch-b" not in synced
        assert len(world.host.writes()) - writes <= len(synced)  # each tries to claim, in vain
        allow = {"virtualcluster.kubeedge.io/allow-adoption": "branch-b"}
        world.host.seed(objects.namespace("edge-v-branch-b", annotations=allow))
        world.look()
        await asyncio.sleep(1.0)
        assert len(world.host.listed("/api/v1/namespaces/edge-v-branch-b/configmaps")) == 20
