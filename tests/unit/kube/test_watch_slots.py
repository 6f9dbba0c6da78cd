"""WatchSlots: never more at once than may be, and everybody's turn comes."""

import asyncio

from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.flows import OPEN_AT_LEAST_S, WatchSlots
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object
from tests.fakes.api_server import FakeApiServer
from tests.fakes.objects import config_map, namespace

CONFIG_MAPS = "/api/v1/configmaps"
NAMESPACES = "/api/v1/namespaces"


async def test_turns_are_never_more_than_may_be_and_each_comes() -> None:
    turns = WatchSlots(2)
    held = most = 0
    came: list[int] = []

    async def watch(number: int) -> None:
        nonlocal held, most
        async with turns.take() as turn:
            held += 1
            most = max(most, held)
            came.append(number)
            closed = asyncio.Event()
            turn.opened(closed.set)
            await closed.wait()
            held -= 1

    started = asyncio.get_running_loop().time()
    tasks = [asyncio.ensure_future(watch(number)) for number in range(6)]
    await asyncio.wait(tasks[:4])
    assert came == [0, 1, 2, 3, 4, 5]
    assert most == 2
    assert asyncio.get_running_loop().time() - started == 2 * OPEN_AT_LEAST_S
    assert not any(task.done() for task in tasks[4:]), "nobody waits for their turns"
    for task in tasks[4:]:
        task.cancel()


async def test_nobody_is_closed_where_there_is_room() -> None:
    turns = WatchSlots(2)
    async with turns.take() as one, turns.take() as two:
        await asyncio.sleep(100 * OPEN_AT_LEAST_S)
        assert not one.is_over
        assert not two.is_over


async def test_turn_that_ends_before_its_watch_is_open_closes_it_then() -> None:
    turns = WatchSlots(1)
    async with turns.take() as turn:
        other = asyncio.ensure_future(_hold(turns))
        await asyncio.sleep(2 * OPEN_AT_LEAST_S)
        assert turn.is_over
        closed: list[bool] = []
        turn.opened(lambda: closed.append(True))
        assert closed == [True]
    await other


async def _hold(turns: WatchSlots) -> None:
    async with turns.take():
        pass


async def test_reflectors_that_take_turns_miss_nothing(host: FakeApiServer) -> None:
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
            await _until_known(stores[path], ns, name)
    assert client.is_reachable
    assert client.lost_at is None
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _until_known(store: Store[Object], ns: str, name: str) -> None:
    for _ in range(1000):
        if store.get(ns, name) is not None:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} is not known")
