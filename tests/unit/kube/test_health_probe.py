"""HealthProbe: one question for all who ask within a while."""

import asyncio

import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import HealthProbe
from tests.fakes.api_server import FakeApiServer
from tests.fakes.virtual_time import Clock


@pytest.mark.parametrize(
    ("ready", "healthy", "expected"),
    [(200, 500, 200), (500, 200, 500), (404, 200, 200), (404, 503, 503), (404, 404, 404)],
)
async def test_status_is_that_of_readyz_or_else_of_healthz(
    host: FakeApiServer, client: ApiClient, ready: int, healthy: int, expected: int
) -> None:
    host.health = {"/readyz": ready, "/healthz": healthy}
    assert await HealthProbe(client, 5.0, Clock()).status() == expected


async def test_no_answer_is_no_status(host: FakeApiServer, client: ApiClient) -> None:
    with host.down():
        assert await HealthProbe(client, 5.0, Clock()).status() is None


async def test_answer_is_shared_until_it_is_old(host: FakeApiServer, client: ApiClient) -> None:
    clock = Clock()
    probe = HealthProbe(client, 5.0, clock)
    assert await asyncio.gather(*(probe.status() for _ in range(10))) == [200] * 10
    assert len(host.requests) == 1
    host.health["/readyz"] = 500
    clock.advance(4.9)
    assert await probe.status() == 200
    clock.advance(0.2)
    assert await probe.status() == 500
