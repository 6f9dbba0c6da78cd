"""Reflector: one object that cannot be read costs one object; a fault of ours, one resource."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import orjson
import pytest

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import Codec, RawCodec
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.transport import ClientInstrument
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.objects import Object
from tests.fakes.api_server import FakeApiServer

PATH = "/api/v1/configmaps"
DEEP = b'{"a":' * 30_000 + b"1" + b"}" * 30_000
DEEPEST = b'{"a":' * 1_000_000 + b"1" + b"}" * 1_000_000
"""Deeper than any stack: Python 3.14 counts no levels of what is skipped."""


class Listener(ClientInstrument):
    """Keeps what is unreadable now, and counts faults."""

    def __init__(self) -> None:
        self.named: dict[str, str] = {}
        self.faults: list[str] = []

    def failed(self, path: str, part: str) -> None:
        assert path == PATH
        self.faults.append(part)

    def unreadable(self, source: str, path: str, reasons: Mapping[str, str]) -> None:
        assert (source, path) == (f"{PATH}?", PATH)
        self.named = dict(reasons)


def raw(name: str, version: int = 5, extra: bytes = b'"data":{}') -> bytes:
    metadata = orjson.dumps(
        {"name": name, "namespace": "edge", "uid": name, "resourceVersion": str(version)}
    )
    return b'{"metadata":' + metadata + b"," + extra + b"}"


def page(*items: bytes, version: int = 5) -> bytes:
    head = (
        b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":['
    )
    return head % version + b",".join(items) + b"]}"


def line(kind: bytes, item: bytes) -> bytes:
    return b'{"type":"' + kind + b'","object":' + item + b"}\n"


@pytest.fixture
def listener(client: ApiClient) -> Listener:
    client.instrument = listener = Listener()
    return listener


@asynccontextmanager
async def reflecting(
    client: ApiClient, codec: Codec[Object] | None = None
) -> AsyncIterator[Store[Object]]:
    store: Store[Object] = Store(RawCodec())
    reflector = Reflector(client, PATH, codec or RawCodec(), store)
    task = asyncio.ensure_future(reflector.run())
    try:
        await reflector.wait_synced()
        yield store
    finally:
        assert not task.done()
        task.cancel()
        await asyncio.wait((task,))


def names(store: Store[Object]) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in store)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (raw("odd", extra=b'"data":' + DEEP), "nested deeper than 260 levels"),
        (raw("odd", extra=b'"data":' + DEEP[: 5 * 300] + b"1" + b"}" * 300), "nested deeper"),
        (raw("odd", extra=b'"data":"\xff"'), "not valid JSON"),
        (b'{"metadata":{"name":"odd","namespace":"edge","labels":["a"]}}', "metadata.labels"),
    ],
)
async def test_item_of_a_list_that_cannot_be_read_costs_its_neighbours_nothing(
    host: FakeApiServer,
    client: ApiClient,
    listener: Listener,
    item: bytes,
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    host.answer(page(raw("first"), item, raw("last")), path=PATH)
    async with reflecting(client) as store:
        assert {"first", "last"} <= set(names(store))
        assert reason in listener.named["edge/odd"]
        assert [r.__dict__["object"] for r in caplog.records] == ["edge/odd"]
    assert not listener.named


@pytest.mark.parametrize("item", [b"1", b"null", b"[]", b'"text"', b"{}", b'{"metadata":{}}'])
async def test_item_without_a_name_costs_its_neighbours_nothing(
    host: FakeApiServer, client: ApiClient, listener: Listener, item: bytes
) -> None:
    host.answer(page(raw("first"), item, raw("last")), path=PATH)
    async with reflecting(client) as store:
        assert names(store) == ["first", "last"]
        assert list(listener.named) == ["without a name"]


async def test_unreadable_event_keeps_the_cached_object_until_readable(
    host: FakeApiServer, client: ApiClient, listener: Listener
) -> None:
    host.answer(page(raw("web")), path=PATH)
    lines = [
        line(b"MODIFIED", raw("web", 6, b'"data":"\xff"')),
        line(b"ADDED", raw("deep", 7, b'"data":' + DEEP)),
        line(b"ADDED", raw("next", 8)),
    ]
    host.answer(b"".join(lines), path=PATH)
    async with reflecting(client) as store:
        await asyncio.sleep(0.1)
        assert names(store) == ["deep", "next", "web"]
        assert sorted(listener.named) == ["edge/deep", "edge/web"]
        more = [
            line(b"MODIFIED", raw("web", 9)),
            line(b"DELETED", raw("deep", 10, b'"data":"\xff"')),
        ]
        host.answer(page(version=8), path=PATH)  # it asks where the server is
        host.answer(b"".join(more), path=PATH)
        host.end_watches()
        await asyncio.sleep(5)
        assert names(store) == ["next", "web"]
        assert listener.named == {}


async def test_line_that_is_no_event_leads_to_a_new_list(
    host: FakeApiServer, client: ApiClient, listener: Listener
) -> None:
    host.answer(page(raw("web")), path=PATH)
    host.answer(b"}{ garbage\n", path=PATH)
    host.answer(page(raw("web"), raw("new"), version=9), path=PATH)
    async with reflecting(client) as store:
        await asyncio.sleep(5)
        assert names(store) == ["new", "web"]
    assert not listener.faults


async def test_response_that_is_no_list_is_requested_again(
    host: FakeApiServer, client: ApiClient, listener: Listener
) -> None:
    for body in (b"", b"garbage", b"[]", b'{"items":5}', b'{"items":[{"metadata":', DEEP):
        host.answer(body, path=PATH)
    host.answer(page(raw("web")), path=PATH)
    async with reflecting(client) as store:
        assert names(store) == ["web"]
    assert not listener.faults


class FailingOnce(RawCodec):
    """A codec with a bug, met once."""

    has_failed = False

    def key(self, obj: Object) -> tuple[str, str]:
        if not self.has_failed:
            self.has_failed = True
            raise KeyError("a bug")
        return super().key(obj)


async def test_fault_of_ours_is_logged_and_the_resource_listed_again(
    host: FakeApiServer, client: ApiClient, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    host.answer(page(raw("web")), path=PATH, times=2)
    codec = FailingOnce()
    store: Store[Object] = Store(codec)
    task = asyncio.ensure_future(Reflector(client, PATH, codec, store).run())
    await asyncio.sleep(5)
    task.cancel()
    assert names(store) == ["web"]
    assert listener.faults == ["watch"]
    assert [r.message for r in caplog.records] == ["Failed to watch; listing again"]


def test_struct_that_cannot_be_read_costs_its_neighbours_nothing() -> None:
    codec: Codec[Node] = Codec(Node)
    items = (raw("first"), raw("odd", extra=b'"spec":5'), raw("deep", extra=b'"a":' + DEEPEST))
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - by its cause
        codec.page(page(*items, raw("last")))
    assert isinstance(refused.value.__cause__, RecursionError)
    found = codec.page(page(*items, raw("last")), is_odd=True)
    assert [node.metadata.name for node in found.items] == ["first", "deep", "last"]
    assert [what.key for what in found.unreadable] == [("edge", "odd")]
    assert found.resource_version == "5"
    event = codec.event(line(b"MODIFIED", items[1]))
    assert event.obj is None
    assert event.unreadable is not None
    assert event.unreadable.resource_version == "5"
    assert codec.event(line(b"MODIFIED", items[2])).unreadable is None
