"""Requests over TLS through the whole server to a fake host; rules of mapping are stood in for."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client import generate_latest

from karmada_vc_agent.access.agent_objects import secret_name
from karmada_vc_agent.features.gateway.identity import AUDIENCE
from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    ResponseKind,
    View,
    VirtualRequest,
)
from karmada_vc_agent.features.gateway.mapping.refusals import Attributes, RefusalError
from karmada_vc_agent.features.gateway.mapping.responses import Forward, Plan, Response
from karmada_vc_agent.features.gateway.server import access, host_requests
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from tests.fakes.api_server import Fault
from tests.fakes.gateway_lab import (
    AGENT,
    AGENT_NAMESPACE,
    REVIEWS,
    TOKENS,
    Lab,
    agent_config,
    config_map,
    gateway_lab,
    namespace,
    read_chunk,
    secret,
)
from tests.fakes.pages import PAGES

UNAUTHORIZED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "Unauthorized",
    "reason": "Unauthorized",
    "code": 401,
}


class Passing(Response):
    """A Response that shows what lies in claimed namespaces, by its virtual namespace."""

    def __init__(self, kind: ResponseKind) -> None:
        self.kind = kind

    def map(self, decoded: Object, view: View) -> Object | None:
        if self.kind is ResponseKind.LIST:
            items = [self._object(item, view) for item in decoded.get("items") or ()]
            return {**decoded, "items": [item for item in items if item is not None]}
        if self.kind is not ResponseKind.WATCH:
            return self._object(decoded, view)
        if decoded["type"] == "BOOKMARK":
            return decoded
        found = self._object(decoded["object"], view)
        return None if found is None else {**decoded, "object": found}

    def _object(self, decoded: Object, view: View) -> Object | None:
        metadata = decoded.get("metadata") or {}
        if metadata.get("name") == "bug":
            raise RuntimeError("a bug at one object")
        namespace = metadata.get("namespace")
        if namespace is None:
            return decoded
        found = view.virtual_namespace(namespace)
        if found is None:
            return None
        return {**decoded, "metadata": {**metadata, "namespace": found}}

    def map_status(self, decoded: Object, _view: View) -> Object:
        return {**decoded, "message": decoded["message"].replace("-v-a", "")}


def passing_plan(request: VirtualRequest, view: View) -> Plan:
    """Stand in for the rules: all namespaces by the gateway's rights, one by the caller's."""
    path, query, kind = request.path, request.query, ResponseKind.OBJECT
    if path == "/bug":
        raise RuntimeError("a bug at one request")
    if path == "/refused":
        return RefusalError(403, "as the rules say")
    if "watch=true" in query:
        kind = ResponseKind.WATCH
    elif path.endswith(("/log", "/exec")):
        kind = ResponseKind.OPAQUE
    elif request.method == "GET" and path.endswith(("/pods", "/configmaps")):
        kind = ResponseKind.LIST
    _, marker, rest = path.partition("/namespaces/")
    if marker:
        namespace, _, rest = rest.partition("/")
        path = f"/api/v1/namespaces/{view.context().claims.get(VirtualNamespace(namespace))}/{rest}"
    return Forward(
        request.method,
        path,
        Passing(kind),
        query,
        request.accept,
        request.content_type,
        request.body,
        authorize=None if marker else Attributes("list", "", "v1", "pods"),
        is_long=kind is ResponseKind.WATCH or "follow=true" in query,
    )


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    async with gateway_lab(tmp_path, passing_plan) as found:
        yield found


CONFIG_MAPS = "/api/v1/configmaps"
EDGE = "/api/v1/namespaces/edge/configmaps"
EDGE_ON_HOST = "/api/v1/namespaces/edge-v-a/configmaps"


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)


# --- who asks -----------------------------------------------------------------------------


@pytest.mark.parametrize("upgrade", [(), (("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"))])
@pytest.mark.parametrize(
    ("token", "headers", "code"),
    [
        ("", (), 401),
        ("wrong", (), 401),
        (TOKENS["b", "access"], (), 401),
        (TOKENS["b", "impersonator"], (("Impersonate-User", "alice"),), 401),
        (TOKENS["a", "access"], (("Impersonate-User", "alice"),), 403),
        (TOKENS["a", "access"], (("Impersonate-Group", "dev"),), 403),
        (TOKENS["a", "access"], (("Impersonate-Uid", "1"),), 403),
        (TOKENS["a", "impersonator"], (), 403),
        (TOKENS["a", "impersonator"], (("Impersonate-User", "bob"),), 403),
        (
            TOKENS["a", "impersonator"],
            (("Impersonate-User", "alice"), ("Impersonate-Group", "ops")),
            403,
        ),
        (
            TOKENS["a", "impersonator"],
            (("Impersonate-User", "alice"), ("Impersonate-Extra-Scopes", "x")),
            403,
        ),
    ],
)
async def test_unauthorized_client_is_refused_before_the_host_is_requested(
    lab: Lab,
    token: str,
    headers: tuple[tuple[str, str], ...],
    code: int,
    upgrade: tuple[tuple[str, str], ...],
) -> None:
    """G-11, G-12, G-13, G-20: the token matrix, for plain requests and upgrades."""
    before = len(lab.host.requests)
    reply = await lab.ask(f"{EDGE}/m", *headers, *upgrade, token=token)
    assert reply.code == code
    assert reply.json["kind"] == "Status"
    if code == 401:
        assert reply.json == UNAUTHORIZED
    assert [r for r in lab.host.requests[before:] if "edge-v" in r.path] == []


async def test_the_same_is_said_for_a_cluster_that_there_is_not(lab: Lab) -> None:
    for cluster in ("c", "A", "..", "a%2f"):
        reply = await lab.ask("/api", cluster=cluster)
        assert (reply.code, reply.json) == (401, UNAUTHORIZED)


async def test_tokens_in_the_query_or_a_cookie_mean_nothing(lab: Lab) -> None:
    token = TOKENS["a", "access"]
    reply = await lab.ask(f"{EDGE}?token={token}", ("Cookie", f"token={token}"), token="")
    assert reply.code == 401


async def test_host_sees_the_client_by_names_of_the_virtual_cluster(lab: Lab) -> None:
    seen = lab.noted(f"{EDGE_ON_HOST}/m")
    assert (await lab.ask(f"{EDGE}/m")).code == 200
    impersonated = (("Impersonate-User", "alice"), ("Impersonate-Group", "system:masters"))
    forbidden = (
        ("Cookie", "c=1"),
        ("X-Remote-User", "system:admin"),
        ("X-Forwarded-For", "1.2.3.4"),
        ("X-Remote-Group", "system:masters"),
        ("Forwarded", "for=1.2.3.4"),
    )
    token = TOKENS["a", "impersonator"]
    assert (await lab.ask(f"{EDGE}/m", *impersonated, *forbidden, token=token)).code == 200
    names = [
        [(name, value) for name, value in each if name.startswith("impersonate")] for each in seen
    ]
    assert names == [
        [
            ("impersonate-user", "vc:a:karmada"),
            ("impersonate-group", "vc:a:karmada-access"),
            ("impersonate-group", "vc:a"),
        ],
        [
            ("impersonate-user", "vc:a:alice"),
            ("impersonate-group", "vc:a:system:masters"),
            ("impersonate-group", "vc:a"),
        ],
    ]
    for each in seen:
        assert not {name for name, _ in each} & {n.lower() for n, _ in forbidden}
        assert not any(token in value for _, value in each)


async def _revoke(lab: Lab) -> None:
    """Take back the token of kind access of virtual cluster a."""
    path = f"/api/v1/namespaces/{AGENT_NAMESPACE}/secrets/{secret_name(AGENT)}"
    left = {key: token for key, token in TOKENS.items() if key != ("a", "access")}
    lab.host.change(path, data=secret(left)["data"])
    await _until(lambda: len(lab.state.sums_of("a")) == 1)


async def test_revoked_token_and_removed_cluster_are_unauthorized_at_once(lab: Lab) -> None:
    await _revoke(lab)
    assert (await lab.ask(EDGE)).json == UNAUTHORIZED
    lab.state.file.replace_all(())
    reply = await lab.ask(EDGE, token=TOKENS["b", "access"], cluster="b")
    assert reply.json == UNAUTHORIZED


async def test_what_the_gateway_does_by_its_own_rights_the_caller_must_be_allowed(
    lab: Lab,
) -> None:
    """G-24: asked once for some seconds, in the anchor, for the caller's names on the host."""
    for _ in range(3):
        assert (await lab.ask(CONFIG_MAPS)).code == 200
    (asked,) = lab.host.asked("POST", REVIEWS)
    spec = asked.body["spec"]
    assert (spec["user"], spec["groups"]) == ("vc:a:karmada", ["vc:a:karmada-access", "vc:a"])
    assert spec["resourceAttributes"]["namespace"] == "vc-system-v-a"
    lab.host._faults.clear()
    lab.host.answer(b'{"status": {"allowed": false}}', 201, path=REVIEWS)
    token, who = TOKENS["a", "impersonator"], ("Impersonate-User", "alice")
    reply = await lab.ask(CONFIG_MAPS, who, token=token)
    assert reply.code == 403
    assert reply.json["message"] == (
        'pods is forbidden: User "alice" cannot list resource "pods" in API group "" at the '
        "cluster scope"
    )
    assert (await lab.ask(CONFIG_MAPS, who, token=token)).code == 403
    assert len(lab.host.asked("POST", REVIEWS)) == 2


