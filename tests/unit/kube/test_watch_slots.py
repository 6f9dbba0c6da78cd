"""WatchSlots: where there are few, watches are short, so that each gets one."""

import asyncio

from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.flows import WatchSlots
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object
from tests.fakes.api_server import FakeApiServer
from tests.fakes.objects import config_map, namespace

CONFIG_MAPS = "/api/v1/configmaps"
NAMESPACES = "/api/v1/namespaces"


async def test_reflectors_that_share_a_slot_miss_nothing(host: FakeApiServer) -> None:
    client = host.client(watch_slots=WatchSlots(1))
    host.seed(namespace("edge"))
    stores: dict[str, Store[Object]] = {
        path: Store(RawCodec()) for path in (CONFIG_MAPS, NAMESPACES)
    }
    tasks = [
        asyncio.ensure_future(Reflector(client, path, RawCodec(), store).run())
        for path, store in stores.items()
    ]
    await asyncio.sleep(1.0)
    for number in range(3):
        host.seed(config_map(f"map-{number}"), namespace(f"other-{number}"))
        for path, ns, name in (
            (CONFIG_MAPS, "edge", f"map-{number}"),
            (NAMESPACES, "", f"other-{number}"),
        ):
            await _until_cached(stores[path], ns, name)
    assert client.is_reachable
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _until_cached(store: Store[Object], ns: str, name: str) -> None:
    for _ in range(1000):
        if store.get(ns, name) is not None:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} is not known")
