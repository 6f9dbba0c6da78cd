"""The requests of one Work: as few as there can be, and its status before its events."""

import asyncio
from collections.abc import Awaitable, Callable

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import execution_namespace
from tests.fakes import objects
from tests.fakes.virtual_time import VirtualTimeLoop
from tests.fuzz.served_ways import NEIGHBOUR, Field, field

_WORK = f"/apis/work.karmada.io/v1alpha1/namespaces/{execution_namespace(NEIGHBOUR)}/works/web"
_CONFIG_MAPS = f"/api/v1/namespaces/shop-v-{NEIGHBOUR}/configmaps"
_DEPLOYMENTS = f"/apis/apps/v1/namespaces/shop-v-{NEIGHBOUR}/deployments"
_STATUS = f"PUT {_WORK}/status"
_EVENTS = ("SyncSucceed", "WorkDispatching", "ReflectStatusSucceed", "InterpretHealthSucceed")
_QUIET_S = 45.0
"""Until all is quiet after the start, and before what is done once a minute."""
_TRIP_S = 1.0
"""All of a trip ends within it."""
_ON_ITS_OWN = ("/leases", "/secrets/", "/clusters")
"""What the agent writes from time to time, whatever Works there are."""
_COUNTS = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 2)


def _run(trips: Callable[[Field], Awaitable[None]]) -> None:
    async def run() -> None:
        async with field() as running:
            await asyncio.sleep(_QUIET_S)
            await trips(running)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(run())


async def _trip(running: Field, change: Callable[[], object]) -> tuple[list[str], list[str]]:
    """Change something; return the requests to hub and host that follow, events by their reason."""
    for server in (running.hub, running.host):
        server.requests.clear()
    change()
    await asyncio.sleep(_TRIP_S)
    hub, host = (
        [
            each.body["reason"] if each.path.endswith("/events") else str(each)
            for each in server.requests
            if not each.is_watch and not any(part in each.path for part in _ON_ITS_OWN)
        ]
        for server in (running.hub, running.host)
    )
    return hub, host


def _work(manifest: Object, **metadata: object) -> Object:
    work = objects.work(manifest, vc=NEIGHBOUR, name="web")
    work["metadata"] |= metadata
    return work


def test_a_config_map_is_one_write_on_each_side_and_then_its_events() -> None:
    async def trips(running: Field) -> None:
        work = _work(objects.config_map("web", "shop"))
        hub, host = await _trip(running, lambda: running.hub.seed(work))
        assert (hub[0], host) == (_STATUS, [f"POST {_CONFIG_MAPS}"])
        assert set(hub[1:]) <= set(_EVENTS), "the status is written once, before all events"

    _run(trips)


def test_a_changed_config_map_is_one_write_of_the_object() -> None:
    async def trips(running: Field) -> None:
        first, second = (_work(objects.config_map("web", "shop", value)) for value in "12")
        await _trip(running, lambda: running.hub.seed(first))
        status = running.hub.live(_WORK)["status"]
        changed = {**second, "status": status}
        hub, host = await _trip(running, lambda: running.hub.seed(changed))
        assert host == [f"PUT {_CONFIG_MAPS}/web"]
        assert hub.count(_STATUS) <= 1

    _run(trips)


def test_a_deployment_is_one_write_and_each_status_of_it_another_on_the_hub() -> None:
    async def trips(running: Field) -> None:
        first = objects.work(objects.deployment("first", "shop"), vc=NEIGHBOUR, name="first")
        await _trip(running, lambda: running.hub.seed(first))  # none of its kind was watched
        work = _work(objects.deployment("web", "shop", 2))
        hub, host = await _trip(running, lambda: running.hub.seed(work))
        assert (hub[0], hub.count(_STATUS), host) == (_STATUS, 1, [f"POST {_DEPLOYMENTS}"])
        live = running.host.live(f"{_DEPLOYMENTS}/web")
        rolled_out = {**live, "status": {**_COUNTS, "observedGeneration": 1}}
        hub, host = await _trip(running, lambda: running.host.seed(rolled_out))
        assert (hub[0], hub.count(_STATUS), host) == (_STATUS, 1, [])

    _run(trips)
