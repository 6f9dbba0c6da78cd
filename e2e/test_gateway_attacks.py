"""What a tenant with all rights in its virtual cluster tries against the others, by the gateway."""

import json
import socket
import ssl
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import urllib3

from e2e.lab.dear_requests import dear_requests
from e2e.lab.lone_gateway import ADMIN, LoneGateway, config_map, lone_gateway
from e2e.lab.lone_server import lone_api_server
from e2e.lab.memory import ADDED_BYTES, added_from_now
from e2e.lab.objects import custom_definition
from e2e.lab.pair import Pair
from e2e.lab.wait import PERIODIC_S, within
from karmada_vc_agent.features.gateway.server.fairness import LARGE_AT_ONCE, SLICE_S

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/edge"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/edge/networkpolicies"
JSON_PATCH = "application/json-patch+json"
MEDIAN_RATIO = 2.0
"""How much longer a small request may take while another virtual cluster attacks."""
WATCH_LIST = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"


@pytest.fixture(name="lone", scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoneGateway]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    with lone_api_server(folder / "host") as host, lone_gateway(host, folder) as lone:
        host.create(config_map("default", "settings", owner="the host"))
        yield lone


@pytest.fixture
def gateway(lone: LoneGateway) -> Pair:
    """Give each test two virtual clusters of its own."""
    return Pair(lone)


def _rule(groups: list[str], resources: list[str]) -> dict[str, list[str]]:
    return {"apiGroups": groups, "resources": resources, "verbs": ["get"]}


def said(gateway: Pair, request: str, for_s: float = 3.0) -> bytes:
    """Send lines of a request with the token of "a"; return all that comes back for a while."""
    context = ssl.create_default_context(cafile=str(gateway.gateway.ca))
    address = ("127.0.0.1", gateway.gateway.port)
    with (
        socket.create_connection(address) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        head = f"{request}\r\nHost: x\r\nAuthorization: bearer {gateway.token('a', 'access')}\r\n"
        secured.sendall(f"{head}\r\n".encode())
        secured.settimeout(PERIODIC_S)  # until it begins to respond
        found = b""
        try:
            while part := secured.recv(65536):
                found += part
                secured.settimeout(for_s)
        except TimeoutError:
            pass
        return found


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/configmaps?watch=true",
        f"/api/v1/configmaps?watch=true&{WATCH_LIST}",
        "/api/v1/persistentvolumes?watch=true",
        "/api/v1/namespaces/edge/configmaps?watch=true",
    ],
)
def test_a_watch_does_not_become_a_websocket(gateway: Pair, path: str) -> None:
    """The API server serves it, and what it sends would pass unmapped."""
    lines = (
        f"GET /virtualclusters/{gateway.names['a']}{path} HTTP/1.1",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Origin: https://x",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
    )
    answer = said(gateway, "\r\n".join(lines))
    assert answer.startswith(b"HTTP/1.1 400"), answer[:2000]
    for hidden in (b"the host", b"-v-", gateway.names["b"].encode()):
        assert hidden not in answer


def test_a_secret_does_not_bring_a_token_of_the_host(gateway: Pair) -> None:
    """With it a tenant would ask the host past the gateway."""
    metadata = {"name": "token", "annotations": {"kubernetes.io/service-account.name": "default"}}
    secret = {"metadata": metadata, "type": "kubernetes.io/service-account-token"}
    answer = gateway.ask("/api/v1/namespaces/edge/secrets", "a", "POST", body=secret)
    assert answer.status == 403, answer.data
    assert b"its credentials would be those of the host" in answer.data


