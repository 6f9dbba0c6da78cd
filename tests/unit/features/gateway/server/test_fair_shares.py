"""What one virtual cluster asks costs the others neither their turns nor the memory."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client import generate_latest

from karmada_vc_agent.features.gateway.mapping.cluster_view import VirtualRequest
from karmada_vc_agent.features.gateway.mapping.plan import plan
from karmada_vc_agent.features.gateway.mapping.refusals import RefusalError
from karmada_vc_agent.features.gateway.server.fairness import (
    FairScheduler,
    MemoryBudget,
    Reservation,
    held_bytes,
)
from karmada_vc_agent.features.gateway.server.gateway import (
    HEAVY_BYTES,
    HELD_BYTES,
    LONG_PLAN_BYTES,
)
from tests.fakes.gateway_lab import TOKENS, Lab, agent_config, config_map, gateway_lab, read_chunk


def _share(_: object) -> float:
    return 0.25


async def test_each_virtual_cluster_has_one_slot_in_a_round() -> None:
    """A hundred requests of one, and one of another that comes last."""
    turns, had = FairScheduler(tuple, _share), []

    async def compute(cluster: str, times: int) -> None:
        for _ in range(times):
            await turns.wait(cluster)
            had.append(cluster)

    await asyncio.gather(*(compute("a", 3) for _ in range(100)), compute("b", 3))
    assert had.count("a") == 300
    assert [at for at, cluster in enumerate(had) if cluster == "b"][-1] < 10


async def test_slot_of_a_cancelled_waiter_passes_to_the_next() -> None:
    turns = FairScheduler(tuple, _share)
    await turns.wait("a")
    waiting = [asyncio.create_task(turns.wait("a")) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting[1:])


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_slots_are_shared_by_the_used_time() -> None:
    """The steps of "a" cost ten times as much: "b", who comes last, has ten of its for one."""
    clock, had = Clock(), []
    turns = FairScheduler(tuple, _share, clock)
    turns.time.cpu = clock

    async def compute(cluster: str, times: int, cost_s: float) -> None:
        for _ in range(times):
            await turns.wait(cluster)
            had.append(cluster)
            clock.now += cost_s

    requests = [turns.time.measured("a", compute("a", 5, 0.01)) for _ in range(10)]
    await asyncio.gather(*requests, turns.time.measured("b", compute("b", 30, 0.001)))
    assert had.count("a") == 50
    assert had.count("b") == 30
    last = [at for at, cluster in enumerate(had) if cluster == "b"][-1]
    assert had[:last].count("a") <= 4
    assert turns.time.used["a"] == pytest.approx(0.5, rel=0.05)
    assert turns.time.used["b"] == pytest.approx(0.033)  # each turn costs something itself


async def test_who_used_more_than_its_share_waits_while_another_one_asks() -> None:
    clock, asking = Clock(), ["a", "b"]
    turns = FairScheduler(lambda: asking, _share, clock)
    await turns.wait("b")
    turns.time.spend("a", 1.0)
    held_back = asyncio.create_task(turns.wait("a"))
    for _ in range(3):
        await asyncio.sleep(0.01)
        await turns.wait("b")
    assert not held_back.done()
    clock.now += 1.5  # what "a" used counts for less than its share by now
    await turns.wait("b")
    async with asyncio.timeout(5):
        await held_back


async def test_request_waiting_for_its_host_or_client_blocks_no_one() -> None:
    clock, asking = Clock(), ["a", "b"]
    turns = FairScheduler(lambda: asking, _share, clock)
    turns.time.spend("a", 100.0)
    async with asyncio.timeout(5):
        await turns.wait("a")  # "b" has had none
    await turns.wait("b")
    held_back = asyncio.create_task(turns.wait("a"))
    await asyncio.sleep(0.01)
    assert not held_back.done()
    clock.now += 1.1
    async with asyncio.timeout(5):
        await held_back


async def test_one_above_its_share_continues_where_no_other_waits() -> None:
    clock, asking = Clock(), ["a", "b"]
    turns = FairScheduler(lambda: asking, _share, clock)
    await turns.wait("b")
    for cluster in ("a", "c"):
        turns.time.spend(cluster, 1.0)
    held_back = asyncio.create_task(turns.wait("a"))
    await asyncio.sleep(0.01)
    assert not held_back.done()
    asking[:] = ["a", "c"]  # of which each used more than its share
    async with asyncio.timeout(5):
        await held_back


async def test_measured_request_passes_exceptions_and_cancellation() -> None:
    turns, told = FairScheduler(tuple, _share), []

    async def fails() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            told.append("cancelled")
            raise RuntimeError("a bug") from None

    request = asyncio.ensure_future(turns.time.measured("a", fails()))
    await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(RuntimeError, match="a bug"):
        await request
    assert told == ["cancelled"]


async def test_large_things_of_one_virtual_cluster_come_one_after_the_other() -> None:
    room, seen = MemoryBudget(2, wait_s=0.05), []
    async with room.reserved("a"):
        with pytest.raises(RefusalError) as caught:
            async with room.reserved("a"):
                seen.append("a second one")
        assert caught.value.code == 429
        async with room.reserved("b"):
            seen.append("b")
            with pytest.raises(RefusalError):
                async with room.reserved("c"):
                    seen.append("a third one of all")
    async with room.reserved("a"):
        seen.append("a")
    assert seen == ["b", "a"]


async def test_memory_budget_is_not_held_for_ever() -> None:
    room = MemoryBudget(1, held_s=0.05)
    with pytest.raises(RefusalError) as caught:
        async with room.reserved("a"):
            await asyncio.sleep(30)
    assert caught.value.code == 504
    async with room.reserved("b"):
        pass


async def _reads_nothing(room: MemoryBudget, cluster: str, size: int = 100, part: str = "") -> None:
    async with room.reserved(cluster, part) as place:
        place.size = size
        async with place.lent_if_slow():
            await asyncio.sleep(30)


async def test_who_waits_for_a_slow_client_keeps_no_place() -> None:
    room = MemoryBudget(2, wait_s=5, slow_s=0.01)
    slow = [asyncio.create_task(_reads_nothing(room, f"slow-{number}")) for number in range(4)]
    for number in range(10):
        async with room.reserved(f"other-{number}"):
            pass
    assert not any(task.done() for task in slow)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    assert room.lent == []
    async with room.reserved("slow-0"), room.reserved("slow-1"):
        pass


async def test_of_those_who_hold_too_much_the_one_that_waits_longest_is_cut() -> None:
    room = MemoryBudget(1, wait_s=5, slow_s=0.01, lent_bytes=250)
    slow = []
    for number in range(3):
        slow.append(asyncio.create_task(_reads_nothing(room, f"slow-{number}")))
        while len(room.lent) < min(number + 1, 2):  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)
    with pytest.raises(RefusalError) as caught:
        await slow[0]
    assert caught.value.code == 504
    assert not slow[2].done()
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_who_holds_most_is_cut_before_others_that_wait_longer() -> None:
    """A tenant with many watches that it does not read ends no list of others."""
    room = MemoryBudget(9, slow_s=0.01, lent_bytes=350)
    other = asyncio.create_task(_reads_nothing(room, "other"))
    async with asyncio.timeout(10):
        while not room.lent:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)
        many = [asyncio.create_task(_reads_nothing(room, "a", part=str(n))) for n in range(5)]
        while sum(task.done() for task in many) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert [task.done() for task in (other, *many)] == [False, True, True, True, False, False]
    for task in (other, *many):
        task.cancel()
    await asyncio.gather(other, *many, return_exceptions=True)


async def test_who_is_cut_already_is_not_cut_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are lent before the first one ends, as after a pause of the loop."""
    room, ends, end = MemoryBudget(99, slow_s=0.01, lent_bytes=1000), [0], Reservation.end

    def counted(place: Reservation) -> None:
        ends[0] += 1
        end(place)

    monkeypatch.setattr(Reservation, "end", counted)
    many = [asyncio.create_task(_reads_nothing(room, "a", part=str(n))) for n in range(40)]
    await asyncio.sleep(0)
    time.sleep(0.05)  # noqa: ASYNC251 - the pause
    await asyncio.wait(many, timeout=0.3)
    assert sum(task.done() for task in many) == 30
    assert ends == [30]
    for task in many:
        task.cancel()
    await asyncio.gather(*many, return_exceptions=True)


