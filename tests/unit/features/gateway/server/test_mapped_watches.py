"""Watches: an event that cannot be shown costs its owner alone."""

import math
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from karmada_vc_agent.features.gateway.mapping.refusals import RefusalError
from karmada_vc_agent.features.gateway.server.answers import MappedAnswer
from karmada_vc_agent.features.gateway.server.fairness import MemoryBudget, TimeSlice
from tests.fakes.gateway_view import FakeView, forwarded, two_branches


class Client:
    """What goes to a client."""

    def __init__(self) -> None:
        self.body = b""

    async def begin(self, *_: object, is_long: bool) -> None: ...

    async def send(self, part: bytes) -> None:
        self.body += part

    async def end(self) -> None: ...


class Events:
    """A watch of the host that has one event."""

    status = 200
    headers: tuple[Any, ...] = ()

    def __init__(self, line: bytes) -> None:
        self._line = line

    async def parts(self) -> AsyncIterator[bytes]:
        yield self._line + b"\n"


class View(FakeView):
    """One whose namespaces are all known."""

    has_past = False

    @property
    def absent(self) -> set[str]:
        return set()


async def sent(namespace: bytes) -> bytes:
    """Return what a client gets of an event about an object that nests too deep."""
    view: Any = View(two_branches()[0].host)
    forward = forwarded(view, "GET", "/api/v1/pods", query="watch=1")
    deep = b"[" * 1200 + b"]" * 1200
    metadata = b'{"name":"a","namespace":"' + namespace + b'"}'
    pod = b'{"apiVersion":"v1","kind":"Pod","metadata":' + metadata + b',"spec":' + deep + b"}"
    client: Any = Client()
    unused: Any = None
    watch = partial(MemoryBudget(held_s=math.inf).reserved, "a")
    mapped = MappedAnswer(client, forward, view, unused, TimeSlice(), unused, unused, watch)
    events: Any = Events(b'{"type":"ADDED","object":' + pod + b"}")
    await mapped.send(events)
    body: bytes = client.body
    return body


async def test_event_that_nests_too_deep_ends_the_watch_of_its_owner_alone() -> None:
    assert await sent(b"edge-v-branch-b") == b""
    with pytest.raises(RefusalError, match="nests deeper than 200 levels"):
        await sent(b"edge-v-branch-a")
