"""Queues: the back-off of the settings counts for every controller."""

import asyncio

import pytest

from karmada_vc_agent.cluster.virtual_clusters import VirtualClusters
from karmada_vc_agent.kube.controller import RELIEVED_AFTER_S, Controller, ControllerSpec, WorkQueue
from karmada_vc_agent.kube.flows import LoopTime
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.common import FEW_WORKERS, Queues

BASE_S = 7.0
QUEUES = Queues(VirtualClusters(), BASE_S, LoopTime(lambda _: 0.0))
SEVERAL = VirtualClusters(VirtualCluster(name=f"branch-{each}") for each in "abcd")
SHARED = Queues(SEVERAL, BASE_S, LoopTime(lambda _: 0.0))


@pytest.mark.parametrize(
    "queue", [QUEUES.by_name(), QUEUES.by_cluster(lambda key: key)], ids=["name", "cluster"]
)
async def test_first_back_off_is_that_of_the_settings(queue: WorkQueue[str]) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    queue.add_rate_limited("a")
    assert await queue.take() == "a"
    assert loop.time() - started == pytest.approx(BASE_S)


@pytest.mark.parametrize(
    "queue",
    [SHARED.by_name(), SHARED.by_cluster(lambda key: key.partition("/")[0])],
    ids=["name", "cluster"],
)
async def test_slow_keys_of_some_virtual_clusters_do_not_hold_up_another(
    queue: WorkQueue[str],
) -> None:
    loop = asyncio.get_running_loop()
    ended: list[float] = []

    async def reconcile(key: str) -> None:
        if key != "branch-d":
            await asyncio.sleep(30.0)
        ended.append(loop.time())

    for cluster in ("branch-a", "branch-b", "branch-c"):
        queue.add(cluster)
    queue.add("branch-d")
    began = loop.time()
    task = asyncio.ensure_future(Controller(ControllerSpec("test", queue, reconcile)).run())
    await asyncio.sleep(10.0)
    assert ended[0] - began == pytest.approx(3 * RELIEVED_AFTER_S)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_virtual_cluster_that_is_added_does_not_wait_for_slow_keys_of_the_only_one() -> (
    None
):
    registry = VirtualClusters((VirtualCluster(name="branch-a"),))
    queues = Queues(registry, BASE_S, LoopTime(lambda _: 0.0))
    queue: WorkQueue[str] = queues.by_cluster(lambda key: key.partition("/")[0])
    begun: list[str] = []

    async def reconcile(key: str) -> None:
        begun.append(key)
        if key != "branch-b":
            await asyncio.sleep(1000.0)

    for number in range(20):
        queue.add(f"branch-a/{number}")
    spec = ControllerSpec("test", queue, reconcile, FEW_WORKERS)
    task = asyncio.ensure_future(Controller(spec).run())
    await asyncio.sleep(10.0)
    assert len(begun) == FEW_WORKERS
    registry.put(VirtualCluster(name="branch-b"))
    queue.add("branch-b")
    await asyncio.sleep(2 * RELIEVED_AFTER_S)
    assert "branch-b" in begun
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
