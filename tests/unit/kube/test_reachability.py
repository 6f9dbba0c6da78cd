"""Outage: the last word of all clients counts, an idle one's old one does not."""

import pytest

from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.kube.store import NEVER, QUIET_S, History
from tests.fakes.api_server import FakeApiServer

PATH = "/api/v1/namespaces"
BEGINS, ENDS = "Waiting for API server", "API server answers again"


class Clock:
    time = 5.0

    def __call__(self) -> float:
        return self.time


async def test_server_is_taken_to_answer_until_it_does_not(host: FakeApiServer) -> None:
    outage = History("host", Clock())
    client = host.client("host", history=outage)
    assert (outage.is_reachable, outage.since) == (True, 5.0)
    await client.get(PATH)
    assert outage.is_reachable
    with host.down(), pytest.raises(UnreachableError):
        await client.get(PATH)
    assert (outage.is_reachable, outage.since) == (False, NEVER)


async def test_answer_on_one_lane_ends_the_outage_of_an_idle_one(host: FakeApiServer) -> None:
    clock = Clock()
    outage = History("host", clock)
    busy, idle = (host.client(name, history=outage) for name in ("host", "host (idle)"))
    for client in (busy, idle):
        with host.down(), pytest.raises(UnreachableError):
            await client.get(PATH)
    clock.time = 50.0
    await busy.get(PATH)
    assert (outage.is_reachable, outage.since) == (True, 50.0)
    assert not idle.is_reachable


@pytest.fixture(name="clock")
def start_clock() -> Clock:
    return Clock()


@pytest.fixture(name="outage")
def log_outages(clock: Clock, caplog: pytest.LogCaptureFixture) -> History:
    caplog.set_level("INFO")
    return History("hub", clock)


async def test_outages_that_follow_one_another_are_not_all_logged(
    outage: History, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(50):
        outage.begin_outage("url", "certificate has expired")
        clock.time += 0.1
        outage.answered(was_away=True)
    assert caplog.messages == [BEGINS, ENDS]


async def test_outage_that_lasts_is_logged_however_soon_it_follows_another(
    outage: History, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    outage.begin_outage("url", "refused")
    outage.answered(was_away=True)
    outage.begin_outage("url", "refused")
    clock.time += QUIET_S
    assert caplog.messages == [BEGINS, ENDS]
    outage.begin_outage("url", "refused")
    outage.answered(was_away=True)
    assert caplog.messages == [BEGINS, ENDS, BEGINS, ENDS]
    assert caplog.records[-1].away_s == QUIET_S  # type: ignore[attr-defined]
