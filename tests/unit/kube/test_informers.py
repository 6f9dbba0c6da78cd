"""InformerSet: reflectors on demand, one for each resource."""

import asyncio

import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery, Resource
from karmada_vc_agent.kube.informers import InformerSet
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer

MAPS = GroupVersionKind("", "v1", "ConfigMap")
BINDINGS = GroupVersionKind("", "v1", "Binding")


async def resource_of(client: ApiClient, gvk: GroupVersionKind) -> Resource:
    found = await Discovery(client).find(gvk)
    assert found is not None
    return found


async def test_store_is_filled_by_selector_and_changes_are_told(
    host: FakeApiServer, client: ApiClient
) -> None:
    ours = objects.config_map("ours")
    ours["metadata"]["labels"] = {"team": "red"}
    other = objects.config_map("other")
    other["metadata"]["labels"] = {}
    host.seed(ours, other)
    told: list[str] = []

    def on_change(old: Object | None, new: Object | None) -> None:
        thing = new or old
        assert thing is not None
        told.append(thing["metadata"]["name"])

    informers = InformerSet(client, {"labelSelector": "team"}, on_change)
    store = informers.store(await resource_of(client, MAPS))
    assert store is not None
    assert not store.is_synced
    task = asyncio.ensure_future(informers.run())
    await asyncio.sleep(1.0)
    assert store.is_synced
    assert [obj["metadata"]["name"] for obj in store] == ["ours"] == told
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_resource_asked_for_twice_is_watched_once(
    host: FakeApiServer, client: ApiClient
) -> None:
    informers = InformerSet(client, {}, lambda _old, _new: None)
    resource = await resource_of(client, MAPS)
    task = asyncio.ensure_future(informers.run())
    assert informers.store(resource) is informers.store(resource)
    await asyncio.sleep(1.0)
    watches = [request for request in host.requests if request.is_watch]
    assert len(watches) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_resource_that_cannot_be_watched_has_no_store(client: ApiClient) -> None:
    informers = InformerSet(client, {}, lambda _old, _new: None)
    assert informers.store(await resource_of(client, BINDINGS)) is None