async def test_progress_gives_more_time() -> None:
    room = MemoryBudget(1, held_s=1.5)  # a busy machine wakes this late
    async with room.reserved("a") as place:
        for _ in range(5):
            await asyncio.sleep(0.4)
            place.extend()


# --- before a fake host --------------------------------------------------------------------


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    async with gateway_lab(tmp_path) as found:
        yield found


NINE_MB = {"data": {"pad": "x" * 9_000_000}}
"""What etcd stores as 1.5 MB, all of it "<": an API server sends each as six bytes."""


async def test_largest_object_of_others_breaks_neither_list_nor_watch(lab: Lab) -> None:
    reader, writer = await lab.open("/api/v1/configmaps?watch=true")
    await reader.readuntil(b"\r\n\r\n")
    lab.host.seed({**config_map("edge-v-b", "theirs"), **NINE_MB})
    lab.host.seed(config_map("edge-v-a", "large"))
    async with asyncio.timeout(20):
        assert orjson.loads(await _line(reader))["object"]["metadata"]["name"] == "large"
    writer.close()
    reply = await lab.ask("/api/v1/configmaps")
    assert reply.code == 200, reply.body[:500]
    assert {item["metadata"]["namespace"] for item in reply.json["items"]} == {"edge"}


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


async def test_slow_request_body_blocks_no_one(lab: Lab) -> None:
    lab.gateway._scheduler = FairScheduler(lab.gateway._scheduler._active, _share, Clock())
    path, length = "/api/v1/namespaces/edge/configmaps", ("Content-Length", "1000")
    token = TOKENS["b", "access"]
    _, writer = await lab.open(path, length, token=token, cluster="b", method="POST")
    async with asyncio.timeout(10):
        while not lab.limits.in_progress():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)
        lab.gateway._scheduler.time.spend("a", 1.0)
        assert (await lab.ask(path)).code == 200
    assert lab.limits.in_progress() == {("b", False): 1}
    writer.close()


