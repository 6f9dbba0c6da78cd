"""Kinds that are not built in: their versions may be of a server behind the API server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.informers import InformerSet, WatchScope
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from tests.fakes.api_server import FakeApiServer

VERBS = frozenset(("get", "list", "watch"))
WIDGETS = Resource(GroupVersionKind("example.com", "v1", "Widget"), "widgets", True, VERBS)
CONFIG_MAPS = Resource(GroupVersionKind("", "v1", "ConfigMap"), "configmaps", True, VERBS)
WIDGETS_PATH = "/apis/example.com/v1/namespaces/edge/widgets"


def obj(resource: Resource, name: str, size: int = 1) -> Object:
    kind = {"apiVersion": resource.gvk.api_version, "kind": resource.gvk.kind}
    return {**kind, "metadata": {"name": name, "namespace": "edge"}, "data": {"size": size}}


def sizes(store: Store[Object]) -> dict[str, int]:
    return {each["metadata"]["name"]: each["data"]["size"] for each in store}


@asynccontextmanager
async def watching(
    client: ApiClient, resource: Resource, scope: WatchScope | None = None
) -> AsyncIterator[Store[Object]]:
    informers = InformerSet(client, {}, lambda _old, _new: None, scope=scope)
    task = asyncio.ensure_future(informers.run())
    store = informers.store(resource)
    assert store is not None
    await until(lambda: store.is_synced)
    yield store
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1500):
        if condition():
            return
        await asyncio.sleep(1.0)
    raise AssertionError("it did not come about")


async def go_back(host: FakeApiServer, store: Store[Object], resource: Resource) -> None:
    """Restore a backup: one object changed since, one came since."""
    host.seed(obj(resource, "changed"))
    backup = host.storage.backup()
    for size in (2, 3):
        host.seed(obj(resource, "changed", size))
    host.seed(obj(resource, "lost"))
    await until(lambda: sizes(store) == {"changed": 3, "lost": 1})
    host.storage.restore(backup)


@pytest.mark.parametrize("in_namespaces", [False, True])
async def test_rolled_back_aggregated_server_alone_is_listed_again(
    host: FakeApiServer, client: ApiClient, *, in_namespaces: bool
) -> None:
    scope = WatchScope(client, lambda: ["edge"]) if in_namespaces else None
    if in_namespaces:
        host.fail(403, path="/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        answer = b'{"status": {"allowed": false}}'
        host.answer(answer, 201, path="/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
    async with watching(client, WIDGETS, scope) as store:
        await go_back(host, store, WIDGETS)
        await until(lambda: sizes(store) == {"changed": 1})
        host.seed(obj(WIDGETS, "new"))
        await until(lambda: sizes(store) == {"changed": 1, "new": 1})
    assert not client.history.is_in_doubt
    assert (client.history.time_resets, client.history.epoch) == (0, 0)


async def test_server_of_its_own_whose_versions_start_over_is_believed(
    host: FakeApiServer, client: ApiClient
) -> None:
    """As of one that keeps its objects in memory, and is started again."""
    async with watching(client, WIDGETS) as store:
        await go_back(host, store, WIDGETS)
        host.storage.compact()
        host.end_watches()
        await until(lambda: sizes(store) == {"changed": 1})
    assert (client.history.time_resets, client.history.epoch) == (0, 0)


@pytest.mark.parametrize("versions_grew", [False, True])
async def test_server_of_its_own_that_was_away_is_believed(
    host: FakeApiServer, client: ApiClient, *, versions_grew: bool
) -> None:
    async with watching(client, WIDGETS) as store:
        await go_back(host, store, WIDGETS)
        if versions_grew:
            host.seed(*(obj(CONFIG_MAPS, f"m{n}") for n in range(9)))
        host.storage.compact()
        host.fail(503, "ServiceUnavailable", path=WIDGETS.path(), times=3)
        host.end_watches()
        await until(lambda: sizes(store) == {"changed": 1})
    assert (client.history.time_resets, client.history.epoch) == (0, 0)


async def test_versions_of_built_in_kinds_are_of_the_api_server(
    host: FakeApiServer, client: ApiClient
) -> None:
    async with watching(client, CONFIG_MAPS) as store:
        await go_back(host, store, CONFIG_MAPS)
        await until(lambda: sizes(store) == {"changed": 1})
    assert client.history.time_resets == 1


@pytest.mark.parametrize("resource", [WIDGETS, CONFIG_MAPS])
async def test_doubt_waits_for_built_in_kinds_only(
    host: FakeApiServer, client: ApiClient, resource: Resource
) -> None:
    async with watching(client, resource):
        host.fail(503, "ServiceUnavailable", path=resource.path(), times=1_000_000)
        client.history.notice("as the test wants")
        await asyncio.sleep(60.0)
        assert client.history.is_in_doubt is (resource is CONFIG_MAPS)
