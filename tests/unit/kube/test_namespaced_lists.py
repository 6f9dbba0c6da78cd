"""NamespacedWatches: one store of several namespaces, which is whole or says that it is not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.informers import WatchScope, namespaced_reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from tests.fakes.api_server import FakeApiServer

SECRETS = Resource(GroupVersionKind("", "v1", "Secret"), "secrets", namespaced=True)
ONE = "/api/v1/namespaces/one/secrets"


def secret(namespace: str, name: str, value: str = "1") -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"value": value}}


@asynccontextmanager
async def watching(client: ApiClient, namespaces: set[str]) -> AsyncIterator[Store[Object]]:
    store: Store[Object] = Store(RawCodec())
    scope = WatchScope(client, lambda: namespaces)
    task = asyncio.ensure_future(namespaced_reflector(client, SECRETS, store, {}, scope).run())
    await asyncio.sleep(1.0)
    yield store
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_secrets_of_a_host_that_was_restored_are_believed(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(secret("one", "changed"), secret("one", "kept"))
    backup = host.storage.backup()
    async with watching(client, {"one"}) as store:
        written = host.change(f"{ONE}/changed", data={"value": "2"})
        await asyncio.sleep(1.0)
        written = host.change(f"{ONE}/changed", data={"value": "3"})
        store.observe(written)
        store.observe(host.seed(secret("one", "lost")))
        host.storage.restore(backup)
        client.history.notice("as the test wants")
        await asyncio.sleep(60.0)
        changed = store.get("one", "changed")
        assert changed is not None
        assert changed["data"] == {"value": "1"}
        assert store.get("one", "lost") is None
        assert store.get("one", "kept") is not None


async def test_store_is_synced_only_when_all_namespaces_are_listed(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(secret("one", "a"), secret("two", "b"))
    host.fail(403, "Forbidden", path=ONE, times=6)
    async with watching(client, {"one", "two"}) as store:
        assert store.get("two", "b") is not None
        assert not store.is_synced
        await asyncio.sleep(30.0)
        assert store.get("one", "a") is not None
        assert store.is_synced


async def test_namespace_added_later_is_listed_before_all_is_synced(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(secret("one", "a"))
    namespaces: set[str] = set()
    store: Store[Object] = Store(RawCodec())
    scope = WatchScope(client, lambda: namespaces)
    task = asyncio.ensure_future(namespaced_reflector(client, SECRETS, store, {}, scope).run())
    await asyncio.sleep(1.0)
    assert store.is_synced
    released = host.hold("GET", ONE)
    namespaces.add("one")
    scope.changed()
    await asyncio.sleep(1.0)
    assert not store.is_synced
    released.set()
    await asyncio.sleep(1.0)
    assert store.is_synced
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
