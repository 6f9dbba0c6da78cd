"""ApiClient against a server that breaks everything: what comes out is a KubeError or an answer."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.transport import Credentials, Timeouts
from tests.fakes.hostile_server import DOORS, EVILS, HostileServer

pytestmark = pytest.mark.filterwarnings(
    # The server's own: Python leaves it open where a peer is gone before its TLS began.
    "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
)
PATH = "/api/v1/configmaps"
IMPATIENT = Timeouts(
    connect_s=5.0, silence_s=0.3, request_s=5.0, list_s=5.0, watch_silence_s=0.3, patience_s=0.1
)
TASKS = 12
WATCHES = 6
TORTURE_S = 6.0
MOST_S = 120.0
"""A slow machine may take this long until it has met all of it."""
RESTARTS = 4


def new_client(url: str) -> ApiClient:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return ApiClient("host", Credentials(url, context, "a test"), timeouts=IMPATIENT)


async def close(client: ApiClient) -> None:
    await client.close()
    await asyncio.sleep(0.1)  # TLS takes a few turns of the loop to end


async def read_to_its_end(lines: AsyncIterator[bytes]) -> None:
    async for _ in lines:
        pass


Ask = Callable[[ApiClient], Awaitable[Any]]
OBJECT = {"metadata": {"name": "m"}}
LARGE = {"metadata": {"name": "m"}, "data": {"a": "x" * 300_000}}
ASKS: dict[str, Ask] = {
    "get": lambda client: client.get(PATH),
    "list": lambda client: client.read_page(PATH, {"limit": "5"}),
    "watch": lambda client: read_to_its_end(client.watch(PATH, {})),
    "discover": lambda client: client.get_if_changed("/apis", '"tag"'),
    "probe": lambda client: client.request("GET", "/readyz"),
    "create": lambda client: client.create(PATH, OBJECT),
    "replace": lambda client: client.replace(f"{PATH}/m", LARGE),
    "patch": lambda client: client.merge_patch(f"{PATH}/m", OBJECT),
    "delete": lambda client: client.delete(f"{PATH}/m"),
}


@pytest.mark.parametrize("evil", EVILS)
def test_evil_answer_is_a_kube_error_or_an_answer(evil: str) -> None:
    async def ask_all(url: str) -> dict[str, BaseException]:
        client = new_client(url)
        outcomes = await asyncio.gather(
            *(ask(client) for ask in ASKS.values()), return_exceptions=True
        )
        await close(client)
        failed = {
            name: outcome
            for name, outcome in zip(ASKS, outcomes, strict=True)
            if isinstance(outcome, BaseException)
        }
        return {name: e for name, e in failed.items() if not isinstance(e, KubeError)}

    with HostileServer(evils=(evil,), goodness=0.0, doors=False) as server:
        assert asyncio.run(ask_all(server.url)) == {}
        assert server.met[evil] > 0


def test_client_survives_all_of_it_at_once_and_serves_afterwards() -> None:
    with HostileServer(seed=9) as server:
        asyncio.run(_torture(server))
    assert _unmet(server) == []


def _unmet(server: HostileServer) -> list[str]:
    return [evil for evil in (*EVILS, *DOORS) if not server.met[evil]]


async def _torture(server: HostileServer) -> None:
    client = new_client(server.url)
    escaped: list[BaseException] = []
    clock = asyncio.get_running_loop().time
    began = clock()
    names = [*(name for name in ASKS if name != "watch")]

    def is_over() -> bool:
        lasted_s = clock() - began
        return lasted_s > (MOST_S if _unmet(server) else TORTURE_S)

    async def ask_for_ever(number: int) -> None:
        chance = random.Random(number)  # noqa: S311 - a test
        while not is_over():
            name = "watch" if number >= TASKS else chance.choice(names)
            try:
                await ASKS[name](client)
            except KubeError:
                await asyncio.sleep(0.01)
            except Exception as error:  # noqa: BLE001 - what is looked for
                escaped.append(error)

    async with asyncio.TaskGroup() as group:
        for number in range(TASKS + WATCHES):
            group.create_task(ask_for_ever(number))
        for _ in range(RESTARTS):
            await asyncio.sleep(TORTURE_S / (RESTARTS + 1))
            await asyncio.to_thread(server.restart, 0.1)
    assert escaped == []
    server.behave()
    for ask in ASKS.values():
        await _in_the_end(ask, client)
    await close(client)


async def _in_the_end(ask: Ask, client: ApiClient) -> None:
    for _ in range(20):
        try:
            await ask(client)
        except KubeError:  # a connection that was broken before
            await asyncio.sleep(0.05)
        else:
            return
    raise AssertionError("the client did not recover")
