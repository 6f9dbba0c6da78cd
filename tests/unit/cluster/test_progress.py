"""Liveness and resync: who is late, and who is looked at again."""

import asyncio

import pytest

from karmada_vc_agent.cluster.lease import vital_checks
from karmada_vc_agent.runner.service import resync
from tests.fakes import objects
from tests.fakes.world import World

LONG_AGO = 0.0


def late(attempts: dict[str, float], now: float, possible_since: float) -> str | None:
    return vital_checks([], attempts, 60.0, possible_since, now)["leases"]


def test_nobody_is_late_who_tried_in_time() -> None:
    attempts = {"a": 1000.0, "b": 1050.0}
    assert late(attempts, 1061.0, LONG_AGO) == "no attempt to renew for 60s: a"
    assert late({"b": 1050.0}, 1061.0, LONG_AGO) is None


def test_time_of_an_outage_does_not_count() -> None:
    attempts, now = {"a": 1000.0}, 1600.0
    assert late(attempts, now, float("inf")) is None
    assert late(attempts, now, now - 59) is None
    assert late(attempts, now, now - 61) == "no attempt to renew for 60s: a"


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


async def test_task_that_ended_by_itself_is_told_of() -> None:
    async def end() -> None:
        pass

    task = asyncio.get_running_loop().create_task(end(), name="informers")
    checks = vital_checks([task], {}, 60.0, 0.0, 0.0)
    assert checks["tasks"] is None
    await task
    checks = vital_checks([task], {}, 60.0, 0.0, 0.0)
    assert checks["tasks"] == "ended unexpectedly: informers"
