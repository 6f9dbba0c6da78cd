"""What the gateway holds of an answer while its client reads: one copy of what is sent."""

import asyncio
import math
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import orjson
import pytest

from karmada_vc_agent.features.gateway.mapping.refusals import RefusalError
from karmada_vc_agent.features.gateway.server.answers import (
    DECODED_BYTES,
    WATCH_BYTES,
    MappedAnswer,
)
from karmada_vc_agent.features.gateway.server.fairness import (
    MemoryBudget,
    TimeSlice,
    held_bytes,
)
from tests.fakes.gateway_view import FakeView, forwarded, two_branches

PATH = "/api/v1/namespaces/edge/configmaps"
TINY = {f"{number:x}": "" for number in range(100_000)}


class View(FakeView):
    """One whose namespaces are all known."""

    has_past = False

    @property
    def absent(self) -> set[str]:
        return set()


class Client:
    """Notes what is held, beside what was before, as each part is sent."""

    has_begun = False

    def __init__(self) -> None:
        self.held = 0
        self.sent = 0
        self._before, _ = tracemalloc.get_traced_memory()

    async def begin(self, *_: object, is_long: bool = False) -> None: ...

    async def send(self, part: bytes) -> None:
        self.sent += len(part)
        self.held = max(self.held, tracemalloc.get_traced_memory()[0] - self._before)

    async def end(self) -> None: ...


class Answer:
    """An answer of the host."""

    status = 200
    headers: tuple[Any, ...] = ()

    def __init__(self, value: Any) -> None:
        self._parts = [orjson.dumps(value) + b"\n"]

    async def read(self, *_: object) -> bytes:
        return self._parts.pop()

    async def parts(self) -> AsyncIterator[bytes]:
        while self._parts:
            yield self._parts.pop()


def config_map(name: str, data: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "edge-v-branch-a"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def mapped(
    client: Any,
    path: str,
    watches: MemoryBudget | None = None,
    query: str = "",
    events: MemoryBudget | None = None,
) -> Any:
    view: Any = View(two_branches()[0].host)
    forward, unused = forwarded(view, "GET", path, query=query), None
    watch = partial((watches or MemoryBudget()).reserved, "branch-a", str(id(client)))
    event = partial((events or MemoryBudget()).reserved, "branch-a")
    return MappedAnswer(client, forward, view, unused, TimeSlice(), unused, event, watch)  # type: ignore[arg-type]


@pytest.fixture
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("_traced")
async def test_decoded_object_is_not_held_while_it_is_sent() -> None:
    client = Client()
    await mapped(client, f"{PATH}/m").send(Answer(config_map("m", TINY)))
    assert client.sent > 800_000
    assert client.held < 3 * client.sent


def listed(queries: list[str], *objects: Any) -> Any:
    """Return what answers as a host with these objects, and notes the queries."""

    @asynccontextmanager
    async def sent(query: str) -> AsyncIterator[Answer]:
        queries.append(query)
        values = {key: given[0] for key, given in parse_qs(query).items()}
        start = int(values.get("continue", "0"))
        end = min(start + int(values["limit"]), len(objects))
        metadata = {"continue": str(end)} if end < len(objects) else {}
        page = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata}
        yield Answer({**page, "items": objects[start:end]})

    return sent


@pytest.mark.usefixtures("_traced")
async def test_page_is_not_held_beside_what_is_sent_of_it() -> None:
    objects = [config_map(f"m{number}", {"a": "x" * 1_000_000}) for number in range(7)]
    client = Client()
    answer = mapped(client, PATH)
    await answer.send_pages(answer._forward.pages, listed([], *objects), answer._forward.query)
    assert client.sent > 7_000_000
    assert client.held < 1.5 * client.sent


async def test_page_that_is_large_once_it_is_decoded_is_read_with_fewer_entries() -> None:
    """A single object may be larger, which is no reason to break the lists of others."""
    objects = [config_map(f"m{number}", [{}] * 700_000) for number in range(4)]
    assert held_bytes(orjson.dumps(objects[0])) > DECODED_BYTES
    client, queries = Client(), list[str]()
    answer = mapped(client, PATH)
    await answer.send_pages(answer._forward.pages, listed(queries, *objects), answer._forward.query)
    limits = [parse_qs(query)["limit"][0] for query in queries]
    assert limits == ["500", "50", "5", "1", "1", "1", "1"]
    assert client.sent > 4 * 2_000_000


async def test_watch_of_which_nothing_is_read_for_longest_is_cut_where_all_hold_too_much() -> None:
    class Unread(Client):
        async def send(self, _part: bytes) -> None:
            await asyncio.sleep(30)

    def watching(client: Client) -> asyncio.Task[None]:
        event = {"type": "ADDED", "object": config_map("m", {})}
        watch = mapped(client, PATH, watches, "watch=1")
        return asyncio.create_task(watch.send(Answer(event)))

    watches = MemoryBudget(9, held_s=math.inf, slow_s=0.01, lent_bytes=WATCH_BYTES)
    clients = Unread(), Unread()
    first = watching(clients[0])
    async with asyncio.timeout(10):
        while not watches.lent:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)
        second = watching(clients[1])
        with pytest.raises(RefusalError):
            await first
    assert not second.done()
    await watching(Client())
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert watches.lent == []


async def test_watches_that_wait_for_each_other_are_not_cut() -> None:
    """All clients read, but one large event after the other is sent."""

    class InParts(Answer):
        async def parts(self) -> AsyncIterator[bytes]:
            (line,) = self._parts
            for start in range(0, len(line), 60_000):
                await asyncio.sleep(0.01)
                yield line[start : start + 60_000]

    watches = MemoryBudget(99, held_s=math.inf, slow_s=0.01, lent_bytes=2 * WATCH_BYTES)
    watches.lent = (events := MemoryBudget()).lent
    event = {"type": "ADDED", "object": config_map("m", {"a": "x" * 300_000})}
    clients = [Client() for _ in range(9)]
    sent = [mapped(each, PATH, watches, "watch=1", events).send(InParts(event)) for each in clients]
    async with asyncio.timeout(10):
        await asyncio.gather(*sent)
    assert all(each.sent > 300_000 for each in clients)
