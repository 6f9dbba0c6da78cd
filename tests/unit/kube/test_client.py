"""ApiClient: answers become values or error classes; waiting, fencing, outages."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from types import SimpleNamespace

import aiohttp
import orjson
import pytest

from karmada_vc_agent.kube import client as client_module
from karmada_vc_agent.kube import transport
from karmada_vc_agent.kube.client import (
    LIST_CONNECTIONS,
    PAGES_AT_ONCE,
    PART_OF_OWN,
    ApiClient,
)
from karmada_vc_agent.kube.errors import (
    DENIED_FOR_S,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    CutOffError,
    Denials,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    NotServedError,
    PageError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
    UnwritableError,
    error_from_answer,
    reason_of,
)
from karmada_vc_agent.kube.store import History
from karmada_vc_agent.kube.transport import ClientInstrument, Credentials, Timeouts
from karmada_vc_agent.model.objects import Object
from tests.fakes.api_server import FakeApiServer
from tests.fakes.pages import PAGES as ANY_PAGE
from tests.fakes.storage import StatusError
from tests.fakes.virtual_time import let_others_run

NAMESPACES = "/api/v1/namespaces"
MAPS = "/api/v1/namespaces/edge/configmaps"


def namespace(name: str = "edge") -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def config_map(name: str = "web", **data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "edge"},
        "data": data,
    }


async def test_object_is_created_read_changed_and_deleted(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(namespace())
    created = await client.create(MAPS, config_map(a="1"))
    assert created["metadata"]["uid"]
    assert await client.get(f"{MAPS}/web") == created
    replaced = await client.replace(f"{MAPS}/web", {**created, "data": {"a": "2"}})
    assert replaced["data"] == {"a": "2"}
    patched = await client.merge_patch(f"{MAPS}/web", {"data": {"a": None, "b": "3"}})
    assert patched["data"] == {"b": "3"}
    await client.delete(f"{MAPS}/web", {"preconditions": {"uid": created["metadata"]["uid"]}})
    assert host.listed(MAPS) == []


async def test_rbac_object_that_was_deleted_is_not_created_again_by_a_replacement(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(namespace())
    bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/edge/rolebindings"
    desired = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "reader", "namespace": "edge"},
        "roleRef": {"kind": "Role", "name": "reader"},
    }
    live = await client.create(bindings, desired)
    await client.delete(f"{bindings}/reader")
    with pytest.raises(ConflictError):
        await client.replace_same(f"{bindings}/reader", live, desired)
    assert host.listed(bindings) == []


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (400, "BadRequest", InvalidError),
        (401, "Unauthorized", UnauthorizedError),
        (403, "Forbidden", ForbiddenError),
        (404, "NotFound", NotFoundError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "Conflict", ConflictError),
        (410, "Expired", ExpiredError),
        (422, "Invalid", InvalidError),
        (500, "InternalError", ApiError),
        (503, "ServiceUnavailable", ApiError),
    ],
)
async def test_refusal_of_the_server_has_its_class(
    host: FakeApiServer, client: ApiClient, status: int, reason: str, expected: type[ApiError]
) -> None:
    host.fail(status, reason, message="the reason in words")
    with pytest.raises(ApiError) as raised:
        await client.get(f"{NAMESPACES}/edge")
    assert type(raised.value) is expected
    assert (raised.value.status, raised.value.reason) == (status, reason)
    assert str(raised.value) == "the reason in words"


def test_unknown_resource_is_reported_in_the_words_of_kubernetes_clients() -> None:
    error = error_from_answer(404, b"404 page not found\n")
    assert isinstance(error, NotServedError)
    assert str(error) == "the server could not find the requested resource"


def test_answer_that_is_no_status_is_cut_and_kept_as_message() -> None:
    error = error_from_answer(502, b"<html>bad gateway" + b"!" * 500)
    assert str(error).startswith("<html>bad gateway!!!")
    assert len(str(error)) == 200


def test_answer_without_a_body_still_has_a_message() -> None:
    assert str(error_from_answer(500, b"")) == "the server answered 500 without a message"


@pytest.mark.parametrize("tls", ["default", "True", "<ssl.SSLContext object at 0x7faeb85409e0>"])
def test_failure_reason_hides_the_tls_of_the_client(tls: str) -> None:
    error = OSError(f"Cannot connect to host 127.0.0.1:9 ssl:{tls} [Connect call failed]")
    assert reason_of(error) == "cannot connect to 127.0.0.1:9 [Connect call failed]"


def test_failure_reason_without_words_is_its_kind() -> None:
    assert reason_of(TimeoutError()) == "TimeoutError"


def test_refusal_that_is_no_text_is_an_error_all_the_same() -> None:
    assert isinstance(error_from_answer(404, b'{"message": "\xff"}'), NotServedError)


PAGES = (
    b"404 page not found\n",
    b"default backend - 404",
    b"<html>not found</html>",
    b'{"message": "no Route matched with those values"}',
    b'{"kind": "Status", "apiVersion": "v1", "reason": "NotFound", "code": 404}',
    b'{"kind": "Status", "reason": "NotFound", "details": {"kind": "works"}}',
    b"",
)


@pytest.mark.parametrize("page", PAGES)
def test_404_that_names_no_object_says_nothing_of_any(page: bytes) -> None:
    error = error_from_answer(404, page)
    assert isinstance(error, NotServedError)
    assert not isinstance(error, NotFoundError)


_WEB = "/api/v1/namespaces/edge/pods/web"
_PODS = "/api/v1/namespaces/edge/pods"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/edge/rolebindings"
_BINDING = b'{"metadata": {"name": "to-it"}, "roleRef": {"name": "reader"}}'
_WORKS = "/apis/work.karmada.io/v1alpha1/namespaces/edge/works"


@pytest.mark.parametrize(
    ("path", "sent", "kind", "name", "is_about"),
    [
        (_WEB, None, "pods", "web", True),
        (f"{_WEB}/eviction", b"{}", "pods", "web", True),
        (f"{_WEB}%2Fx", None, "pods", "web/x", True),
        ("/api/v1/namespaces/edge", None, "namespaces", "edge", True),
        ("/api/v1/namespaces/edge/finalize", b"{}", "namespaces", "edge", True),
        (_PODS, b'{"metadata": {"generateName": "web-"}}', "namespaces", "edge", True),
        (_WEB, b"{}", "namespaces", "edge", True),
        (_BINDINGS, _BINDING, "rolebindings", "reader", True),
        (f"{_BINDINGS}/to-it", _BINDING, "roles", "reader", True),
        (f"{_WORKS}/web", b"{}", "works", "web", True),
        # A proxy of clusters, and an aggregated API server, name their own.
        (_WEB, None, "clusters", "hub-1", False),
        (_WEB, None, "clusters", "edge", False),
        (_WEB, None, "namespaces", "karmada-system", False),
        (f"{_WORKS}/web", b"{}", "clusters", "hub-1", False),
        (_PODS, None, "clusters", "hub-1", False),
        (_PODS, None, "pods", "", False),
        (_PODS, _BINDING, "roles", "reader", False),
        (_BINDINGS, b"[not JSON", "roles", "reader", False),
        ("/apis", None, "apis", "apis", False),
        ("/version", None, "version", "version", False),
        ("", None, "pods", "web", False),
    ],
)
def test_404_is_about_what_was_requested_or_says_nothing(
    path: str, sent: bytes | None, kind: str, name: str, *, is_about: bool
) -> None:
    text = f'{kind} "{name}" not found'
    page = StatusError(404, "NotFound", text, name, kind).status
    error = error_from_answer(404, orjson.dumps(page), path=path, sent=sent)
    assert isinstance(error, NotFoundError if is_about else NotServedError)
    assert not name or str(error) == text


async def test_object_is_not_deleted_because_a_proxy_has_no_cluster(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(namespace(), config_map())
    with host.in_front(ANY_PAGE["404 Status of a cluster"]):
        for gone in (client.get(f"{MAPS}/web"), client.look_up(f"{MAPS}/web")):
            with pytest.raises(NotServedError):
                await gone
        with pytest.raises(NotServedError):
            await client.delete(f"{MAPS}/web")


@pytest.mark.parametrize("status", [400, 403, 404, 409, 410, 422, 500, 502, 503])
def test_page_is_not_the_word_of_an_api_server(status: int) -> None:
    assert isinstance(error_from_answer(status, b"<html>no</html>"), PageError)


def test_401_in_front_of_an_api_server_is_about_the_credential() -> None:
    error = error_from_answer(401, b"<html>sign in</html>")
    assert isinstance(error, UnauthorizedError)
    assert not isinstance(error, ForbiddenError), "no authorizer denied anything"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("3", 3.0),
        ("0", 0.0),
        (None, 1.0),
        ("tomorrow", 1.0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 1.0),
        ("nan", 30.0),
        ("-nan", 30.0),
        ("86400", 30.0),
        ("1e400", 30.0),
        ("inf", 30.0),
        ("-inf", 0.0),
        ("-5", 0.0),
    ],
)
def test_patience_is_what_the_server_asks_for(header: str | None, expected: float) -> None:
    error = error_from_answer(429, b"{}", header)
    assert isinstance(error, TooManyRequestsError)
    assert error.retry_after_s == expected


async def test_busy_server_is_requested_again_after_the_time_it_names(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(namespace())
    host.fail(429, times=2, headers={"Retry-After": "7"})
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert (await client.get(f"{NAMESPACES}/edge"))["metadata"]["name"] == "edge"
    assert 14 <= loop.time() - started < 15


async def test_request_gives_up_when_the_server_stays_busy(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.fail(429, times=10, headers={"Retry-After": "1"})
    with pytest.raises(TooManyRequestsError):
        await client.get(NAMESPACES)
    assert len(host.requests) == 4


async def test_request_waits_half_a_minute_in_all_and_blocks_no_one(host: FakeApiServer) -> None:
    client = host.client(connections=1)
    host.seed(namespace())
    host.fail(429, path=NAMESPACES, times=10, headers={"Retry-After": "1e9"})
    loop = asyncio.get_running_loop()
    started = loop.time()
    waiting = asyncio.ensure_future(client.get(NAMESPACES))
    await let_others_run()
    await client.get(f"{NAMESPACES}/edge")
    assert loop.time() - started < 5
    with pytest.raises(TooManyRequestsError):
        await waiting
    assert 30 <= loop.time() - started < 31
    assert len(host.asked("GET", NAMESPACES)) == 2


async def test_connection_that_breaks_off_is_unreachable(
    host: FakeApiServer, client: ApiClient
) -> None:
    with host.down(), pytest.raises(UnreachableError, match=r"^host http://127\.0\.0\.1:"):
        await client.get(NAMESPACES)


async def test_address_without_a_listener_is_unreachable(host: FakeApiServer) -> None:
    client = host.client(credentials=Credentials("http://127.0.0.1:1", None, "a test"))
    with pytest.raises(UnreachableError):
        await client.get(NAMESPACES)


async def test_server_that_does_not_answer_in_time_is_unreachable(
    host: FakeApiServer, client: ApiClient
) -> None:
    released = host.hold("GET", NAMESPACES)
    with pytest.raises(UnreachableError):
        await client.get(NAMESPACES)
    released.set()


async def test_recovery_is_reported_once_after_an_outage(
    host: FakeApiServer, client: ApiClient
) -> None:
    told: list[str] = []
    client.history.recovered.subscribe(lambda: told.append("again"))
    await client.get(NAMESPACES)
    assert told == []
    with host.down():
        for _ in range(2):
            with pytest.raises(UnreachableError):
                await client.get(NAMESPACES)
    await client.get(NAMESPACES)
    await client.get(NAMESPACES)
    assert told == ["again"]


async def test_refusal_counts_as_recovery(host: FakeApiServer, client: ApiClient) -> None:
    told: list[str] = []
    client.history.recovered.subscribe(lambda: told.append("again"))
    with host.down(), pytest.raises(UnreachableError):
        await client.get(NAMESPACES)
    host.fail(403, "Forbidden")
    with pytest.raises(ForbiddenError):
        await client.get(NAMESPACES)
    assert told == ["again"]


async def test_outage_is_one_line_of_log(
    host: FakeApiServer, client: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with host.down():
        for _ in range(3):
            with pytest.raises(UnreachableError):
                await client.get(NAMESPACES)
    await client.get(NAMESPACES)
    assert caplog.messages == ["Waiting for API server", "API server answers again"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_fenced_client_sends_no_write(host: FakeApiServer, method: str) -> None:
    client = host.client(may_write=lambda: False)
    with pytest.raises(UnreachableError, match="not the leader"):
        await client.request(method, NAMESPACES, body={})
    assert host.requests == []


async def test_fenced_client_may_still_read(host: FakeApiServer) -> None:
    client = host.client(may_write=lambda: False)
    await client.get(NAMESPACES)
    assert [str(request) for request in host.requests] == [f"GET {NAMESPACES}"]


async def test_fence_is_checked_before_each_write(host: FakeApiServer) -> None:
    answers = iter([True, False])
    client = host.client(may_write=lambda: next(answers))
    await client.create(NAMESPACES, namespace("one"))
    with pytest.raises(UnreachableError):
        await client.create(NAMESPACES, namespace("two"))
    assert [obj["metadata"]["name"] for obj in host.listed(NAMESPACES)] == ["one"]


async def test_fence_closed_while_waiting_out_a_busy_server_stops_the_write(
    host: FakeApiServer,
) -> None:
    answers = iter([True, False])
    client = host.client(may_write=lambda: next(answers))
    host.fail(429, headers={"Retry-After": "1"})
    with pytest.raises(UnreachableError):
        await client.create(NAMESPACES, namespace())
    assert host.listed(NAMESPACES) == []


async def test_fence_is_checked_after_waiting_for_the_rate_limit(host: FakeApiServer) -> None:
    leading = [True]
    client = host.client(qps=1.0, burst=1, may_write=lambda: leading[0])
    await client.create(NAMESPACES, namespace("one"))
    late = asyncio.ensure_future(client.create(NAMESPACES, namespace("two")))
    await asyncio.sleep(0)
    leading[0] = False
    with pytest.raises(UnreachableError):
        await late
    assert [obj["metadata"]["name"] for obj in host.listed(NAMESPACES)] == ["one"]


async def test_rate_limit_spreads_requests(
    host: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    # The bucket fills by the clock that its waits are of, however slow the machine is.
    monkeypatch.setattr(client_module, "time", SimpleNamespace(monotonic=loop.time))
    client = host.client(qps=2.0, burst=1)
    started = loop.time()
    for _ in range(3):
        await client.get(NAMESPACES)
    assert loop.time() - started > 0.8


async def test_token_is_requested_and_sent_each_time(host: FakeApiServer) -> None:
    tokens = iter(["first", "second"])
    credentials = Credentials(host.url, None, "a test", token=lambda: next(tokens))
    client = host.client(credentials=credentials)
    await client.get(NAMESPACES)
    await client.get(NAMESPACES)
    sent = [request.headers["Authorization"] for request in host.requests]
    assert sent == ["Bearer first", "Bearer second"]


async def test_changed_credentials_count_from_the_next_request_on(host: FakeApiServer) -> None:
    client = host.client(credentials=Credentials(host.url, None, "old", token=lambda: "old"))
    await client.get(NAMESPACES)
    client.credentials = Credentials(host.url, None, "new", token=lambda: "new")
    await client.get(NAMESPACES)
    sent = [request.headers["Authorization"] for request in host.requests]
    assert sent == ["Bearer old", "Bearer new"]


async def test_changed_credentials_reopen_watches(host: FakeApiServer, client: ApiClient) -> None:
    host.seed(namespace())
    watch = client.watch(NAMESPACES, {"resourceVersion": "100"})
    await anext(watch)
    client.credentials = Credentials(host.url, None, "new")
    with pytest.raises(UnreachableError):
        await anext(watch)
    assert client.is_reachable


async def test_server_that_rejects_our_identity_is_reported(
    host: FakeApiServer, client: ApiClient
) -> None:
    told: list[str] = []
    client.unauthorized.subscribe(lambda: told.append("unknown"))
    for code, reason in ((403, "Forbidden"), (401, "Unauthorized")):
        host.fail(code, reason)
        with pytest.raises((ForbiddenError, UnauthorizedError)):
            await client.get(NAMESPACES)
    assert told == ["unknown"]


async def test_page_that_flows_for_minutes_is_not_cut(host: FakeApiServer) -> None:
    client = host.client(timeouts=Timeouts(silence_s=30.0))
    host.drip(NAMESPACES, pieces=20, pause_s=20.0)
    assert b'"items"' in await client.read_page(NAMESPACES, {"limit": "500"})


async def test_pages_take_no_slots_of_other_requests(host: FakeApiServer) -> None:
    client = host.client(connections=1)
    host.seed(namespace())
    released = host.hold("GET", NAMESPACES, times=9)
    pages = [asyncio.ensure_future(client.read_page(NAMESPACES, {})) for _ in range(9)]
    await let_others_run()
    assert (await client.get(f"{NAMESPACES}/edge"))["metadata"]["name"] == "edge"
    assert not any(page.done() for page in pages)
    released.set()
    assert len(await asyncio.gather(*pages)) == 9


async def test_many_lists_wait_for_the_server_but_few_pages_are_read_at_once(
    host: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, read_body = host.client(), transport.read_body
    reads = most = 0

    async def counted(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
        nonlocal reads, most
        reads += 1
        most = max(most, reads)
        await asyncio.sleep(1.0)  # each is slow to arrive
        reads -= 1
        return await read_body(response, most_bytes)

    monkeypatch.setattr(transport, "read_body", counted)
    released = host.hold("GET", NAMESPACES, times=100)
    pages = [asyncio.ensure_future(client.read_page(NAMESPACES, {})) for _ in range(100)]
    await let_others_run()
    assert len(host.asked("GET", NAMESPACES)) >= LIST_CONNECTIONS - LIST_CONNECTIONS // PART_OF_OWN
    released.set()
    assert len(await asyncio.gather(*pages)) == 100
    assert most == PAGES_AT_ONCE - 1  # the agent itself leaves one


async def test_page_that_waits_to_be_read_does_not_use_up_its_time(
    host: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, read_body = host.client(timeouts=Timeouts(list_s=100.0)), transport.read_body
    for number in range(20):  # more than is buffered
        large = namespace(f"n-{number}")
        large["metadata"]["annotations"] = {"pad": "x" * 100_000}
        host.seed(large)

    async def slow(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
        await asyncio.sleep(90.0)
        return await read_body(response, most_bytes)

    monkeypatch.setattr(transport, "read_body", slow)
    pages = [asyncio.ensure_future(client.read_page(NAMESPACES, {})) for _ in range(12)]
    assert len(await asyncio.gather(*pages)) == 12


async def test_page_has_a_time_in_which_it_is_read(
    host: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object) -> bytes:
        await asyncio.sleep(1000.0)
        return b""

    monkeypatch.setattr(transport, "read_body", hang)
    began = asyncio.get_running_loop().time()
    with pytest.raises(CutOffError):
        await host.client(timeouts=Timeouts(list_s=100.0)).read_page(NAMESPACES, {})
    assert asyncio.get_running_loop().time() - began == pytest.approx(100.0, abs=1.0)


async def test_request_that_fails_beside_one_that_is_answered_is_no_outage(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(namespace())
    released = host.hold("GET", NAMESPACES)
    silent = asyncio.ensure_future(client.get(NAMESPACES))
    await asyncio.sleep(1.0)
    await client.get(f"{NAMESPACES}/edge")
    with pytest.raises(CutOffError):
        await silent
    released.set()
    assert client.is_reachable


async def test_outage_of_a_server_is_reported_once_for_all_its_clients(
    host: FakeApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    outage = History("hub")
    clients = [host.client(name, history=outage) for name in ("hub", "hub (leases)")]
    with host.down():
        for client in clients:
            with pytest.raises(UnreachableError):
                await client.get(NAMESPACES)
    for client in clients:
        await client.get(NAMESPACES)
    assert caplog.messages == ["Waiting for API server", "API server answers again"]


async def test_unchanged_document_is_not_sent_again(host: FakeApiServer, client: ApiClient) -> None:
    accept = "application/json;as=APIGroupDiscoveryList"
    first = await client.get_if_changed("/apis", None, accept)
    assert first is not None
    content, etag = first
    assert content["kind"] == "APIGroupDiscoveryList"
    assert await client.get_if_changed("/apis", etag, accept) is None


async def test_watch_yields_lines_until_the_server_ends_it(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(namespace())
    lines: list[bytes] = []
    async for line in client.watch(NAMESPACES, {"resourceVersion": "100"}):
        lines.append(line)
        host.end_watches()
    assert len(lines) == 1
    assert b'"ADDED"' in lines[0]


async def test_watch_that_is_refused_raises(host: FakeApiServer, client: ApiClient) -> None:
    host.fail(403, "Forbidden")
    with pytest.raises(ForbiddenError):
        async for _ in client.watch(NAMESPACES, {}):
            pass


async def test_watch_joins_a_line_that_arrives_in_pieces(
    host: FakeApiServer, client: ApiClient
) -> None:
    large = config_map(text="x" * 300_000)
    host.seed(namespace(), large)
    async for line in client.watch(MAPS, {"resourceVersion": "100"}):
        host.end_watches()
        assert line.endswith(b"}")
        assert len(line) > 300_000


async def test_token_that_cannot_be_read_makes_the_server_unreachable(
    host: FakeApiServer,
) -> None:
    def unreadable() -> str:
        raise OSError("no such token file")

    client = host.client(credentials=Credentials(host.url, None, "a test", token=unreadable))
    with pytest.raises(UnreachableError, match="no such token file"):
        await client.get(NAMESPACES)


class Listener(ClientInstrument):
    """An instrument that writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, ...]] = []

    def answered(self, method: str, code: str, took_s: float) -> None:
        assert took_s >= 0
        self.heard.append((method, code))

    def listed(self, path: str) -> None:
        self.heard.append(("list", path))

    def watched(self, path: str) -> None:
        self.heard.append(("watch", path))

    def failed(self, path: str, part: str) -> None:
        self.heard.append(("failed", path, part))

    def unreadable(self, source: str, path: str, reasons: Mapping[str, str]) -> None:
        self.heard.append(("unreadable", source, path, *reasons))


