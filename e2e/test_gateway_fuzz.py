"""Whatever bytes a client sends, the host is asked for nothing that the mapping did not make.

The host keeps an audit log of its own, and is asked by an account that only the gateway has: each
line of it is judged. What a client says of itself, of paths, of lengths and of other requests in
its bodies must not be in there.
"""

import json
import random
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.lab.access import account_kubeconfig
from e2e.lab.api import ApiError
from e2e.lab.lone_gateway import HOME, LoneGateway, config_map
from e2e.lab.lone_server import lone_api_server
from e2e.lab.pair import Pair
from e2e.lab.wait import PERIODIC_S, eventually, within

ACCOUNT = "gateway"
USER = f"system:serviceaccount:{HOME}:{ACCOUNT}"
RBAC = "rbac.authorization.k8s.io"
SILENCE_S, LINGER_S, PATIENCE_S = 0.5, 0.05, 20.0
LAST = b"GET /virtualclusters/none/last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
OWN_READS = frozenset({"get", "list", "watch"})
REVIEWS = frozenset({"subjectaccessreviews", "tokenreviews"})
"""What the gateway itself creates."""


@dataclass(frozen=True)
class Scene:
    """A gateway with an account of its own, and the audit log of its host."""

    lone: LoneGateway
    pair: Pair
    log: Path

    def send(self, data: bytes, silence_s: float = SILENCE_S) -> bytes:
        """Send bytes on a connection of their own, and a request that ends it.

        Return what comes until the gateway closes it, or falls silent, waiting for more.
        """
        context = ssl.create_default_context(cafile=str(self.lone.ca))
        found = b""
        with (
            socket.create_connection(("127.0.0.1", self.lone.port), timeout=10) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as client,
        ):
            client.settimeout(silence_s)
            try:
                client.sendall(data + LAST)
                while part := client.recv(65536):
                    found += part
                    if b"connection: close" in found.lower():
                        client.settimeout(LINGER_S)
            except (TimeoutError, OSError):
                pass
        return found

    def lines(self) -> list[Any]:
        """Return what the host was asked by the gateway."""
        whole_lines = self.log.read_text().rpartition("\n")[0]
        found = [json.loads(line) for line in whole_lines.splitlines()]
        return [each for each in found if each["user"]["username"] == USER]


@pytest.fixture(name="scene", scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    rules = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
    policy, log = folder / "policy.json", folder / "audit.log"
    policy.write_text(json.dumps({**rules, "omitStages": ["RequestReceived"]}))
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    with lone_api_server(folder / "host", *flags) as host:
        lone = LoneGateway(host, folder)
        lone.prepare()
        metadata = {"name": ACCOUNT, "namespace": HOME}
        host.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        subject = {"kind": "ServiceAccount", **metadata}
        role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
        host.create(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": ACCOUNT},
                "roleRef": role,
                "subjects": [subject],
            }
        )
        file = account_kubeconfig(host.kubeconfig, HOME, ACCOUNT, folder / "gateway.kubeconfig")
        lone.start(file)
        try:
            yield Scene(lone, Pair(lone), log)
        finally:
            lone.stop()


def _judge(scene: Scene, lines: list[Any]) -> None:
    """Check each request that reached the host."""
    a = scene.pair.names["a"]
    own = {scene.pair.space(virtual) for virtual in ("edge", "shop", "vc-system")}
    for line in lines:
        uri, verb = line["requestURI"], line["verb"]
        path = uri.partition("?")[0]
        assert "//" not in path, uri
        assert "/../" not in path, uri
        assert "%2f" not in path.lower(), uri
        where = line.get("objectRef", {})
        acting = line.get("impersonatedUser")
        if acting is None:
            is_review = verb == "create" and where.get("resource") in REVIEWS
            assert verb in OWN_READS or is_review, line
            continue
        assert acting["username"] == f"vc:{a}:karmada", line
        assert set(acting["groups"]) <= {
            *(f"vc:{a}", f"vc:{a}:karmada-access", "system:authenticated")
        }, line
        namespace = where.get("namespace", "")
        if where.get("resource") == "namespaces":
            namespace = ""
            assert verb in OWN_READS, line
        assert not namespace or namespace in own, line
        if not namespace and where:
            assert verb in OWN_READS or where["resource"].endswith("reviews"), line


def _head(scene: Scene, line: str, *headers: str, token: bool = True) -> bytes:
    own = [f"Authorization: Bearer {scene.pair.token('a', 'access')}"] if token else []
    return "\r\n".join([line, "Host: x", *own, *headers, "", ""]).encode("latin-1")