async def test_long_translation_blocks_no_one(tmp_path: Path) -> None:
    """14,000 subjects, each with a namespace to map, wait for the others to be answered."""
    began, extend, waited = threading.Event(), threading.Event(), []

    def slow(request: VirtualRequest, *known: Any) -> Any:
        if len(request.body) >= LONG_PLAN_BYTES:
            began.set()
            waited.append(extend.wait(10.0))
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
        extend.set()
        assert (await long).code == 201
        assert waited == [True]


TINY = b'{"a":[' + b"{}," * 1_000_000 + b"{}]}"


async def test_a_body_of_tiny_parts_is_refused(lab: Lab) -> None:
    """3 MB of JSON, and 60 MB for each time that it is held as what was read of it."""
    reply = await lab.ask("/api/v1/namespaces/edge/configmaps", method="POST", body=TINY)
    assert reply.code == 413
    assert "64 MiB" in reply.json["message"]
    plain = orjson.dumps({**config_map("edge", "plain"), "data": {"pad": "x" * 1_000_000}})
    assert held_bytes(plain) < HEAVY_BYTES
    reply = await lab.ask("/api/v1/namespaces/edge/configmaps", method="POST", body=plain)
    assert reply.code == 201


async def test_bodies_that_are_heavy_once_they_are_read_come_one_after_the_other(
    tmp_path: Path,
) -> None:
    began, extend = [], threading.Event()

    def slow(request: VirtualRequest, *known: Any) -> Any:
        if len(request.body) >= LONG_PLAN_BYTES:
            began.append(known[0].name)
            extend.wait(10.0)
        return plan(request, *known)

    heavy = orjson.dumps({**config_map("edge", "x"), "data": [{}] * 200_000})
    assert HEAVY_BYTES < held_bytes(heavy) < HELD_BYTES
    path = "/api/v1/namespaces/edge/configmaps"
    async with gateway_lab(tmp_path, slow) as lab:
        asked = [
            asyncio.create_task(
                lab.ask(path, token=TOKENS[each, "access"], cluster=each, method="POST", body=heavy)
            )
            for each in ("a", "b")
        ]
        async with asyncio.timeout(10):
            while len(lab.gateway._heavy._of_cluster) < 2 or not began:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert len(began) == 1
        extend.set()
        await asyncio.gather(*asked)
        assert set(began) == {"a", "b"}


async def test_who_is_held_back_has_no_place_that_others_wait_for(lab: Lab) -> None:
    turns = lab.gateway._scheduler
    turns._clock = Clock()
    body = orjson.dumps({**config_map("edge", "x"), "data": [{}] * 200_000})
    path = "/api/v1/namespaces/edge/configmaps"
    token = TOKENS["b", "access"]
    assert (await lab.ask(path, token=token, cluster="b")).code == 200
    turns.time.spend("a", 1000.0)
    request = VirtualRequest("POST", path, "", "", "application/json", body)
    with lab.limits.slot("b", is_long=False):
        held_back = asyncio.create_task(lab.gateway._planned(request, lab.gateway._view("a")))
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            async with lab.gateway._heavy.reserved("b"), lab.gateway._planning.reserved("b"):
                assert not held_back.done()
    await held_back


