"""Requests of some virtual clusters that a fake API server does not answer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.client import ApiClient
from tests.fakes.api_server import FakeApiServer

MANY = 40
HELD_S = 20.0
"""Before the shortest time-out of a lane."""
NAMESPACES = "/api/v1/namespaces"


def asking(client: ApiClient, path: str, *, is_list: bool) -> Callable[[], Awaitable[object]]:
    return partial(client.read_page, path, {}) if is_list else partial(client.request, "GET", path)


@asynccontextmanager
async def hanging(
    server: FakeApiServer, client: ApiClient, clusters: tuple[str, ...], *, is_list: bool
) -> AsyncIterator[list[asyncio.Task[object]]]:
    """Begin many requests of some virtual clusters that are not answered."""
    tasks: list[asyncio.Task[object]] = []
    released: list[asyncio.Event] = []
    for cluster in clusters:
        path = f"{NAMESPACES}/{cluster}"
        released.append(server.hold("GET", path, MANY))
        for _ in range(MANY):
            ask = flows.run(cluster, asking(client, path, is_list=is_list))
            tasks.append(asyncio.ensure_future(ask))
        await asyncio.sleep(HELD_S / 4 / len(clusters))  # it has all that it may have
    try:
        yield tasks
    finally:
        for each in released:
            each.set()
    await asyncio.gather(*tasks, return_exceptions=True)