@pytest.mark.parametrize("index", ["-1", "+0", "00"])
def test_an_index_does_not_pass_the_rules_by(gateway: Pair, index: str) -> None:
    """The API server counts from the end; a rule would not see the value."""
    peer = {"namespaceSelector": {"matchLabels": {"app": "x"}}}
    policy = {
        "metadata": {"name": "own"},
        "spec": {"podSelector": {}, "ingress": [{"from": [peer]}]},
    }
    created = gateway.ask(POLICIES, "a", "POST", body=policy)
    assert created.status == 201, created.data
    body = [
        {"op": "add", "path": f"/spec/ingress/{index}/from/0", "value": {"namespaceSelector": {}}}
    ]
    answer = gateway.ask(f"{POLICIES}/own", "a", "PATCH", body=body, Content_Type=JSON_PATCH)
    assert answer.status == 422, answer.data


MANY = [f"r{number}" for number in range(100_000)]


@pytest.mark.parametrize(
    ("method", "path", "body", "form"),
    [
        ("POST", f"{RBAC}/roles", {"rules": [_rule(MANY, MANY)]}, "application/json"),
        ("POST", f"{RBAC}/roles", {"rules": [_rule(["*"], ["*"])] * 40_000}, "application/json"),
        ("PATCH", f"{POLICIES}/x", [{"op": "add", "path": "/0" * 1_000_000}], JSON_PATCH),
    ],
    ids=["product", "wildcards", "path"],
)
def test_a_costly_body_is_refused(
    gateway: Pair, method: str, path: str, body: Any, form: str
) -> None:
    """Less than 3 MiB, and hours to judge: nobody else would be answered."""
    if isinstance(body, dict):
        body = {"metadata": {"name": "x"}, **body}
    content = json.dumps(body, separators=(",", ":")).encode()
    assert len(content) < 3 * 2**20
    answer = gateway.ask(path, "a", method, body=content, Content_Type=form)
    assert answer.status in (400, 403), answer.data[:500]
    assert gateway.ask("/api/v1/namespaces/edge/configmaps/settings", "b").status == 200


def _attack(gateway: Pair, letter: str, kind: str) -> AbstractContextManager[None]:
    """Have a tenant send dear requests."""
    url = gateway.gateway.url(gateway.names[letter])
    return dear_requests(kind, url, gateway.token(letter, "access"), str(gateway.gateway.ca))


def _median_s(gateway: Pair) -> float:
    """Return how long a small request of "b" takes, one after the other, for some seconds."""
    took, until = [], time.monotonic() + 5.0
    while time.monotonic() < until:
        began = time.monotonic()
        assert gateway.ask("/api/v1/namespaces/edge/configmaps/settings", "b").status == 200
        took.append(time.monotonic() - began)
    return statistics.median(took)


@pytest.mark.nightly  # compares times, which says something on a quiet machine only
@pytest.mark.parametrize("kind", ["selector", "patch"])
def test_small_costly_requests_starve_no_one(gateway: Pair, kind: str) -> None:
    """The machine may be busy otherwise: what is quiet is measured before and after.

    Others wait for the turn that is under way, so nobody notices less than two of them.
    """
    before = _median_s(gateway)
    with _attack(gateway, "a", kind):
        time.sleep(1.0)
        attacked = _median_s(gateway)
    time.sleep(1.0)
    quiet = max(before, _median_s(gateway))
    assert attacked <= MEDIAN_RATIO * max(quiet, 2 * SLICE_S), (quiet, attacked)


def test_bodies_of_tiny_items_do_not_fill_the_memory(gateway: Pair) -> None:
    """Of two tenants at once; the process has served other attacks, whose peak does not count."""
    added = added_from_now(gateway.gateway.pid)
    with _attack(gateway, "a", "tiny_items"), _attack(gateway, "b", "tiny_items"):
        time.sleep(15.0)
        for _ in range(5):
            path = "/api/v1/namespaces/edge/configmaps/settings"
            assert gateway.ask(path, "b").status == 200
        held = added()
    assert held < ADDED_BYTES, held