BASES = ("/virtualclusters/{a}", "/virtualclusters/{b}", "")
TARGETS = (
    "{base}/api/v1/namespaces/{b_space}/configmaps/settings",
    "{base}/api/v1/namespaces/edge/../{b_space}/configmaps/settings",
    "{base}/api/v1/namespaces/edge/%2e%2e/{b_space}/configmaps",
    "{base}/api/v1/namespaces/edge%2f..%2f{b_space}/configmaps",
    "{base}/api/v1/namespaces/edge%252f..%252f{b_space}/configmaps",
    "{base}/../{b}/api/v1/configmaps",
    "{base}/..%2f{b}/api/v1/configmaps",
    "{base}//api/v1/configmaps",
    "//{base}/api/v1/configmaps",
    "{base}/api//v1/namespaces//edge/configmaps",
    "{base}/./api/v1/configmaps",
    "{base}/api/v1;x=y/configmaps",
    "{base}/api/v1/configmaps#/../x",
    "{base}/api/v1/namespaces/{b_space}",
    "{base}/api/v1/nodes/{b_node}",
    "{base}/api/v1/nodes/{b_node}/proxy/metrics",
    "{base}/api/v1/nodes?labelSelector=branch%3D{b}",
    "{base}/api/v1/configmaps?fieldSelector=metadata.namespace%3D{b_space}",
    "{base}/api/v1/namespaces/edge/pods/nginx/proxy/../../../../../secrets",
    "{base}/api/v1/namespaces/edge/services/https:x:1/proxy/..%2f..%2fsecrets",
    "{base}/api/v1/watch/namespaces/{b_space}/configmaps",
    "{base}/api/v1/proxy/nodes/{b_node}",
    "{base}/metrics",
    "{base}/logs/kube-apiserver.log",
    "https://127.0.0.1/api/v1/secrets",
    "http://x{base}/api/v1/configmaps",
    "{base}/api/v1/namespaces/edge/secrets/a\tb",
    "{base}/api/v1/namespaces/edge/secrets/\xff",
    "*",
)
CLAIMS = (
    (),
    ("Impersonate-User: system:admin", "Impersonate-Group: system:masters"),
    ("impersonate_user: system:admin",),
    ("Impersonate-User : system:admin",),
    ("Impersonate-Extra-Scopes: x", "Impersonate-Uid: 1"),
    ("X-Remote-User: admin", "X-Remote-Group: system:masters", "X-Forwarded-For: 10.0.0.1"),
    ("Connection: Authorization, Impersonate-User", "Cookie: x=y"),
    ("X-HTTP-Method-Override: DELETE", "X-Original-URL: /api/v1/secrets"),
    ("Connection: Upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"),
    ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x"),
)


@pytest.mark.parametrize("base", BASES)
def test_no_path_and_no_claim_reaches_what_is_of_others(scene: Scene, base: str) -> None:
    before = len(scene.lines())
    words = {
        "b": scene.pair.names["b"],
        "b_space": scene.pair.space("edge", "b"),
        "b_node": scene.pair.node("b"),
        "base": base.format(**scene.pair.names),
    }
    for number, target in enumerate(TARGETS):
        method = ("GET", "DELETE", "POST", "CONNECT", "TRACE")[number % 5]
        for claims in (CLAIMS[0], CLAIMS[1 + number % (len(CLAIMS) - 1)]):
            for verb in ("GET", method):
                line = f"{verb} {target.format(**words)} HTTP/1.1"
                told = scene.send(_head(scene, line, *claims))
                assert b'"owner":"b"' not in told, line
                assert not told or told.startswith(b"HTTP/1.1 "), line
    _judge(scene, scene.lines()[before:])
    for path in ("configmaps/settings", "pods/nginx"):
        scene.pair.host.get(f"/api/v1/namespaces/{scene.pair.space('edge', 'b')}/{path}")


FRAMINGS = (
    ("Content-Length: 0", "Transfer-Encoding: chunked"),
    ("Transfer-Encoding: chunked", "Content-Length: 5"),
    ("Content-Length: 0", "Content-Length: 900"),
    ("Content-Length: 0, 900",),
    ("Content-Length: +5",),
    ("Content-Length: 0x20",),
    ("Transfer-Encoding: xchunked",),
    ("Transfer-Encoding: chunked, identity",),
    ("Transfer-Encoding:\x0bchunked",),
    ("Transfer-Encoding : chunked",),
    ("transfer-encoding: chunked", "transfer-encoding: identity"),
    ("Content-Length: 5", " Transfer-Encoding: chunked"),
    ("Content-Length: 5", "X: y\rTransfer-Encoding: chunked"),
    ("Expect: 100-continue", "Content-Length: 900"),
    ("Transfer-Encoding: chunked",),
)


@pytest.mark.parametrize("number", range(len(FRAMINGS)), ids=lambda n: "; ".join(FRAMINGS[n])[:40])
def test_no_request_hides_in_a_body(scene: Scene, number: int) -> None:
    before = len(scene.lines())
    a, b = (scene.pair.names[letter] for letter in ("a", "b"))
    hidden = _head(
        scene,
        f"DELETE /virtualclusters/{b}/api/v1/namespaces/edge/configmaps/settings HTTP/1.1",
        "Impersonate-User: system:admin",
    ).replace(scene.pair.token("a", "access").encode(), b"stolen")
    straight = b"GET /api/v1/secrets HTTP/1.1\r\nHost: x\r\nImpersonate-User: root\r\n\r\n"
    line = f"POST /virtualclusters/{a}/api/v1/namespaces/shop/configmaps HTTP/1.1"
    for body in (
        b"0\r\n\r\n" + hidden,
        hidden,
        straight,
        b"5;x=\n\r\nabcde\r\n0\r\n\r\n" + straight,
    ):
        told = scene.send(_head(scene, line, *FRAMINGS[number]) + body)
        assert b"SecretList" not in told
    _judge(scene, scene.lines()[before:])
    paths = [each["requestURI"] for each in scene.lines()[before:]]
    assert not [path for path in paths if "secrets" in path]


