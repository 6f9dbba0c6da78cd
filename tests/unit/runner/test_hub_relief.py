"""When a leader hands over: what lasts, and never an uplink that comes and goes."""

import asyncio
from unittest.mock import MagicMock

import pytest

from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.runner.hub_presence import (
    AWAY_S,
    CHECK_S,
    LED_S,
    STEADY_S,
    HubStart,
)
from tests.fakes.world import World


class Leader:
    """Looks at the hub with each renewal."""

    def __init__(self) -> None:
        self.now = 0.0
        self.is_away = False
        start = HubStart(AgentConfig(), MagicMock(), MagicMock(), lambda: self.now)
        self.relief = start.hand_over(lambda: self.is_away)
        self.relief.is_lacking()

    def after(self, seconds: float) -> bool:
        self.now += seconds
        return self.relief.is_lacking()


@pytest.fixture
def leader() -> Leader:
    made = Leader()
    assert not made.after(LED_S)
    return made


def test_hub_that_is_away_for_long_is_a_reason(leader: Leader) -> None:
    leader.is_away = True
    assert not leader.after(1.0)
    assert not leader.after(AWAY_S - 1.0)
    assert leader.after(1.0)


def test_flapping_hub_counts_as_none(leader: Leader) -> None:
    for _ in range(100):
        leader.is_away = True
        assert not leader.after(1.0)
        assert not leader.after(AWAY_S - 1.0)
        leader.is_away = False
        assert not leader.after(1.0)


def test_who_leads_since_just_now_keeps_the_lead() -> None:
    leader = Leader()
    leader.is_away = True
    assert not leader.after(AWAY_S)
    assert not leader.after(LED_S - AWAY_S - 1.0)
    assert leader.after(1.0)


def test_hub_that_is_just_back_has_answered_the_leader_first() -> None:
    assert STEADY_S > AWAY_S >= 2 * 2.0, "more than two renewals"
    assert LED_S >= AWAY_S + STEADY_S


async def test_standby_counts_good_answers_in_a_row(world: World) -> None:
    clock = asyncio.get_running_loop().time
    presence = HubStart(AgentConfig(), world.hub_client, world.host_client, clock)
    assert presence.answers_for_s() == 0.0
    task = asyncio.ensure_future(presence.keep_checking())
    await asyncio.sleep(STEADY_S + 1.0)
    assert presence.answers_for_s() >= STEADY_S
    world.hub.fail(503, "ServiceUnavailable", method="GET", path=CLUSTERS_PATH, times=1)
    await asyncio.sleep(CHECK_S)
    assert presence.answers_for_s() == 0.0
    await asyncio.sleep(CHECK_S)
    assert presence.answers_for_s() < STEADY_S
    task.cancel()