@pytest.mark.nightly  # in small: tests/unit/features/gateway/server/test_fair_shares.py
def test_many_lists_do_not_fill_the_memory(gateway: Pair) -> None:
    """All at once over a host with large objects; what is too many is told to come again."""
    added = added_from_now(gateway.gateway.pid)
    edge = gateway.space("edge", "a")
    for number in range(30):
        gateway.host.create(config_map(edge, f"large-{number}", pad="x" * 900_000))
    paths = ["/api/v1/configmaps", "/api/v1/configmaps?limit=1000000000"] * 20
    with ThreadPoolExecutor(len(paths)) as pool:
        codes = set(pool.map(lambda path: gateway.ask(path, "a").status, paths))
    assert 200 in codes <= {200, 429}
    held = added()
    assert held < ADDED_BYTES, held
    answer = gateway.ask("/api/v1/configmaps", "b")
    assert [each["metadata"]["namespace"] for each in answer.json()["items"]] == ["edge"]


DEEP = 5000


def test_what_nests_deep_breaks_no_list_but_its_owners(gateway: Pair) -> None:
    """An API server takes 10,000 levels in a kind without a schema, which neighbours have, too."""
    group = f"deep-{gateway.id}.example.org"
    gateway.host.create(custom_definition(group))
    widgets = f"/apis/{group}/v1/widgets"
    within(PERIODIC_S, lambda: gateway.host.get(widgets))
    rule = {"apiGroups": [group], "resources": ["*"], "verbs": ["*"]}
    role = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{ADMIN}"
    gateway.host.patch_json(role, {"op": "add", "path": "/rules/-", "value": rule})
    within(PERIODIC_S, lambda: _assert_lists(gateway, widgets))
    for letter in ("a", "b"):
        gateway.host.create(_widget(group, gateway.space("edge", letter), letter))
    seen = said_of_b(gateway, f"{widgets}?watch=true", lambda: _make_deep(gateway, group))
    assert b"after-b" in seen
    assert b"-v-" not in seen
    assert gateway.names["a"].encode() not in seen
    for query, shown in (("", 2), ("?limit=1", 1), ("?limit=500", 2)):
        answer = gateway.ask(f"{widgets}{query}", "b")
        assert answer.status == 200, answer.data[:500]
        names = [each["metadata"]["name"] for each in answer.json()["items"]]
        assert names == ["after-b", "w-b"][:shown]
    answer = gateway.ask(widgets, "b", Accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [row["cells"][0] for row in answer.json()["rows"]] == ["after-b", "w-b"]
    if sys.version_info < (3, 13):
        assert _is_refused(gateway, widgets, "a")
    else:  # its decoders skip so many levels of what is not mapped
        whole = gateway.ask(widgets, "a").data
        assert b'{"a":' * DEEP in whole
        assert b"-v-" not in whole


def _is_refused(gateway: Pair, path: str, letter: str) -> bool:
    """Whether a list fails: with a Status, or cut off where its first items were sent already."""
    try:
        answer = gateway.ask(path, letter)
    except urllib3.exceptions.ProtocolError:
        return True
    assert answer.status == 500
    return bool(answer.json()["message"] == "an object nests deeper than 200 levels")


def _assert_lists(gateway: Pair, path: str) -> None:
    for letter in ("a", "b"):
        assert gateway.ask(path, letter).status == 200


def _widget(group: str, namespace: str, letter: str) -> Any:
    metadata = {"name": f"w-{letter}", "namespace": namespace}
    return {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": metadata}


def _make_deep(gateway: Pair, group: str) -> None:
    """Make an object of "a" that no decoder reads, then one of "b"."""
    space, other = gateway.space("edge", "a"), gateway.space("edge", "b")
    widget = json.dumps({**_widget(group, space, "deep"), "spec": "here"})
    deep = widget.replace('"here"', '{"a":' * DEEP + "1" + "}" * DEEP)
    path = f"/apis/{group}/v1/namespaces"
    gateway.host.post(f"{path}/{space}/widgets", deep.encode())
    after = _widget(group, other, "b")
    after["metadata"]["name"] = "after-b"
    gateway.host.post(f"{path}/{other}/widgets", after)


def said_of_b(gateway: Pair, path: str, then: Callable[[], None]) -> bytes:
    """Return what a watch of "b" tells after something was done."""
    url = gateway.gateway.url(gateway.names["b"])[:-1] + path
    headers = {"Authorization": f"bearer {gateway.token('b', 'access')}"}
    with urllib3.PoolManager(ca_certs=str(gateway.gateway.ca)) as pool:
        answer = pool.request("GET", url, headers=headers, preload_content=False, timeout=20.0)
        assert answer.status == 200
        then()
        found = b""
        try:
            while b"after-b" not in found and (part := answer.read1()):
                found += part
        except urllib3.exceptions.ReadTimeoutError:
            pass
        answer.close()
        return found


def _unread(gateway: Pair, letter: str, path: str) -> ssl.SSLSocket:
    """Ask for something, and read nothing of it."""
    context = ssl.create_default_context(cafile=str(gateway.gateway.ca))
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.connect(("127.0.0.1", gateway.gateway.port))
    secured = context.wrap_socket(plain, server_hostname="127.0.0.1")
    head = f"GET /virtualclusters/{gateway.names[letter]}{path} HTTP/1.1\r\nHost: x\r\n"
    head += f"Authorization: bearer {gateway.token(letter, 'access')}\r\n\r\n"
    secured.sendall(head.encode())
    return secured


def _fill(gateway: Pair, letter: str, count: int, size: int = 900_000) -> None:
    space = gateway.space("edge", letter)
    for number in range(count):
        gateway.host.create(config_map(space, f"large-{number}", pad="x" * size))


@contextmanager
def _dripping(connections: list[ssl.SSLSocket]) -> Iterator[None]:
    """Read a little now and then: a connection of which nothing is read the kernel ends itself."""
    is_over = threading.Event()

    def drip() -> None:
        while not is_over.wait(0.5):
            for each in connections:
                each.recv(1024)

    with ThreadPoolExecutor(1) as pool:
        dripping = pool.submit(drip)
        try:
            yield
        finally:
            is_over.set()
            dripping.result()


@pytest.mark.nightly  # in small: tests/unit/features/gateway/server/test_fair_shares.py
def test_clients_that_hardly_read_keep_no_other_out(lone: LoneGateway) -> None:
    """As many virtual clusters as there are places for large answers, and one more."""
    first, second = Pair(lone), Pair(lone)
    everybody = [(pair, letter) for pair in (first, second) for letter in ("a", "b")]
    for pair, letter in everybody:
        _fill(pair, letter, 12)
    path = "/api/v1/namespaces/edge/configmaps"
    unread = [_unread(pair, letter, path) for pair, letter in everybody[:LARGE_AT_ONCE]]
    try:
        for each in unread:
            assert each.recv(1).startswith(b"H")
        with _dripping(unread):
            for asked in (path, "/api/v1/configmaps"):
                answer = second.ask(asked, "b")
                assert answer.status == 200, answer.data[:500]
                assert len(answer.json()["items"]) == 13
    finally:
        for each in unread:
            each.close()


@pytest.mark.nightly  # in small: tests/unit/features/gateway/server/test_held_memory.py
@pytest.mark.parametrize(("events", "size"), [(40, 28_000), (6, 900_000)], ids=["small", "large"])
def test_unread_watches_do_not_fill_the_memory(gateway: Pair, events: int, size: int) -> None:
    """Each client has much to receive, and reads nothing; the longest of those are cut.

    Without a bound each holds at least 1 MiB.
    """
    path = "/api/v1/namespaces/edge/configmaps?watch=true&resourceVersion=0"
    added = added_from_now(gateway.gateway.pid)
    unread = [_unread(gateway, "a", path) for _ in range(400)]
    try:
        for each in unread:
            assert each.recv(1).startswith(b"H")
        _fill(gateway, "a", events, size)
        for _ in range(10):
            time.sleep(0.5)
            assert gateway.ask("/api/v1/namespaces/edge/configmaps/settings", "b").status == 200
        held = added()
        assert held < ADDED_BYTES, held
    finally:
        for each in unread:
            each.close()