# --- what is answered -----------------------------------------------------------------------


async def test_a_list_of_all_namespaces_shows_those_of_the_cluster(lab: Lab) -> None:
    reply = await lab.ask(CONFIG_MAPS)
    assert [item["metadata"]["namespace"] for item in reply.json["items"]] == ["edge"]
    assert b"edge-v" not in reply.body
    seen = [r for r in lab.host.requests if r.path == CONFIG_MAPS]
    assert not any("Impersonate-User" in request.headers for request in seen)


async def test_an_object_of_a_neighbour_is_not_there(lab: Lab) -> None:
    assert (await lab.ask("/api/v1/namespaces/edge-v-b/configmaps/m")).code == 404


@pytest.mark.parametrize("name", ["404 plain", "404 Status", "404 JSON"])
async def test_404_that_names_no_object_does_not_say_that_it_is_missing(
    lab: Lab, name: str
) -> None:
    """Clients take any 404 for a missing object, also that of a proxy before the host."""
    page = PAGES[name]
    lab.host.answer(page.body, page.code, path=f"{EDGE_ON_HOST}/m")
    reply = await lab.ask(f"{EDGE}/m")
    assert (reply.code, reply.json["kind"]) == (503, "Status")
    assert (await lab.ask(f"{EDGE}/m")).code == 200


