"""Drift while a start repairs, and lists a kind for the first time: it is repaired in any order."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from karmada_vc_agent.kube.discovery import SELF_ACCESS_REVIEWS_PATH
from karmada_vc_agent.model import vocabulary
from tests.fakes import objects, served
from tests.fakes.api_server import FakeApiServer
from tests.fakes.world import World

COLLECTION = "/api/v1/namespaces/edge-v-branch-a/configmaps"
OBJECT = f"{COLLECTION}/c"
STEP_S = 0.5
DESIRED, DRIFTED = {"value": "1"}, {"value": "by hand"}
LIST, LISTED, WRITE, WRITTEN, DRIFT = "list", "listed", "write", "written", "drift"
"""The first list and the repair are handled, and later answered; the object drifts once more."""
ORDERS = [
    order
    for order in itertools.permutations((LIST, LISTED, WRITE, WRITTEN, DRIFT))
    if order.index(LIST) < order.index(LISTED)
    and order.index(WRITE) < min(order.index(WRITTEN), order.index(DRIFT))
]


class SteppedHost(FakeApiServer):
    """Handles and answers lists and writes once their steps are set.

    is_whole: the agent may watch in all namespaces.
    """

    def __init__(self, *, is_whole: bool) -> None:
        super().__init__(served.HOST)
        self._is_whole = is_whole
        self.steps = {step: asyncio.Event() for step in (LIST, LISTED, WRITE, WRITTEN)}

    async def _handle(self, incoming: web.BaseRequest) -> web.StreamResponse:
        if incoming.path == SELF_ACCESS_REVIEWS_PATH:
            review = (await incoming.json())["spec"]["resourceAttributes"]
            is_allowed = self._is_whole or review["verb"] != "watch"
            return web.json_response({"status": {"allowed": is_allowed}}, status=201)
        is_of_kind = incoming.path in ("/api/v1/configmaps", COLLECTION)
        if incoming.method == "GET" and is_of_kind and "watch" not in incoming.query:
            return await self._in_steps(LIST, LISTED, incoming)
        if incoming.method == "PUT" and incoming.path == OBJECT:
            return await self._in_steps(WRITE, WRITTEN, incoming)
        return await super()._handle(incoming)

    async def _in_steps(
        self, handled: str, answered: str, incoming: web.BaseRequest
    ) -> web.StreamResponse:
        await self.steps[handled].wait()
        answer = await super()._handle(incoming)
        await self.steps[answered].wait()
        return answer


@asynccontextmanager
async def starting(*, is_whole: bool) -> AsyncIterator[SteppedHost]:
    """Run informers and execution for a Work whose object drifted while no agent ran."""
    async with FakeApiServer(served.HUB) as hub, SteppedHost(is_whole=is_whole) as host:
        for name in (
            "karmada-cluster",
            "edge",
            "default",
            vocabulary.execution_namespace("branch-a"),
        ):
            hub.seed(objects.namespace(name))
        world = World(hub, host, [objects.virtual_cluster("branch-a")])
        world.register("branch-a")
        hub.seed(objects.work(objects.config_map("c", value="1"), name="w"))
        world.look()
        await world.execution.reconcile(("branch-a", "w"))
        host.change(OBJECT, data=DRIFTED)
        world.restart()
        world.serve()
        world.parts.common.hooks.writes_ready.clear()
        world.look()
        (execution,) = (each for each in world.parts.controllers if each.name == "execution")
        runs = (execution.run, world.parts.works.informers.run)
        tasks = [asyncio.ensure_future(run()) for run in runs]
        try:
            yield host
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("order", ORDERS)
async def test_drift_is_repaired(order: tuple[str, ...], *, is_whole: bool) -> None:
    async with starting(is_whole=is_whole) as host:
        await asyncio.sleep(STEP_S)
        for step in order:
            if step == DRIFT:
                assert host.live(OBJECT)["data"] == DESIRED
                host.change(OBJECT, data=DRIFTED)
            else:
                host.steps[step].set()
            await asyncio.sleep(STEP_S)
        await asyncio.sleep(STEP_S)
        assert host.live(OBJECT)["data"] == DESIRED
