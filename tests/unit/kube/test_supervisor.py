"""Supervisor: a part that fails is started again, alone and after a pause."""

import asyncio

import pytest

from karmada_vc_agent.kube.flows import Supervisor


async def test_failing_part_is_started_again_and_its_neighbour_runs_on() -> None:
    restarts: list[str] = []
    runs: list[str] = []

    async def fails_twice() -> None:
        runs.append("failing")
        if len(runs) < 3:
            raise KeyError("a bug")

    async def stays() -> None:
        await asyncio.sleep(600)
        assert len(runs) == 3

    supervisor = Supervisor(restarts.append)
    async with asyncio.TaskGroup() as group:
        supervisor.start(group, "worker", fails_twice, "work-0")
        supervisor.start(group, "reflector", stays)
    assert restarts == ["worker", "worker"]


async def test_part_that_is_cancelled_is_not_started_again() -> None:
    runs: list[int] = []

    async def part() -> None:
        runs.append(1)
        await asyncio.sleep(600)

    task = asyncio.create_task(Supervisor().keep("part", part))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert runs == [1]


async def test_pauses_between_restarts_grow(caplog: pytest.LogCaptureFixture) -> None:
    async def part() -> None:
        raise KeyError("a bug")

    task = asyncio.create_task(Supervisor().keep("part", part))
    await asyncio.sleep(600)
    task.cancel()
    assert 8 < len(caplog.records) < 40