async def test_client_reports_every_response_and_its_absence(
    host: FakeApiServer, client: ApiClient
) -> None:
    listener = client.instrument = Listener()
    await client.create(NAMESPACES, namespace())
    with pytest.raises(NotFoundError):
        await client.get(f"{NAMESPACES}/absent")
    with host.down(), pytest.raises(UnreachableError):
        await client.get(NAMESPACES)
    assert listener.heard == [("POST", "201"), ("GET", "404"), ("GET", "<error>")]
    assert client.answered_at is not None
    assert not client.is_reachable


async def test_client_reports_watches_by_how_they_begin(
    host: FakeApiServer, client: ApiClient
) -> None:
    listener = client.instrument = Listener()
    with host.down(), pytest.raises(UnreachableError):
        async for _ in client.watch(NAMESPACES, {}):
            pass
    host.fail(403, "Forbidden")
    with pytest.raises(ForbiddenError):
        async for _ in client.watch(NAMESPACES, {}):
            pass
    watch = ("watch", NAMESPACES)
    assert listener.heard == [watch, ("GET", "<error>"), watch, ("GET", "403")]


async def test_write_with_the_rights_of_another_says_so(
    host: FakeApiServer, client: ApiClient
) -> None:
    host.seed(namespace())
    user = "system:serviceaccount:tenants:a"
    created = await client.create(MAPS, config_map(), user)
    await client.replace(f"{MAPS}/web", created, user)
    await client.delete(f"{MAPS}/web", None, user)
    await client.create(MAPS, config_map())
    found = [request.headers.get("Impersonate-User") for request in host.writes()]
    assert found == [user, user, user, None]


