"""Limited lists over all namespaces: what is held of them is bounded."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import orjson

from karmada_vc_agent.features.gateway.mapping.refusals import RefusalError
from karmada_vc_agent.features.gateway.server.answers import PAGE_BYTES, MappedAnswer
from karmada_vc_agent.features.gateway.server.fairness import MemoryBudget, Reservation, TimeSlice
from karmada_vc_agent.features.gateway.server.host_requests import TOO_LARGE
from tests.fakes.gateway_view import FakeView, forwarded, two_branches

OBJECTS = 60
OBJECT_BYTES = 1_400_000


@dataclass
class Client:
    """What goes to a client. place: of the answer; held: its size once the answer begins."""

    place: Reservation | None = None
    held: int = 0
    body: bytearray = field(default_factory=bytearray)

    async def begin(self, _code: int, _headers: object) -> None:
        assert self.place is not None
        self.held = self.place.size

    async def send(self, part: bytes) -> None:
        self.body += part

    async def end(self) -> None: ...


class Page:
    """An answer of the host."""

    status = 200

    def __init__(self, content: bytes) -> None:
        self._content = content

    def value(self, _name: bytes) -> str:
        return "application/json"

    async def read(self, limit: int, on_large: Callable[[], Awaitable[None]]) -> bytes:
        if len(self._content) > limit:
            raise RefusalError(500, "the answer is too large", counted=TOO_LARGE)
        await on_large()
        return self._content


@asynccontextmanager
async def large_pages(query: str) -> AsyncIterator[Any]:
    """Answer as a host with large objects does."""
    values = {key: found[0] for key, found in parse_qs(query).items()}
    start = int(values.get("continue", "0"))
    end = min(start + int(values["limit"]), OBJECTS)
    if (end - start) * OBJECT_BYTES > PAGE_BYTES:
        yield Page(b"x" * (PAGE_BYTES + 1))
        return
    more = {"continue": str(end)} if end < OBJECTS else {}
    items = [
        {
            "metadata": {"name": f"c{number}", "namespace": "edge-v-branch-a"},
            "data": {"a": "x" * OBJECT_BYTES},
        }
        for number in range(start, end)
    ]
    metadata = {"resourceVersion": "5", **more}
    kind = {"kind": "ConfigMapList", "apiVersion": "v1"}
    yield Page(orjson.dumps({**kind, "metadata": metadata, "items": items}))


class View(FakeView):
    """One whose namespaces are all known."""

    @property
    def absent(self) -> set[str]:
        return set()


async def test_pages_are_sent_one_by_one_and_held_bytes_are_reported() -> None:
    branch = View(two_branches()[0].host)
    forward = forwarded(branch, "GET", "/api/v1/configmaps", query=f"limit={OBJECTS}")
    client: Any = Client()
    assert forward.pages is not None

    async with AsyncExitStack() as stack:

        async def on_large() -> Reservation:
            client.place = await stack.enter_async_context(MemoryBudget().reserved("branch-a"))
            found: Reservation = client.place
            return found

        view: Any = branch
        unused: Any = None
        mapped = MappedAnswer(client, forward, view, unused, TimeSlice(), on_large, unused, unused)
        async with asyncio.timeout(60):
            await mapped.send_pages(forward.pages, large_pages, forward.query)
    answer = orjson.loads(client.body)
    assert answer["metadata"]["continue"] or len(answer["items"]) == OBJECTS
    names = [item["metadata"]["name"] for item in answer["items"]]
    assert names == [f"c{number}" for number in range(len(names))]
    assert len(client.body) > PAGE_BYTES
    assert 0 < client.held <= PAGE_BYTES
