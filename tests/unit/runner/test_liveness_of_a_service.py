"""What a service that runs says of itself: nothing of it ended that must run until the end."""

import asyncio

import pytest

from karmada_vc_agent import agent
from karmada_vc_agent.features.checkpoint.feature import CHECK_S
from karmada_vc_agent.features.checkpoint.reader import CheckpointSettings
from karmada_vc_agent.runner import service
from tests.fuzz.served_ways import field


@pytest.mark.parametrize("enabled", [False, True])
async def test_service_fully_synced_by_the_hub_is_alive(*, enabled: bool) -> None:
    """What serves from the checkpoint has no more to do by then."""
    async with field(checkpoint=CheckpointSettings(enabled)) as running:
        await asyncio.sleep(2 * CHECK_S)
        assert running.agent.liveness() == {"tasks": None, "leases": None}


async def test_the_end_waits_only_for_what_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lead is given back after it: a standby waits for as long."""
    monkeypatch.setattr(service, "FINISH_S", 60.0)
    monkeypatch.setattr(agent, "END_S", 60.0)
    async with field() as running:
        pass
    assert running.task is not None
    assert not running.task.cancelled(), "it had to be ended"


async def test_task_that_ended_by_itself_fails_the_check() -> None:
    async with field() as running:
        await asyncio.sleep(CHECK_S)
        ended = asyncio.create_task(asyncio.sleep(0), name="informers")
        await ended
        assert running.agent.service is not None
        running.agent.service._tasks.append(ended)
        assert running.agent.liveness()["tasks"] == "ended unexpectedly: informers"