async def test_a_write_is_sent_as_it_was_planned(lab: Lab) -> None:
    body = orjson.dumps(config_map("edge-v-a", "new"))
    reply = await lab.ask(EDGE, ("Content-Type", "application/json"), method="POST", body=body)
    assert (reply.code, reply.json["metadata"]["namespace"]) == (201, "edge")
    assert lab.host.live(f"{EDGE_ON_HOST}/new")


async def test_a_failure_of_the_host_is_mapped(lab: Lab) -> None:
    lab.host.fail(409, "Conflict", path=f"{EDGE_ON_HOST}/m", message="in edge-v-a it is newer")
    reply = await lab.ask(f"{EDGE}/m")
    assert (reply.code, reply.json["message"]) == (409, "in edge it is newer")


@pytest.mark.parametrize(
    ("code", "message", "told"),
    [
        (401, "Unauthorized", 503),
        (403, 'users "x" is forbidden: User "g" cannot impersonate resource "users"', 500),
    ],
)
async def test_a_refusal_of_the_gateway_itself_is_not_passed_on(
    lab: Lab, code: int, message: str, told: int
) -> None:
    lab.host.fail(code, path=f"{EDGE_ON_HOST}/m", message=message)
    reply = await lab.ask(f"{EDGE}/m")
    assert reply.code == told
    assert "impersonate" not in reply.json["message"]


async def test_rules_may_refuse(lab: Lab) -> None:
    reply = await lab.ask("/refused")
    assert (reply.code, reply.json["message"]) == (403, "as the rules say")