def test_heads_and_bodies_that_are_too_large_cost_the_host_nothing(scene: Scene) -> None:
    """Of kinds that no other story requests: what one of those sent may arrive late."""
    a = scene.pair.names["a"]
    line = f"GET /virtualclusters/{a}/api/v1/podtemplates HTTP/1.1"
    told = scene.send(_head(scene, line, "X: " + "y" * 70_000), PATIENCE_S)
    assert told.startswith(b"HTTP/1.1 431 ")
    long = line.replace("podtemplates ", f"podtemplates?x={'y' * 70_000} ")
    told = scene.send(_head(scene, long), PATIENCE_S)
    assert told.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 414 "))
    line = f"POST /virtualclusters/{a}/api/v1/namespaces/shop/podtemplates HTTP/1.1"
    told = scene.send(_head(scene, line, f"Content-Length: {4 * 2**20}"), PATIENCE_S)
    assert told.startswith(b"HTTP/1.1 413 ")
    chunks = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    told = scene.send(_head(scene, line, "Transfer-Encoding: chunked") + chunks * 4, PATIENCE_S)
    # Nothing at all: the connection was reset while the rest was still being sent.
    assert not told or told.startswith(b"HTTP/1.1 413 ")
    assert not [each for each in scene.lines() if "podtemplates" in each["requestURI"]]


def test_changed_requests_reach_the_host_as_what_they_say_or_not_at_all(scene: Scene) -> None:
    """Good requests are cut, doubled and changed by chance; the seed is fixed."""
    before, chance = len(scene.lines()), random.Random(12)  # noqa: S311 - no secret
    a = scene.pair.names["a"]
    body = json.dumps(config_map("shop", "x")).encode()
    root = f"/virtualclusters/{a}/api/v1/namespaces/shop/configmaps"
    good = [
        _head(scene, f"GET {root}?limit=1 HTTP/1.1"),
        _head(scene, f"GET /virtualclusters/{a}/api/v1/nodes HTTP/1.1"),
        _head(scene, f"DELETE {root}/none HTTP/1.1"),
        _head(
            scene,
            f"POST {root}?dryRun=All HTTP/1.1",
            *("Content-Type: application/json", f"Content-Length: {len(body)}"),
        )
        + body,
    ]
    answered = 0
    for _ in range(150):
        data = bytearray(chance.choice(good) + chance.choice(good))
        for _ in range(chance.randrange(1, 5)):
            _change(data, chance)
        answered += scene.send(bytes(data) + b"\r\n\r\n").startswith(b"HTTP/1.1 ")
    assert answered > 50
    lines = scene.lines()[before:]
    assert any(line.get("impersonatedUser") for line in lines)
    _judge(scene, lines)
    eventually(_serves, scene)


def _change(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    match chance.choice(("cut", "byte", "line", "double", "path")):
        case "cut":
            del data[at : at + chance.randrange(1, 9)]
        case "byte":
            data[at] = chance.randrange(256)
        case "line":
            data[at:at] = chance.choice((b"\r\n", b"\n", b"\r", b"\0", b": ", b" ", b"\r\n\r\n"))
        case "double":
            data[at:at] = data[at : at + 40]
        case "path":
            found = data.find(b"/", at)
            more = chance.choice((b"//", b"/../", b"/%2e%2e/", b"/%2f", b"/./", b"?", b"#", b"%"))
            data[max(found, 0) : max(found, 0) + 1] = more


def _serves(scene: Scene) -> None:
    assert scene.pair.ask("/api/v1/namespaces/edge/configmaps/settings").status == 200


def _line_about(scene: Scene, name: str) -> Any:
    """Return the only line about an object; it is written behind the response."""
    (line,) = [each for each in scene.lines() if each.get("objectRef", {}).get("name") == name]
    return line


def test_audit_reports_what_reached_the_host(scene: Scene) -> None:
    """The judge itself: a request by the mapping is in the log, one as somebody else is judged."""
    scene.pair.ask("/api/v1/namespaces/edge/configmaps/of-the-judge")
    line = within(PERIODIC_S, _line_about, scene, "of-the-judge")
    assert line["objectRef"]["namespace"] == scene.pair.space("edge")
    _judge(scene, [line])
    for change in (
        {"impersonatedUser": {"username": "system:admin", "groups": []}},
        {"requestURI": "/api/v1/../secrets"},
        {"objectRef": {**line["objectRef"], "namespace": scene.pair.space("edge", "b")}},
        {"impersonatedUser": None, "verb": "delete"},
    ):
        with pytest.raises(AssertionError):
            _judge(scene, [{**line, **change}])
    with pytest.raises(ApiError):
        scene.pair.host.get("/api/v1/namespaces/none/configmaps/none")
