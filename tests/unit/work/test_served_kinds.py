"""What the host serves is asked again when its definitions change."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import DEFINITIONS_PATH as PATH
from karmada_vc_agent.kube.discovery import Discovery, ServedApis
from karmada_vc_agent.model.objects import GroupVersionKind
from karmada_vc_agent.work.served_kinds import ServedKinds
from tests.fakes.api_server import FakeApiServer
from tests.fakes.served import Served

GADGET = GroupVersionKind("example.com", "v1", "Gadget")
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {},
}


@pytest.fixture
async def host() -> AsyncIterator[FakeApiServer]:
    api = "apiextensions.k8s.io/v1"
    kind = "CustomResourceDefinition"
    definitions = Served(api, "customresourcedefinitions", kind, namespaced=False)
    async with FakeApiServer((definitions,)) as server:
        yield server


@asynccontextmanager
async def following(client: ApiClient, told: list[ServedApis]) -> AsyncIterator[Discovery]:
    discovery = Discovery(client)
    task = asyncio.ensure_future(ServedKinds(client, discovery, told.append).run())
    try:
        await asyncio.sleep(5.0)
        yield discovery
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    for _ in range(200):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not come about")


async def test_kind_whose_definition_appears_is_notified(
    host: FakeApiServer, client: ApiClient
) -> None:
    told: list[ServedApis] = []
    async with following(client, told) as discovery:
        assert told
        assert await discovery.find(GADGET) is None
        told.clear()
        host.storage.served.append(Served("example.com/v1", "gadgets", "Gadget"))
        host.seed(DEFINITION)
        await until(lambda: told)
        assert GADGET in told[0].by_kind


async def test_kind_served_a_moment_later_is_notified(
    host: FakeApiServer, client: ApiClient
) -> None:
    told: list[ServedApis] = []
    async with following(client, told):
        told.clear()
        host.requests.clear()
        host.seed(DEFINITION)
        await until(lambda: [request for request in host.requests if request.path == "/apis"])
        host.storage.served.append(Served("example.com/v1", "gadgets", "Gadget"))
        await until(lambda: told)
        assert GADGET in told[-1].by_kind


async def test_kind_that_another_reader_noticed_is_notified(
    host: FakeApiServer, client: ApiClient
) -> None:
    told: list[ServedApis] = []
    async with following(client, told) as discovery:
        told.clear()
        host.storage.served.append(Served("example.com/v1", "gadgets", "Gadget"))
        await discovery.refresh()
        await until(lambda: told)
        assert GADGET in told[-1].by_kind


async def test_many_changes_cost_few_requests(host: FakeApiServer, client: ApiClient) -> None:
    async with following(client, []):
        host.requests.clear()
        for number in range(200):
            host.seed(DEFINITION | {"metadata": {"name": f"k{number}.example.com"}})
        await asyncio.sleep(10.0)
        assert len([request for request in host.requests if request.path == "/apis"]) <= 12


async def test_without_the_right_to_watch_definitions_it_waits(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.fail(403, path=PATH)
    told: list[ServedApis] = []
    async with following(client, told):
        await asyncio.sleep(100.0)
        assert told == []
        assert len([request for request in host.requests if request.path == PATH]) == 1