async def test_a_long_selector_is_mapped_beside_the_loop(tmp_path: Path) -> None:
    threads = []

    def noted(request: VirtualRequest, *known: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return plan(request, *known)

    async with gateway_lab(tmp_path, noted) as lab:
        names = ",".join(f"n{number:03}" for number in range(820))
        selector = f"labelSelector=kubernetes.io/metadata.name+in+({names})"
        path = "/api/v1/namespaces/edge/configmaps"
        assert (await lab.ask(f"{path}?{selector}")).code == 200
        assert threads
        assert not any(threads)
        assert (await lab.ask(path)).code == 200
        assert threads[-1]
        assert b'gateway_loop_seconds_total{member_cluster="a"}' in generate_latest(
            lab.metrics.registry
        )


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


async def test_clients_that_read_nothing_keep_no_other_out(lab: Lab) -> None:
    """One place of all: "a" has it and reads nothing, "b" gets its list nevertheless."""
    answers = lab.gateway._answers = MemoryBudget(1, slow_s=0.2)
    pad = {"data": {"pad": "x" * 900_000}}
    for space in ("edge-v-a", "edge-v-b"):
        lab.host.seed(*({**config_map(space, f"x{n:02}"), **pad} for n in range(20)))
    _reader, writer = await lab.open("/api/v1/namespaces/edge/configmaps")
    async with asyncio.timeout(20):
        while not answers.lent:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)
    token = TOKENS["b", "access"]
    for path in ("/api/v1/namespaces/edge/configmaps", "/api/v1/configmaps"):
        reply = await lab.ask(path, token=token, cluster="b")
        assert reply.code == 200
        assert len(reply.json["items"]) == 21
    writer.close()


async def test_translating_thread_keeps_its_memory_budget_until_it_ends(tmp_path: Path) -> None:
    began, extend = threading.Event(), threading.Event()

    def slow(request: VirtualRequest, *known: Any) -> Any:
        if len(request.body) >= LONG_PLAN_BYTES:
            began.set()
            extend.wait(10.0)
        return plan(request, *known)

    body = orjson.dumps({**config_map("edge", "long"), "data": {"pad": "x" * LONG_PLAN_BYTES}})
    async with gateway_lab(tmp_path, slow) as lab:
        path = "/api/v1/namespaces/edge/configmaps"
        reader, _ = await lab.open(path, method="POST", body=body)
        assert await asyncio.to_thread(began.wait, 10.0)
        (task,) = lab.listener._connections.values()
        task.cancel()
        await asyncio.sleep(0.2)
        assert not task.done()
        planning = lab.gateway._planning._of_cluster["a"]
        assert planning.locked()
        extend.set()
        async with asyncio.timeout(10):
            await asyncio.gather(task, return_exceptions=True)
        assert not planning.locked()
        assert await reader.read() == b""


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Return the next event but those of what was there before."""
    found = b""
    while b"large" not in found or not found.endswith(b"\n"):
        found += await read_chunk(reader)
    return found.splitlines()[-1]


async def test_a_watch_that_ends_after_its_virtual_cluster_leaves_nothing(lab: Lab) -> None:
    turns = lab.gateway._scheduler
    reader, writer = await lab.open("/api/v1/namespaces/edge/configmaps?watch=true")
    await reader.readuntil(b"\r\n\r\n")
    assert turns.time.used["a"]
    lab.state.file.replace_all(v for v in agent_config().virtual_clusters if v.name == "b")
    writer.close()
    async with asyncio.timeout(10):
        while not lab.audit:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)
    assert (turns.time.used, turns.time._recent, turns._last_slot) == ({}, {}, {})
    assert b'member_cluster="a"' not in generate_latest(lab.metrics.registry)


async def test_large_watch_event_waits_for_memory_budget(lab: Lab) -> None:
    path = "/api/v1/namespaces/edge/configmaps?watch=true"
    reader, writer = await lab.open(path)
    await reader.readuntil(b"\r\n\r\n")
    async with lab.gateway._events.reserved("a"):
        lab.host.seed({**config_map("edge-v-a", "large"), "data": {"pad": "x" * 900_000}})
        next_line = asyncio.create_task(_line(reader))
        await asyncio.wait([next_line], timeout=0.5)
        assert not next_line.done()
    async with asyncio.timeout(20):
        line = await next_line
    assert orjson.loads(line)["object"]["metadata"]["name"] == "large"
    writer.close()


async def test_a_watch_whose_client_takes_nothing_of_a_large_event_is_cut(lab: Lab) -> None:
    lab.gateway._events = MemoryBudget(1, held_s=1.0, slow_s=0.1)
    reader, writer = await lab.open("/api/v1/namespaces/edge/configmaps?watch=true")
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    for number in range(3):  # the kernel takes up to 10 MB of them
        pad = {"data": {"pad": "x" * 7_500_000}}
        lab.host.seed({**config_map("edge-v-a", f"large-{number}"), **pad})
    async with asyncio.timeout(20):
        while lab.listener.count():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.05)
    writer.close()
