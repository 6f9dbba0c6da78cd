"""Fixtures of all unit tests."""

from collections.abc import AsyncIterator

import pytest

from karmada_vc_agent.kube.client import ApiClient
from tests.fakes import served
from tests.fakes.api_server import FakeApiServer
from tests.fakes.world import World, new_world


@pytest.fixture
async def host() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer(served.HOST) as server:
        yield server


@pytest.fixture
async def hub() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer(served.HUB) as server:
        yield server


@pytest.fixture
async def client(host: FakeApiServer) -> ApiClient:
    return host.client()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with new_world() as made:
        yield made
