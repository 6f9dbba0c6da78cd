"""What one virtual cluster asks costs the others neither their turns nor the memory."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from karmada_vc_agent.gateway.mapping.exchange import VirtualRequest
from karmada_vc_agent.gateway.mapping.plan import plan
from karmada_vc_agent.gateway.server.gateway import LONG_PLAN_BYTES
from karmada_vc_agent.gateway.server.room import Room
from karmada_vc_agent.gateway.server.statuses import RefusalError
from karmada_vc_agent.gateway.server.turns import FairTurns
from tests.fakes.gateway_lab import TOKENS, Lab, config_map, gateway_lab


async def test_each_virtual_cluster_has_one_turn_in_a_round() -> None:
    """A hundred requests of one, and one of another that comes last."""
    turns, had = FairTurns(), []

    async def compute(cluster: str, times: int) -> None:
        for _ in range(times):
            await turns.turn(cluster)
            had.append(cluster)

    await asyncio.gather(*(compute("a", 3) for _ in range(100)), compute("b", 3))
    assert had.count("a") == 300
    assert [at for at, cluster in enumerate(had) if cluster == "b"][-1] < 10


async def test_a_turn_that_nobody_waits_for_any_more_is_given_to_the_next() -> None:
    turns = FairTurns()
    await turns.turn("a")
    waiting = [asyncio.create_task(turns.turn("a")) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting[1:])


async def test_large_things_of_one_virtual_cluster_come_one_after_the_other() -> None:
    room, seen = Room(2, wait_s=0.05), []
    async with room.taken("a"):
        with pytest.raises(RefusalError) as caught:
            async with room.taken("a"):
                seen.append("a second one")
        assert caught.value.code == 429
        async with room.taken("b"):
            seen.append("b")
            with pytest.raises(RefusalError):
                async with room.taken("c"):
                    seen.append("a third one of all")
    async with room.taken("a"):
        seen.append("a")
    assert seen == ["b", "a"]


async def test_room_is_not_had_for_ever() -> None:
    room = Room(1, held_s=0.05)
    with pytest.raises(RefusalError) as caught:
        async with room.taken("a"):
            await asyncio.sleep(30)
    assert caught.value.code == 504
    async with room.taken("b"):
        pass


# --- before a fake host --------------------------------------------------------------------


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    async with gateway_lab(tmp_path) as found:
        yield found


async def test_large_objects_of_others_do_not_break_a_list(lab: Lab) -> None:
    """All of them together are more than is ever read as a whole."""
    pad = {"data": {"pad": "x" * 900_000}}
    lab.host.seed(*({**config_map("edge-v-b", f"x{n:02}"), **pad} for n in range(40)))
    for query in ("", "?limit=500", "?resourceVersion=0"):
        reply = await lab.ask(f"/api/v1/configmaps{query}")
        assert reply.code == 200, reply.body[:500]
        assert [item["metadata"]["namespace"] for item in reply.json["items"]] == ["edge"]
        assert b"-v-" not in reply.body
    reply = await lab.ask("/api/v1/configmaps", token=TOKENS["b", "access"], cluster="b")
    assert len(reply.json["items"]) == 41


async def test_what_is_long_to_translate_stops_nobody(tmp_path: Path) -> None:
    """14,000 subjects, each with a namespace to map, wait for the others to be answered."""
    began, goes_on, waited = threading.Event(), threading.Event(), []

    def slow(request: VirtualRequest, *known: Any) -> Any:
        if len(request.body) >= LONG_PLAN_BYTES:
            began.set()
            waited.append(goes_on.wait(10.0))
        return plan(request, *known)

    subjects = [
        {"kind": "ServiceAccount", "name": "x", "namespace": f"n{number}"}
        for number in range(14_000)
    ]
    role = {"kind": "Role", "name": "x", "apiGroup": "rbac.authorization.k8s.io"}
    body = orjson.dumps({"metadata": {"name": "x"}, "roleRef": role, "subjects": subjects})
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/edge/rolebindings"
    small = "/api/v1/namespaces/edge/configmaps/m"
    async with gateway_lab(tmp_path, slow) as lab:
        long = asyncio.create_task(lab.ask(path, method="POST", body=body))
        assert await asyncio.to_thread(began.wait, 10.0)
        for _ in range(5):
            reply = await lab.ask(small, token=TOKENS["b", "access"], cluster="b")
            assert reply.code == 200
        goes_on.set()
        assert (await long).code == 201
        assert waited == [True]


async def test_a_large_list_does_not_keep_small_requests_waiting(lab: Lab) -> None:
    """Of which the client reads nothing."""
    pad = {"data": {"pad": "x" * 900_000}}
    lab.host.seed(*({**config_map("edge-v-a", f"x{n:02}"), **pad} for n in range(20)))
    _reader, writer = await lab.open("/api/v1/namespaces/edge/configmaps")
    await asyncio.sleep(0.3)
    for cluster in ("a", "b"):
        token = TOKENS[cluster, "access"]
        path = "/api/v1/namespaces/edge/configmaps/m"
        assert (await lab.ask(path, token=token, cluster=cluster)).code == 200
    token = TOKENS["b", "access"]
    assert (await lab.ask("/api/v1/configmaps", token=token, cluster="b")).code == 200
    writer.close()