async def test_a_bug_costs_one_request(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.host.seed(config_map("edge-v-a", "bug"))
    for path in ("/bug", f"{EDGE}/bug"):
        reply = await lab.ask(path)
        assert (reply.code, reply.json["reason"]) == (500, "InternalError")
        assert "bug at" not in reply.json["message"]
    assert (await lab.ask(f"{EDGE}/m")).code == 200
    assert caplog.text.count("Failed to answer a request") == 2


# --- watches --------------------------------------------------------------------------------


async def _watch(
    lab: Lab, path: str = CONFIG_MAPS
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    version = lab.host.storage.version
    reader, writer = await lab.open(f"{path}?watch=true&resourceVersion={version}")
    assert b"200" in await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def test_watch_reports_its_own_as_it_happens(lab: Lab) -> None:
    reader, writer = await _watch(lab)
    lab.host.seed(config_map("edge-v-b", "n"), config_map("edge-v-a", "n"))
    event = orjson.loads(await read_chunk(reader))
    assert (event["type"], event["object"]["metadata"]["namespace"]) == ("ADDED", "edge")
    lab.host.bookmark()
    assert orjson.loads(await read_chunk(reader))["type"] == "BOOKMARK"
    lab.host.end_watches()
    assert await read_chunk(reader) == b""
    writer.close()


def _ignore_change(obj: Object) -> None:
    """Stand in for a watch that is late."""


async def test_an_event_that_overtakes_its_namespace_waits_for_it(lab: Lab) -> None:
    """G-41: the namespace is read, once."""
    reader, writer = await _watch(lab)
    lab.state.namespaces.apply = _ignore_change  # type: ignore[method-assign]
    lab.host.seed(namespace("new-v-a", "a", "new"), config_map("new-v-a"))
    event = orjson.loads(await read_chunk(reader))
    assert event["object"]["metadata"]["namespace"] == "new"
    lab.host.seed(config_map("new-v-a", "second"))
    await read_chunk(reader)
    assert len(lab.host.asked("GET", "/api/v1/namespaces/new-v-a")) == 1
    writer.close()


async def test_deletion_of_an_object_is_sent_though_its_namespace_is_deleted(lab: Lab) -> None:
    reader, writer = await _watch(lab)
    gone = lab.state.namespaces.get("", "edge-v-a")
    assert gone is not None
    lab.state.namespaces.remove(gone)
    lab.host.remove(f"{EDGE_ON_HOST}/m")
    event = orjson.loads(await read_chunk(reader))
    assert (event["type"], event["object"]["metadata"]["namespace"]) == ("DELETED", "edge")
    writer.close()


@pytest.mark.parametrize("changed", ["adopted", "released"])
async def test_a_namespace_that_changes_hands_ends_watches_of_all(lab: Lab, changed: str) -> None:
    """G-41: with 410, so that clients list again; others' watches go on."""
    lab.host.seed(namespace("old"))
    await _until(lambda: lab.state.namespaces.get("", "old") is not None)
    reader, writer = await _watch(lab)
    other, other_writer = await lab.open(
        f"{CONFIG_MAPS}?watch=true", token=TOKENS["b", "access"], cluster="b"
    )
    await other.readuntil(b"\r\n\r\n")
    path = "/api/v1/namespaces/old" if changed == "adopted" else "/api/v1/namespaces/edge-v-a"
    cluster = ("a", "old") if changed == "adopted" else ()
    metadata = lab.host.live(path)["metadata"]
    labels = namespace("x", *cluster)["metadata"]["labels"]
    lab.host.change(path, metadata={**metadata, "labels": labels})
    event = orjson.loads(await read_chunk(reader))
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert await read_chunk(reader) == b""
    lab.host.seed(config_map("edge-v-b", "n"))
    assert orjson.loads(await read_chunk(other))["type"] == "ADDED"
    for each in (writer, other_writer):
        each.close()


async def test_watches_end_in_good_order_when_the_gateway_does(lab: Lab) -> None:
    reader, writer = await _watch(lab)
    lab.gateway.end_long()
    assert await read_chunk(reader) == b""
    writer.close()


async def test_a_watch_ends_once_its_token_is_revoked(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G-15: those of others go on."""
    monkeypatch.setattr(access, "LOOK_AGAIN_S", 0.01)
    reader, writer = await _watch(lab)
    other, other_writer = await lab.open(
        f"{CONFIG_MAPS}?watch=true", token=TOKENS["b", "access"], cluster="b"
    )
    await other.readuntil(b"\r\n\r\n")
    await _revoke(lab)
    assert await read_chunk(reader) == b""
    await _until(lambda: bool(lab.audit))
    assert (lab.audit[-1]["vc"], lab.audit[-1]["rejected"]) == ("a", "revoked")
    lab.host.seed(config_map("edge-v-b", "n"))
    while orjson.loads(await read_chunk(other))["object"]["metadata"]["name"] != "n":
        pass
    for each in (writer, other_writer):
        each.close()


async def test_a_watch_ends_once_the_host_allows_it_no_more(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the gateway asked before it began (G-24), it asks again."""
    monkeypatch.setattr(access, "LOOK_AGAIN_S", 0.01)
    monkeypatch.setattr(access, "VERDICT_FOR_S", 0.0)
    reader, writer = await _watch(lab)
    lab.host.answer(b"{}", 503, path=REVIEWS, times=3)
    asked = len(lab.host.asked("POST", REVIEWS))
    await _until(lambda: len(lab.host.asked("POST", REVIEWS)) > asked + 3)
    assert lab.limits.in_progress() == {("a", True): 1}
    lab.host._faults.clear()
    lab.host.answer(b'{"status": {"allowed": false}}', 201, path=REVIEWS, times=1_000)
    assert await read_chunk(reader) == b""
    await _until(lambda: bool(lab.audit))
    assert (lab.audit[-1]["verb"], lab.audit[-1]["rejected"]) == ("watch", "revoked")
    writer.close()


async def test_failed_token_review_keeps_the_watch(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "LOOK_AGAIN_S", 0.01)
    monkeypatch.setattr(access, "VALID_FOR_S", 0.0)
    lab.host.answer(_reviewed(), 201, path=TOKEN_REVIEWS)
    reader, writer = await lab.open(f"{CONFIG_MAPS}?watch=true", token=OPERATOR_TOKEN)
    await reader.readuntil(b"\r\n\r\n")
    lab.host.answer(b"{}", 503, path=TOKEN_REVIEWS, times=5)
    lab.host.answer(_reviewed(), 201, path=TOKEN_REVIEWS, times=3)
    lab.host.answer(_reviewed(authenticated=False), 201, path=TOKEN_REVIEWS, times=1_000)
    await _until(lambda: len(lab.host.asked("POST", TOKEN_REVIEWS)) > 8)
    await _until(lambda: not lab.limits.in_progress())
    writer.close()


async def test_client_that_disconnects_ends_the_watch_at_the_host(lab: Lab) -> None:
    _, writer = await _watch(lab)
    assert lab.limits.in_progress() == {("a", True): 1}
    writer.close()
    await _until(lambda: not lab.limits.in_progress())
    assert lab.audit[-1]["verb"] == "watch"


# --- limits and failures ---------------------------------------------------------------------


async def test_too_many_requests_of_one_cluster_do_not_hold_up_another(lab: Lab) -> None:
    released = lab.host.hold("GET", f"{EDGE_ON_HOST}/m", times=10)
    held = [asyncio.create_task(lab.ask(f"{EDGE}/m")) for _ in range(4)]
    await _until(lambda: lab.limits.in_progress().get(("a", False)) == 4)
    reply = await lab.ask(f"{EDGE}/m")
    assert (reply.code, reply.json["reason"]) == (429, "TooManyRequests")
    assert reply.headers["retry-after"] == "1"
    token = TOKENS["b", "access"]
    assert (await lab.ask(f"{EDGE}/m", token=token, cluster="b")).code == 200
    released.set()
    assert [(await each).code for each in held] == [200] * 4


async def test_too_many_watches_leave_slots_for_requests(lab: Lab) -> None:
    writers = [(await _watch(lab))[1] for _ in range(4)]
    assert (await lab.ask(f"{CONFIG_MAPS}?watch=true")).code == 429
    assert (await lab.ask(f"{EDGE}/m")).code == 200
    for writer in writers:
        writer.close()
    await _until(lambda: not lab.limits.in_progress())


async def test_a_host_that_is_not_there_is_503(lab: Lab) -> None:
    with lab.host.down():
        reply = await lab.ask(f"{EDGE}/m")
    assert (reply.code, reply.json["reason"]) == (503, "ServiceUnavailable")
    assert reply.headers["retry-after"] == "1"
    assert (await lab.ask(f"{EDGE}/m")).code == 200


async def test_a_host_that_does_not_answer_in_time_is_504(tmp_path: Path) -> None:
    async with gateway_lab(tmp_path, passing_plan, answer_s=0.5) as lab:
        released = lab.host.hold("GET", f"{EDGE_ON_HOST}/m")
        reply = await lab.ask(f"{EDGE}/m")
        assert (reply.code, reply.json["reason"]) == (504, "Timeout")
        released.set()


async def test_connections_to_the_host_are_kept_for_each_cluster_apart(lab: Lab) -> None:
    peers: list[tuple[str, Any]] = []

    def act(incoming: Any) -> None:
        peers.append((incoming.path, incoming.transport.get_extra_info("peername")))

    lab.host._faults.append(Fault(act))
    for _ in range(3):
        for cluster in ("a", "b"):
            await lab.ask(f"{EDGE}/m", token=TOKENS[cluster, "access"], cluster=cluster)
    used = {peer: {path for path, p in peers if p == peer} for _, peer in peers}
    own = [paths for paths in used.values() if any("edge-v" in path for path in paths)]
    assert len(own) == 2
    assert all(len(paths) == 1 for paths in own)


# --- what is told ----------------------------------------------------------------------------


async def test_each_request_is_a_line_without_tokens_and_bodies(lab: Lab) -> None:
    """G-25."""
    token, secret = TOKENS["a", "impersonator"], b'{"data": "c2VjcmV0"}'
    who = (("Impersonate-User", "alice"), ("Impersonate-Group", "dev"))
    await lab.ask(f"{EDGE}/m?fieldManager=x", *who, token=token)
    await lab.ask(EDGE, token="guess", method="POST", body=secret)
    first, second = lab.audit
    assert first | {"time": "", "ms": 0, "bytes": 0} == {
        "time": "",
        "audit": True,
        "vc": "a",
        "kind": "impersonator",
        "user": "alice",
        "groups": ["dev"],
        "verb": "get",
        "path": f"{EDGE}/m",
        "hostPath": f"{EDGE_ON_HOST}/m",
        "code": 200,
        "bytes": 0,
        "ms": 0,
    }
    assert first["bytes"] > 0
    assert (second["code"], second["rejected"]) == (401, "unauthorized")
    assert all(text not in str(lab.audit) for text in (token, "guess", "c2VjcmV0"))


async def test_requests_are_counted_for_each_cluster(lab: Lab) -> None:
    await lab.ask(f"{EDGE}/m")
    await lab.ask(f"{EDGE}/m", token="wrong")
    await lab.ask("/api", cluster="unknown")
    text = generate_latest(lab.metrics.registry).decode()
    assert 'gateway_requests_total{code="200",member_cluster="a",verb="get"} 1.0' in text
    assert 'gateway_rejected_requests_total{member_cluster="a",reason="unauthorized"} 1.0' in text
    assert "unknown" not in text
    lab.state.file.replace_all(v for v in agent_config().virtual_clusters if v.name == "b")
    assert 'member_cluster="a"' not in generate_latest(lab.metrics.registry).decode()


# --- upgrades --------------------------------------------------------------------------------


@dataclass
class Kubelet:
    """Answers an upgrade with 101 and bytes at once, then echoes."""

    heads: list[str] = field(default_factory=list)
    status: str = "101 Switching Protocols"
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    writer: Any = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(f"HTTP/1.1 {self.status}\r\n".encode())
        if self.status.startswith("101"):
            writer.write(b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream: v4\r\n\r\nearly")
            while data := await reader.read(4096):
                writer.write(data.upper())
        else:
            body = b'{"kind":"Status","message":"no edge-v-a here","code":404}'
            writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
        writer.close()
        self.ended.set()


@pytest.fixture
async def kubelet(lab: Lab) -> AsyncIterator[Kubelet]:
    """Have the gateway send its requests there, instead of to the fake host."""
    found = Kubelet()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    lab.gateway._host.use(Credentials(f"http://127.0.0.1:{port}", None, "a test"))
    yield found
    server.close()


UPGRADE = (("Connection", "keep-alive, upgrade"), ("Upgrade", "SPDY/3.1"))
EXEC = "/api/v1/namespaces/edge/pods/p/exec"


async def test_an_upgrade_is_a_tunnel_of_bytes(lab: Lab, kubelet: Kubelet) -> None:
    """G-60, G-61: also those that were read behind the head."""
    versions = (("X-Stream-Protocol-Version", "v5"), ("X-Stream-Protocol-Version", "v4"))
    reader, writer = await lab.open(
        f"{EXEC}?command=a%2Fb&command=c", *UPGRADE, *versions, method="POST"
    )
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    assert head.startswith("HTTP/1.1 101")
    assert "X-Stream: v4" in head.title().replace("V4", "v4")
    assert await reader.readexactly(5) == b"early"
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"HELLO"
    writer.write(b"x" * 300_000)
    assert await reader.readexactly(300_000) == b"X" * 300_000
    writer.close()
    async with asyncio.timeout(10):
        await kubelet.ended.wait()
    lines = kubelet.heads[0].split("\r\n")
    assert lines[0] == (
        "POST /api/v1/namespaces/edge-v-a/pods/p/exec?command=a%2Fb&command=c HTTP/1.1"
    )
    lower = [line.lower() for line in lines]
    assert [line for line in lower if line.startswith("x-stream")] == [
        "x-stream-protocol-version: v5",
        "x-stream-protocol-version: v4",
    ]
    assert "impersonate-user: vc:a:karmada" in lower
    await _until(lambda: bool(lab.audit))
    assert (lab.audit[-1]["verb"], lab.audit[-1]["code"]) == ("connect", 101)
    assert lab.audit[-1]["bytes"] == 300_010


async def test_the_end_of_the_pod_ends_the_tunnel(
    lab: Lab, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_requests, "TUNNEL_LINGER_S", 0.1)
    reader, writer = await lab.open(EXEC, *UPGRADE)
    await reader.readuntil(b"early")
    kubelet.writer.close()
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()


async def test_a_tunnel_ends_once_its_token_is_revoked(
    lab: Lab, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "LOOK_AGAIN_S", 0.01)
    reader, writer = await lab.open(EXEC, *UPGRADE)
    await reader.readuntil(b"early")
    await _revoke(lab)
    with suppress(ConnectionError):
        async with asyncio.timeout(10):
            assert await reader.read() == b""
    await _until(lambda: bool(lab.audit))
    assert (lab.audit[-1]["verb"], lab.audit[-1]["rejected"]) == ("connect", "revoked")
    writer.close()


async def test_an_upgrade_that_the_host_refuses_is_a_mapped_answer(
    lab: Lab, kubelet: Kubelet
) -> None:
    kubelet.status = "404 Not Found"
    reply = await lab.ask(EXEC, *UPGRADE)
    assert (reply.code, reply.json["message"]) == (404, "no edge here")


WEBSOCKET = (
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Origin", "https://x"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("Sec-WebSocket-Version", "13"),
)


@pytest.mark.parametrize("rest", ["?watch=true", "/m", ""])
async def test_what_is_mapped_does_not_become_a_tunnel(
    lab: Lab, kubelet: Kubelet, rest: str
) -> None:
    """Whatever was planned: an API server serves watches over WebSockets, too."""
    reply = await lab.ask(f"/api/v1/namespaces/edge/configmaps{rest}", *WEBSOCKET)
    assert (reply.code, b"early" in reply.body) == (500, False)
    assert len(kubelet.heads) == 1


async def test_an_upgrade_without_a_protocol_is_refused(lab: Lab) -> None:
    assert (await lab.ask(EXEC, ("Connection", "Upgrade"))).code == 400


# --- operators of the site ---------------------------------------------------------------------

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def _token(account: str = "vc-system-v-a:alice", audience: Any = (AUDIENCE,), end: str = "") -> str:
    """Return a token that says so of itself."""
    said = {"sub": f"system:serviceaccount:{account}", "aud": audience}
    claims = base64.urlsafe_b64encode(orjson.dumps(said)).decode().rstrip("=")
    return f"head.{claims}.signature{end}"


OPERATOR_TOKEN = _token()


def _reviewed(
    *, account: str = "vc-system-v-a:alice", authenticated: bool = True, audience: str = AUDIENCE
) -> bytes:
    user = {"username": f"system:serviceaccount:{account}"}
    status = {"authenticated": authenticated, "audiences": [audience], "user": user}
    return orjson.dumps({"status": status})


async def test_an_operator_has_all_rights_inside_by_a_token_for_the_gateway(lab: Lab) -> None:
    """G-14: asked once for some seconds."""
    lab.host.answer(_reviewed(), 201, path=TOKEN_REVIEWS)
    seen = lab.noted(f"{EDGE_ON_HOST}/m")
    for _ in range(3):
        assert (await lab.ask(f"{EDGE}/m", token=OPERATOR_TOKEN)).code == 200
    (review,) = lab.host.asked("POST", TOKEN_REVIEWS)
    assert review.body["spec"] == {"token": OPERATOR_TOKEN, "audiences": [AUDIENCE]}
    assert [pair for pair in seen[0] if pair[0].startswith("impersonate")] == [
        ("impersonate-user", "vc:a:operator"),
        ("impersonate-group", "vc:a:karmada-access"),
        ("impersonate-group", "vc:a"),
    ]
    assert (lab.audit[-1]["user"], lab.audit[-1]["account"]) == ("operator", "alice")
    reply = await lab.ask(f"{EDGE}/m", ("Impersonate-User", "root"), token=OPERATOR_TOKEN)
    assert reply.code == 403


@pytest.mark.parametrize(
    "answer",
    [
        _reviewed(account="vc-system-v-b:alice"),
        _reviewed(account="edge-v-a:bot"),
        _reviewed(account="kube-system:admin"),
        _reviewed(authenticated=False),
        _reviewed(audience="https://kubernetes.default.svc"),
        b'{"status": {}}',
    ],
)
async def test_an_account_of_another_place_or_for_another_audience_is_unknown(
    lab: Lab, answer: bytes
) -> None:
    lab.host.answer(answer, 201, path=TOKEN_REVIEWS)
    for _ in range(2):
        assert (await lab.ask(f"{EDGE}/m", token=OPERATOR_TOKEN)).json == UNAUTHORIZED
    assert len(lab.host.asked("POST", TOKEN_REVIEWS)) == 1


@pytest.mark.parametrize(
    "page", ["404 plain", "404 Status", "401 page", "502 page", "200 HTML", "200 JSON"]
)
async def test_page_in_place_of_a_review_is_no_verdict(lab: Lab, page: str) -> None:
    code, body = PAGES[page]
    lab.host.answer(body, code, path=TOKEN_REVIEWS)
    reply = await lab.ask(f"{EDGE}/m", token=OPERATOR_TOKEN)
    assert (reply.code, reply.json["message"]) == (
        503,
        "the API server of the cluster does not answer",
    )
    lab.host.answer(_reviewed(), 201, path=TOKEN_REVIEWS)
    assert (await lab.ask(f"{EDGE}/m", token=OPERATOR_TOKEN)).code == 200


async def test_gateway_without_the_right_to_review_says_so(lab: Lab) -> None:
    lab.host.fail(403, "Forbidden", path=TOKEN_REVIEWS)
    assert (await lab.ask(f"{EDGE}/m", token=OPERATOR_TOKEN)).code == 500


async def test_guessed_tokens_do_not_delay_a_cached_one(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if they say all that one of an operator would."""
    monkeypatch.setattr(access, "VALID_FOR_S", 0.0)
    monkeypatch.setattr(access, "REVIEWS_AT_ONCE", 1)
    monkeypatch.setattr(access, "REVIEWS_WAITING", 2)
    lab.host.answer(_reviewed(), 201, path=TOKEN_REVIEWS)
    assert (await lab.ask(f"{EDGE}/m", token=OPERATOR_TOKEN)).code == 200
    held = lab.host.hold("POST", TOKEN_REVIEWS)
    guesses = [
        asyncio.create_task(lab.ask(f"{EDGE}/m", token=_token(end=str(number))))
        for number in range(2)
    ]
    reviews = lab.gateway._authentication._reviews["a"]
    await _until(lambda: reviews._waiting[False] == 2)
    assert (await lab.ask(f"{EDGE}/m", token=_token(end="3"))).code == 429
    await _until(lambda: len(lab.host.asked("POST", TOKEN_REVIEWS)) > 1)
    lab.host.answer(_reviewed(), 201, path=TOKEN_REVIEWS)
    assert (await lab.ask(f"{EDGE}/m", token=OPERATOR_TOKEN)).code == 200
    held.set()
    await asyncio.gather(*guesses)


async def test_what_is_no_token_of_an_account_is_not_reviewed(lab: Lab) -> None:
    guessed = ("guess", "a.b", "a.b.c.d")
    for token in guessed:
        assert (await lab.ask(EDGE, token=token)).json == UNAUTHORIZED
    assert lab.host.asked("POST", TOKEN_REVIEWS) == []
