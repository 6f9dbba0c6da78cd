"""Progress and resync: who is late, and who is looked at again."""

import asyncio

import pytest

from karmada_vc_agent.cluster.lease import Progress, vital_checks
from karmada_vc_agent.runner.service import resync
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
    world.register("branch-a")
    world.register("branch-b")
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


async def test_lease_that_hangs_is_told_of_while_the_hub_answers() -> None:
    loop = asyncio.get_running_loop()
    progress = Progress(loop.time)
    started = loop.time()

    async def renew(name: str) -> None:
        progress.note(name)
        await asyncio.Event().wait()

    task = loop.create_task(renew("branch-a"), name="cluster-lease")
    await asyncio.sleep(60.0)
    assert vital_checks([task], progress, 60.0, started) == {"tasks": None, "leases": None}
    await asyncio.sleep(1.0)
    assert vital_checks([task], progress, 60.0, started) == {
        "tasks": None,
        "leases": "no attempt to renew for 60s: branch-a",
    }
    assert vital_checks([task], progress, 60.0, float("inf"))["leases"] is None
    task.cancel()


async def test_task_that_ended_by_itself_is_told_of() -> None:
    async def end() -> None:
        pass

    task = asyncio.get_running_loop().create_task(end(), name="informers")
    checks = vital_checks([task], Progress(), 60.0, 0.0)
    assert checks["tasks"] is None
    await task
    checks = vital_checks([task], Progress(), 60.0, 0.0)
    assert checks["tasks"] == "ended unexpectedly: informers"
