"""Progress and resync: who is late, and who is looked at again."""

import asyncio

import pytest

from karmada_vc_agent.fleet.progress import Progress
from karmada_vc_agent.fleet.resync import resync
from tests.fakes import objects
from tests.fakes.world import World

LONG_AGO = 0.0


class Clock:
    time = 1000.0

    def __call__(self) -> float:
        return self.time


def test_nobody_is_late_who_tried_in_time() -> None:
    clock = Clock()
    progress = Progress(clock)
    progress.note("a")
    progress.note("b")
    clock.time += 50
    progress.note("b")
    clock.time += 11
    assert progress.late(60.0, LONG_AGO) == ["a"]
    progress.forget("a")
    assert progress.late(60.0, LONG_AGO) == []


def test_time_of_an_outage_does_not_count() -> None:
    clock = Clock()
    progress = Progress(clock)
    progress.note("a")
    clock.time += 600
    assert progress.late(60.0, float("inf")) == []
    assert progress.late(60.0, clock.time - 59) == []
    assert progress.late(60.0, clock.time - 61) == ["a"]


async def test_resync_queues_every_work_each_period(world: World) -> None:
    world.hub.seed(objects.work(name="one"), objects.work(name="two", vc="branch-b"))
    world.look()
    queued: list[tuple[str, str]] = []
    task = asyncio.ensure_future(resync(60.0, world.virtual_clusters, world.works, queued.append))
    await asyncio.sleep(59.0)
    assert queued == []
    await asyncio.sleep(62.0)
    assert sorted(queued) == [("branch-a", "one")] * 2 + [("branch-b", "two")] * 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
