"""Queues: the back-off of the settings counts for every controller."""

import asyncio

import pytest

from karmada_vc_agent.kube.work_queue import WorkQueue
from karmada_vc_agent.parts.queues import Queues
from karmada_vc_agent.views.virtual_clusters import VirtualClusters

BASE_S = 7.0
QUEUES = Queues(VirtualClusters(), BASE_S)


@pytest.mark.parametrize(
    "queue", [QUEUES.by_name(), QUEUES.by_cluster(lambda key: key)], ids=["name", "cluster"]
)
async def test_first_back_off_is_that_of_the_settings(queue: WorkQueue[str]) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    queue.add_rate_limited("a")
    assert await queue.take() == "a"
    assert loop.time() - started == pytest.approx(BASE_S)
