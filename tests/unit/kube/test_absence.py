"""Only discovery says that a kind is absent; pages, outages and half an API server do not."""

import asyncio
from functools import partial

import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.discovery import Discovery, is_absent, items_unless_absent
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.reflector import Reflector, check_listed
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object
from tests.fakes.api_server import FakeApiServer
from tests.fakes.objects import config_map
from tests.fakes.pages import PAGES, PageFault
from tests.fakes.served import Served

WIDGETS = "/apis/kinds.example.org/v1/widgets"
IN_NAMESPACE = "/apis/kinds.example.org/v1/namespaces/edge/widgets"
WIDGET = Served("kinds.example.org/v1", "widgets", "Widget", is_custom=True)
GADGET = Served("kinds.example.org/v1", "gadgets", "Gadget", is_custom=True)
ALL_PAGES = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
LONG_S = 60.0


def seed_widget(host: FakeApiServer) -> None:
    host.storage.served.append(WIDGET)
    metadata = {"name": "w", "namespace": "edge"}
    host.seed({"apiVersion": "kinds.example.org/v1", "kind": "Widget", "metadata": metadata})


def follow(client: ApiClient, path: str) -> tuple[Reflector[Object], Store[Object]]:
    """Return a reflector that may learn that its kind is absent."""
    store: Store[Object] = Store(RawCodec())
    absent = partial(is_absent, client, path)
    return Reflector(client, path, RawCodec(), store, is_absent=absent), store


async def test_absence_of_many_kinds_is_read_once(host: FakeApiServer, client: ApiClient) -> None:
    for _ in range(3):
        assert await is_absent(client, IN_NAMESPACE)
    assert ["If-None-Match" in each.headers for each in host.requests] == [False, True, True]
    seed_widget(host)
    assert not await is_absent(client, IN_NAMESPACE)
    host.storage.served.remove(WIDGET)
    assert await is_absent(client, IN_NAMESPACE)


@ALL_PAGES
async def test_page_empties_no_store(
    host: FakeApiServer, client: ApiClient, page: PageFault
) -> None:
    seed_widget(host)
    reflector, store = follow(client, WIDGETS)
    task = asyncio.ensure_future(reflector.run())
    await reflector.wait_synced()
    host.answer(page.body, page.code, times=1_000_000)
    host.end_watches()
    await asyncio.sleep(LONG_S)
    assert (len(store), store.is_synced) == (1, True)
    assert reflector.failure
    assert LONG_S / 2 < reflector.failing_s <= LONG_S
    host.clear_faults()
    await asyncio.sleep(LONG_S)
    assert not reflector.failure
    host.remove(f"{IN_NAMESPACE}/w")
    await asyncio.sleep(LONG_S)
    assert len(store) == 0, "what the server reports counts again"
    task.cancel()


@ALL_PAGES
async def test_page_is_no_first_list(
    host: FakeApiServer, client: ApiClient, page: PageFault
) -> None:
    seed_widget(host)
    host.answer(page.body, page.code, times=1_000_000)
    reflector, store = follow(client, WIDGETS)
    task = asyncio.ensure_future(reflector.run())
    await asyncio.sleep(LONG_S)
    assert not store.is_synced
    assert not reflector.is_synced
    host.clear_faults()
    await reflector.wait_synced()
    assert len(store) == 1
    task.cancel()


@ALL_PAGES
async def test_page_lists_nothing(host: FakeApiServer, client: ApiClient, page: PageFault) -> None:
    seed_widget(host)
    await check_listed(client, WIDGETS)
    host.answer(page.body, page.code, times=1_000_000)
    with pytest.raises(KubeError):
        await check_listed(client, WIDGETS)
    assert not await is_absent(client, WIDGETS)


@ALL_PAGES
async def test_page_is_no_object_and_deletes_none(
    host: FakeApiServer, client: ApiClient, page: PageFault
) -> None:
    path = "/api/v1/namespaces/edge/configmaps/web"
    host.seed(config_map("web"))
    host.answer(page.body, page.code, times=1_000_000)
    with pytest.raises(KubeError):
        await client.get(path)
    with pytest.raises(KubeError):
        await client.delete(path)


@ALL_PAGES
async def test_page_is_no_discovery(
    host: FakeApiServer, client: ApiClient, page: PageFault
) -> None:
    discovery = Discovery(client, unknown_for_s=0.0)
    before = (await discovery.refresh()).by_kind
    host.answer(page.body, page.code, times=1_000_000)
    with pytest.raises(KubeError):
        await discovery.refresh()
    assert discovery.served.by_kind == before


async def test_kind_is_absent_where_the_api_server_does_not_list_it(
    host: FakeApiServer, client: ApiClient
) -> None:
    assert await is_absent(client, WIDGETS), "no such group"
    host.storage.served.append(GADGET)
    assert await is_absent(client, WIDGETS), "no such resource in the group"
    assert await is_absent(client, "/apis/kinds.example.org/v2/gadgets"), "no such version"
    host.storage.served.append(WIDGET)
    assert not await is_absent(client, WIDGETS)
    assert not await is_absent(client, IN_NAMESPACE)
    assert not await is_absent(client, "/api/v1/namespaces"), "every API server serves these"


async def test_kind_that_discovery_lists_is_not_absent_whatever_a_list_gets(
    host: FakeApiServer, client: ApiClient
) -> None:
    seed_widget(host)
    reflector, store = follow(client, WIDGETS)
    task = asyncio.ensure_future(reflector.run())
    await reflector.wait_synced()
    host.answer(b"404 page not found", 404, path=WIDGETS, times=1_000_000)
    host.end_watches()
    await asyncio.sleep(LONG_S)
    assert len(store) == 1
    task.cancel()


async def test_items_of_a_kind_that_is_absent_are_none(
    host: FakeApiServer, client: ApiClient
) -> None:
    assert await items_unless_absent(client, WIDGETS) is None
    seed_widget(host)
    assert len(await items_unless_absent(client, WIDGETS) or ()) == 1
    host.answer(b"404 page not found", 404, path=WIDGETS)
    with pytest.raises(KubeError):
        await items_unless_absent(client, WIDGETS)


@ALL_PAGES
async def test_page_is_no_response_to_a_write(
    host: FakeApiServer, client: ApiClient, page: PageFault
) -> None:
    made = config_map("web")
    path = "/api/v1/namespaces/edge/configmaps"
    host.answer(page.body, page.code, times=1_000_000)
    with pytest.raises(KubeError):
        await client.create(path, made)
    for write in (client.replace, client.merge_patch):
        with pytest.raises(KubeError):
            await write(f"{path}/web", made)
        with pytest.raises(KubeError):
            await write(f"{path}/web/status", made)
    with pytest.raises(KubeError):
        await client.server_side_apply(f"{path}/web", made, "test")
