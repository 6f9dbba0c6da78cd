"""What is between `Serving` and the first write is named."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from karmada_vc_agent.cluster.hub_clusters import HubClusters, Judgements
from karmada_vc_agent.cluster.rules.conditions import observed_ready
from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.kube.controller import (
    Controller,
    ControllerSpec,
    NotReadyError,
    Requeue,
    WorkQueue,
)
from karmada_vc_agent.runner.service import ALL, LATE_S, why_not_written
from karmada_vc_agent.work.works import WorkKey
from tests.fakes import objects
from tests.fakes.world import HOST_UID, World

KEY = ("branch-a", "web-1")


class Scene:
    """A leader with a Work of branch-a; branch-b has none."""

    def __init__(self, world: World) -> None:
        for name in world.virtual_clusters:
            world.register(name, ready=None)
        world.hub.seed(objects.work(objects.config_map()))
        world.look()
        self.world = world
        self.is_leading = True
        self.error: Exception | None = None
        self.judgements = Judgements(Scopes())
        queue: WorkQueue[WorkKey] = WorkQueue(
            lambda key: key[0], 1.0, 30.0, clock=asyncio.get_running_loop().time
        )
        self.controller = Controller(ControllerSpec("execution", queue, self._reconcile))
        clusters = HubClusters(
            world.clusters.store, HOST_UID, world.virtual_clusters, judgements=self.judgements
        )
        self.common: Any = SimpleNamespace(
            virtual_clusters=world.virtual_clusters,
            stores=SimpleNamespace(clusters=clusters),
            judgements=self.judgements,
            lead=SimpleNamespace(is_certain=lambda: self.is_leading),
        )

    async def _reconcile(self, _: WorkKey) -> Requeue | None:
        if self.error is not None:
            raise self.error
        return None

    def judge(self, http_status: int | None) -> None:
        self.judgements.judge("branch-a", observed_ready(http_status))

    def reasons(self) -> dict[str, str]:
        return dict(why_not_written(self.common, self.world.works, self.controller))


@pytest.fixture
async def scene(world: World) -> Scene:
    return Scene(world)


async def test_host_that_no_probe_reached_is_named(scene: Scene) -> None:
    why = "the Cluster is not judged Ready yet: no probe of the host has ended"
    assert scene.reasons() == {"branch-a": why}
    scene.judge(200)
    assert scene.reasons() == {}


async def test_host_that_is_judged_not_ready_is_named_with_the_reason(scene: Scene) -> None:
    scene.judge(None)
    (why,) = scene.reasons().values()
    assert why.startswith("the host is not ready (ClusterNotReachable): ")


async def test_lead_in_doubt_is_named(scene: Scene) -> None:
    scene.is_leading = False
    assert list(scene.reasons()) == [ALL]


async def test_works_that_wait_for_workers_are_named(scene: Scene) -> None:
    scene.judge(200)
    scene.controller.queue.add(KEY)
    assert scene.reasons() == {}
    await asyncio.sleep(LATE_S)
    (why,) = scene.reasons().values()
    assert "wait for a worker" in why


async def test_what_no_work_passes_is_named_although_nothing_logs_it(scene: Scene) -> None:
    scene.judge(200)
    scene.error = NotReadyError("the hub has not told its Clusters yet")
    scene.controller.queue.add(KEY)
    running = asyncio.ensure_future(scene.controller.run())
    await asyncio.sleep(1.0)
    assert scene.reasons() == {ALL: "the hub has not told its Clusters yet"}
    scene.error = None
    await asyncio.sleep(40.0)
    assert scene.reasons() == {}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
