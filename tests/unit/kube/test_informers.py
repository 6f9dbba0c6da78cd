"""InformerSet: what is told of, and what its writer knows already."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import SELF_ACCESS_REVIEWS_PATH, Resource
from karmada_vc_agent.kube.errors import FORBIDDEN_S
from karmada_vc_agent.kube.informers import IDLE_S, InformerSet, WatchScope
from karmada_vc_agent.kube.reflector import WATCH_S
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from tests.fakes.api_server import FakeApiServer

VERBS = frozenset(("get", "list", "watch"))
CONFIG_MAPS = Resource(GroupVersionKind("", "v1", "ConfigMap"), "configmaps", True, VERBS)


def obj(version: int) -> Object:
    metadata = {"name": "web", "namespace": "edge", "uid": "u1", "resourceVersion": str(version)}
    return {"kind": "ConfigMap", "metadata": metadata}


def new_store(client: ApiClient) -> tuple[Store[Object], list[Object | None]]:
    """Return a store of the set, and the objects that its listener is told of."""
    told: list[Object | None] = []
    informers = InformerSet(client, {}, lambda _, new: told.append(new))
    store = informers.store(CONFIG_MAPS)
    assert store is not None
    return store, told


async def test_change_observed_by_its_writer_is_not_notified(client: ApiClient) -> None:
    store, told = new_store(client)
    store.observe(obj(1))
    store.apply(obj(1))
    assert told == []


async def test_change_before_its_writer_observes_it_is_notified(client: ApiClient) -> None:
    store, told = new_store(client)
    store.apply(obj(1))
    store.observe(obj(1))
    assert told == [obj(1)]


async def test_later_change_and_deletion_are_notified(client: ApiClient) -> None:
    store, told = new_store(client)
    store.observe(obj(1))
    store.apply(obj(2))
    store.remove(obj(3))
    assert told == [obj(2), None]


async def test_resource_that_cannot_be_watched_has_no_store(client: ApiClient) -> None:
    resource = Resource(GroupVersionKind("", "v1", "Binding"), "bindings", True)
    assert InformerSet(client, {}, lambda _old, _new: None).store(resource) is None


# --- what nobody asks for any more --------------------------------------------------------------

WIDGETS = Resource(GroupVersionKind("example.com", "v1", "Widget"), "widgets", True, VERBS)
PATH = "/apis/example.com/v1/widgets"
WIDGET = "/apis/example.com/v1/namespaces/edge/widgets/gear"


def widget() -> Object:
    metadata = {"name": "gear", "namespace": "edge"}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}


@asynccontextmanager
async def returning(
    client: ApiClient, scope: WatchScope | None = None
) -> AsyncIterator[tuple[InformerSet, list[str]]]:
    """Yield a set that returns what nobody uses, and the names that it told of."""
    told: list[str] = []

    def changed(old: Object | None, new: Object | None) -> None:
        told.append(("+" if new else "-") + (new or old or {})["metadata"]["name"])

    informers = InformerSet(client, {}, changed, scope=scope, idle_s=IDLE_S)
    task = asyncio.ensure_future(informers.run())
    yield informers, told
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def is_watched(host: FakeApiServer, plural: str = "widgets") -> bool:
    """Whether a resource is asked for within the longest time that a watch is silent."""
    host.requests.clear()
    await asyncio.sleep(WATCH_S[1] + 20.0)
    return any(request.path.endswith(plural) for request in host.requests)


async def test_unused_kind_is_no_longer_watched_until_used_again(
    host: FakeApiServer, client: ApiClient
) -> None:
    async with returning(client) as (informers, told):
        informers.store(WIDGETS)
        assert await is_watched(host)
        await asyncio.sleep(IDLE_S)
        assert not await is_watched(host)
        assert informers.stores() == {}
        host.seed(widget())
        await asyncio.sleep(1.0)
        assert told == []

        for _ in range(2):  # asked for twice, it runs once
            again = informers.store(WIDGETS)
        await asyncio.sleep(1.0)
        assert again is not None
        assert again.is_synced
        lists = [r for r in host.asked("GET", PATH) if not r.is_watch]
        assert (len(lists), told) == (1, ["+gear"])
        host.remove(WIDGET)
        await asyncio.sleep(1.0)
        assert told == ["+gear", "-gear"]
        await asyncio.sleep(1.5 * IDLE_S)
        assert not await is_watched(host)


async def test_kind_that_has_objects_is_watched_on(host: FakeApiServer, client: ApiClient) -> None:
    host.seed(widget())
    async with returning(client) as (informers, told):
        informers.store(WIDGETS)
        await asyncio.sleep(3 * IDLE_S)
        host.remove(WIDGET)
        await asyncio.sleep(1.0)
        assert told == ["+gear", "-gear"]


async def test_requested_kind_keeps_its_store(host: FakeApiServer, client: ApiClient) -> None:
    async with returning(client) as (informers, _):
        store = informers.store(WIDGETS)
        for _ in range(8):
            await asyncio.sleep(IDLE_S / 2)
            assert informers.store(WIDGETS) is store


async def test_kind_whose_list_is_missing_is_waited_for(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(widget())
    host.fail(503, path=PATH, times=1_000_000)
    async with returning(client) as (informers, told):
        informers.store(WIDGETS)
        await asyncio.sleep(3 * IDLE_S)
        host._faults.clear()
        await asyncio.sleep(30.0)
        assert told == ["+gear"]


@pytest.mark.parametrize("is_whole", [True, False])
async def test_forbidden_kind_is_requested_seldom_and_served_once_allowed(
    host: FakeApiServer, client: ApiClient, caplog: pytest.LogCaptureFixture, is_whole: bool
) -> None:
    path = PATH if is_whole else WIDGETS.path("edge")
    scope = None if is_whole else WatchScope(client, lambda: ["edge"])
    host.answer(b'{"status": {"allowed": false}}', 201, path=SELF_ACCESS_REVIEWS_PATH)
    host.seed(widget())
    host.fail(500, path=path, times=30, message="ill")
    host.fail(403, "Forbidden", path=path, times=1_000_000)
    async with returning(client, scope) as (informers, told):
        informers.store(WIDGETS)
        await asyncio.sleep(3600.0)
        refused = [r.message for r in caplog.records if r.message == "Waiting to watch"]
        assert len(refused) == 2, "one for each reason"
        asked = len(host.asked("GET", path))
        assert 30 < asked < 30 + 9 + 3600 / (FORBIDDEN_S / 2)
        host._faults.clear()
        await asyncio.sleep(FORBIDDEN_S + 1.0)
        assert told == ["+gear"]


async def test_kinds_of_kubernetes_itself_are_few_and_stay(
    host: FakeApiServer, client: ApiClient
) -> None:
    async with returning(client) as (informers, told):
        informers.store(CONFIG_MAPS)
        await asyncio.sleep(3 * IDLE_S)
        host.seed({"apiVersion": "v1", **obj(1)})
        await asyncio.sleep(1.0)
        assert told == ["+web"]


async def test_watches_in_namespaces_are_returned_too(
    host: FakeApiServer, client: ApiClient
) -> None:
    namespaces = ["edge", "other"]
    scope = WatchScope(client, lambda: namespaces)
    for _ in range(2):
        host.answer(b'{"status": {"allowed": false}}', 201, path=SELF_ACCESS_REVIEWS_PATH)
    async with returning(client, scope) as (informers, told):
        informers.store(WIDGETS)
        assert await is_watched(host)
        await asyncio.sleep(IDLE_S)
        assert not await is_watched(host)
        namespaces.append("third")
        scope.changed()
        assert not await is_watched(host)
        host.seed(widget())
        informers.store(WIDGETS)
        await asyncio.sleep(1.0)
        assert await is_watched(host)
        assert told == ["+gear"]


async def test_set_for_future_objects_stops_no_watch(
    host: FakeApiServer, client: ApiClient
) -> None:
    told: list[Object | None] = []
    informers = InformerSet(client, {}, lambda _, new: told.append(new))
    task = asyncio.ensure_future(informers.run())
    informers.store(WIDGETS)
    await asyncio.sleep(3 * IDLE_S)
    host.seed(widget())
    await asyncio.sleep(1.0)
    assert len(told) == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
