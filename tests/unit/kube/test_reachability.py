"""Reachability: the last word of all lanes counts, an idle lane's old one does not."""

import pytest

from karmada_vc_agent.kube.errors import UnreachableError
from karmada_vc_agent.kube.reachability import NEVER, Reachability
from tests.fakes.api_server import FakeApiServer

PATH = "/api/v1/namespaces"


class Clock:
    time = 5.0

    def __call__(self) -> float:
        return self.time


async def test_server_is_taken_to_answer_until_it_does_not(host: FakeApiServer) -> None:
    client = host.client("host")
    reachability = Reachability([client], Clock())
    assert (reachability.is_reachable, reachability.since) == (True, 5.0)
    await client.get(PATH)
    assert reachability.is_reachable
    with host.down(), pytest.raises(UnreachableError):
        await client.get(PATH)
    assert (reachability.is_reachable, reachability.since) == (False, NEVER)


async def test_answer_on_one_lane_ends_the_outage_of_an_idle_one(host: FakeApiServer) -> None:
    clock = Clock()
    busy, idle = host.client("host"), host.client("host (idle)")
    reachability = Reachability([busy, idle], clock)
    for client in (busy, idle):
        with host.down(), pytest.raises(UnreachableError):
            await client.get(PATH)
    clock.time = 50.0
    await busy.get(PATH)
    assert (reachability.is_reachable, reachability.since) == (True, 50.0)
    assert not idle.is_reachable
