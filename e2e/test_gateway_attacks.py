"""What a tenant with all rights in its virtual cluster tries against the others, by the gateway."""

import json
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from e2e.lab.lone_gateway import LoneGateway, config_map, lone_gateway
from e2e.lab.lone_server import lone_api_server
from e2e.lab.pair import Pair

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/edge"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/edge/networkpolicies"
JSON_PATCH = "application/json-patch+json"
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
        secured.settimeout(for_s)
        found = b""
        try:
            while part := secured.recv(65536):
                found += part
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


def test_many_lists_do_not_fill_the_memory(gateway: Pair) -> None:
    """All at once over a host with large objects; what is too many is told to come again."""
    edge = gateway.space("edge", "a")
    for number in range(30):
        gateway.host.create(config_map(edge, f"large-{number}", pad="x" * 900_000))
    paths = ["/api/v1/configmaps", "/api/v1/configmaps?limit=1000000000"] * 20
    with ThreadPoolExecutor(len(paths)) as pool:
        codes = set(pool.map(lambda path: gateway.ask(path, "a").status, paths))
    assert 200 in codes <= {200, 429}
    assert resident_bytes(gateway.gateway.pid) < 400 * 2**20
    answer = gateway.ask("/api/v1/configmaps", "b")
    assert [each["metadata"]["namespace"] for each in answer.json()["items"]] == ["edge"]


def resident_bytes(pid: int) -> int:
    """Return the most memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM"))
    return int(peak.split()[1]) * 1024