async def test_what_another_user_may_not_do_is_no_right_that_we_lack(
    host: FakeApiServer, client: ApiClient
) -> None:
    text = 'User "a" cannot create resource "configmaps" in API group "" in the namespace "edge"'
    host.fail(403, "Forbidden", message=text, times=2)
    for user, lacks in (("system:serviceaccount:tenants:a", False), ("", True)):
        with pytest.raises(ForbiddenError) as raised:
            await client.create(MAPS, config_map(), user)
        assert (raised.value.need is not None) is lacks


async def test_forbidden_look_up_of_a_foreign_name_is_no_missing_right(
    host: FakeApiServer, client: ApiClient
) -> None:
    text = 'User "a" cannot get resource "configmaps" in API group "" in the namespace "edge"'
    path = f"{MAPS}/settings"
    now_s = [0.0]
    for asks, lacking in ((client.look_up, 0), (client.get, 1)):
        client.denials = Denials(lambda: now_s[0])
        for now_s[0] in (0.0, DENIED_FOR_S):
            host.fail(403, "Forbidden", message=text)
            with suppress(ForbiddenError):
                assert await asks(path) is None
        assert len(client.denials.lasting()) == lacking
    for name in ("gone", "x%2Flog"):
        assert await client.look_up(f"{MAPS}/{name}") is None


async def test_an_object_that_is_missing_is_none_but_a_forbidden_one_raises(
    host: FakeApiServer, client: ApiClient
) -> None:
    assert await client.find(f"{MAPS}/missing") is None
    host.fail(403, "Forbidden", message="no")
    with pytest.raises(ForbiddenError):
        await client.find(f"{MAPS}/missing")


@pytest.mark.parametrize(
    "name",
    ["x?watch=true", "x#y", "..", ".", "../secrets/s", "a b", "x%2Flog", "x%2flog", "%252Flog"],
)
async def test_invalid_path_is_not_requested(
    host: FakeApiServer, client: ApiClient, name: str
) -> None:
    for call in (client.get, client.delete):
        with pytest.raises(UnwritableError):
            await call(f"/api/v1/namespaces/edge/configmaps/{name}")
    with pytest.raises(UnwritableError):
        async for _ in client.watch(f"/api/v1/namespaces/{name}/configmaps", {}):
            pass
    assert host.requests == []
