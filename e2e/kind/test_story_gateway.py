"""What users of the hub do in pods of virtual clusters, on real kubelets, after the first story.

Everything goes through Karmada, the stock apiserver-network-proxy and the gateway.
"""

import fcntl
import hashlib
import http.client
import os
import pty
import re
import struct
import termios
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.kind import workloads
from e2e.kind.gateway_install import SETTINGS, GatewayInstall
from e2e.kind.hub_users import PROTOCOLS, WAYS, HubUser
from e2e.kind.installed import AGENT, Installed, is_ready
from e2e.kind.test_story import BRANCHES, CLUSTERS, LABEL, assert_status
from e2e.lab import objects
from e2e.lab.api import Object, path_of
from e2e.lab.wait import REAL_S, within

A, B = BRANCHES.values()
OFFICE = "office"
MAIN, TICKS, FALLS = (("-c", name) for name in ("main", "ticks", "falls"))
MEBIBYTE = 2**20
FLOOD = """
import sys
for _ in range(128):
    sys.stdout.buffer.write(bytes(range(256)) * 256)
"""
DIGEST = """
import hashlib, sys
print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())
"""
# A runtime starts the program first and sets the size of its terminal then: until that it is 0 x 0.
TERMINAL = """
import os, sys, time
for _ in range(600):
    if os.get_terminal_size().columns:
        break
    time.sleep(0.05)
print("terminal", sys.stdin.isatty(), *os.get_terminal_size(), flush=True)
print("typed", input(), flush=True)
"""
RBAC = "rbac.authorization.k8s.io"
GATEWAY: Object = {
    "apiVersion": "config.virtualcluster.kubeedge.io/v1alpha1",
    "kind": "AgentConfig",
    "objects": {"enabled": True},
    "deletionBrake": {"share": 1},  # stories empty their virtual clusters
    "gateway": SETTINGS,
    "virtualClusters": [{"name": B, "nodeSelector": {"matchLabels": {LABEL: "b"}}}],
}
_TOLERATION = {
    "key": "node-role.kubernetes.io/control-plane",
    "operator": "Exists",
    "effect": "NoSchedule",
}
ON_CONTROL_PLANE: Object = {"spec": {"template": {"spec": {"tolerations": [_TOLERATION]}}}}

by_both = pytest.mark.parametrize("way", WAYS)
by_both_protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


@pytest.fixture(name="home", scope="module")
def make_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def root(kind: Installed, home: Path) -> HubUser:
    """Return the administrator of the hub."""
    return HubUser(kind, home)


@pytest.fixture
def alice(kind: Installed, home: Path) -> HubUser:
    """Return who may edit namespace OFFICE of virtual cluster A, and reach it."""
    return HubUser(kind, home, "alice")


def pod_of(kind: Installed, cluster: str, app: str = "console") -> str:
    """Return the name of the ready pod of an app."""
    found = [each for each in kind.pods(cluster) if each["metadata"]["labels"].get("app") == app]
    assert len(found) == 1
    assert is_ready(found[0]), found[0]["status"]
    return str(found[0]["metadata"]["name"])


def exec_in(user: HubUser, way: str, cluster: str, pod: str, *arguments: str) -> list[str]:
    """Return a command that runs a Python script in a pod; the script is the last argument."""
    *flags, script = arguments
    container = ("-n", OFFICE, pod, *MAIN)
    return user.command(way, cluster, "exec", *flags, *container, "--", "python3", "-c", script)


def lines_of(process: Any) -> Iterator[str]:
    for line in process.stdout:
        yield line.decode().strip()


def test_gateway_is_turned_on(kind: Installed, tmp_path: Path) -> None:
    install = GatewayInstall(kind, tmp_path)
    install.metrics_server()
    install.certificates()
    install.proxy()
    install.metrics_api()
    (tmp_path / "agent.yaml").write_text(yaml.safe_dump(GATEWAY))
    config = ("--config", str(tmp_path / "agent.yaml"), "--name", A)
    kind.join(*config, "--apply")
    # All workers are in groups; `join` keeps what an administrator says of the control plane.
    deployment = ("deployment", f"{AGENT}-gateway")
    kind.kubectl("-n", AGENT, "patch", *deployment, "-p", yaml.safe_dump(ON_CONTROL_PLANE))
    for name in (AGENT, f"{AGENT}-gateway", "konnectivity-agent"):
        kind.kubectl("-n", AGENT, "rollout", "status", f"deployment/{name}", "--timeout=180s")

    def published(cluster: str) -> None:
        spec = kind.hub.get(f"{CLUSTERS}/{cluster}")["spec"]
        assert spec.get("apiEndpoint"), spec
        assert spec.get("proxyURL") == SETTINGS["proxyURL"]

    for cluster in (A, B):
        within(REAL_S, published, cluster)


def test_consoles_run_and_alice_may_use_one(kind: Installed) -> None:
    kind.hub.create(objects.namespace(OFFICE))
    console = workloads.console(OFFICE)
    role = _cluster_role("reach-a", "cluster.karmada.io", "clusters/proxy", ["get", "create"])
    reads = _cluster_role("read-a", "cluster.karmada.io", "clusters/proxy", ["get"])
    binding = _binding("edit", ("alice", "carol"))
    looks = _cluster_role("look-at-clusters", "cluster.karmada.io", "clusters", ["get", "list"])
    for each in (console, binding, role, reads, looks):
        kind.hub.create(each)
    bound = {"reach-a": ("alice", "bob"), "read-a": ("carol",)}
    bound["look-at-clusters"] = (*bound["reach-a"], *bound["read-a"])
    for name, users in bound.items():
        kind.hub.create(_cluster_binding(name, users))
    kind.hub.create(objects.policy(OFFICE, "both", [console], objects.to_clusters(A, B)))
    kind.hub.create(objects.policy(OFFICE, "editors", [binding], objects.to_clusters(A)))
    within(180, assert_status, kind, console, readyReplicas=2)


@by_both
def test_pods_are_shown_with_their_events(
    kind: Installed, root: HubUser, alice: HubUser, way: str
) -> None:
    pod, neighbour = pod_of(kind, A), pod_of(kind, B)
    for user in (root, alice):
        told = user.run(user.command(way, A, "get", "pods", "-n", OFFICE, "-o", "wide")).decode()
        assert pod in told
        assert neighbour not in told
        told = user.run(user.command(way, A, "describe", "pod", pod, "-n", OFFICE)).decode()
        assert f"Namespace:        {OFFICE}\n" in told
        assert "Started container" in told
        assert "-v-" not in told
    kinds = root.run(root.command(way, A, "api-resources")).decode()
    assert "deployments" in kinds
    assert "apiservices" not in kinds
    assert "KIND:       Pod" in root.run(root.command(way, A, "explain", "pods")).decode()


@by_both
def test_logs(kind: Installed, alice: HubUser, way: str) -> None:
    def logs(*arguments: str) -> list[str]:
        command = alice.command(way, A, "logs", "-n", OFFICE, pod_of(kind, A), *arguments)
        return alice.run(command).decode().splitlines()

    told = logs(*MAIN)
    assert [f"line {number}" for number in range(2000)] + ["up"] == told[:2001]
    assert logs("-c", "falls", "--tail=1") == ["standing"]
    assert logs("-c", "falls", "--previous") == ["falling"]
    everything = logs("--all-containers", "--prefix", "--tail=1")
    said = {line.partition("]")[0].rpartition("/")[2] for line in everything}
    assert said == {"main", "ticks", "falls"}


@by_both
def test_logs_are_followed(kind: Installed, alice: HubUser, way: str) -> None:
    follow = ("logs", "-n", OFFICE, pod_of(kind, A), *TICKS, "-f", "--tail=1")
    with alice.running(alice.command(way, A, *follow)) as process:
        lines = lines_of(process)
        numbers = [int(next(lines).removeprefix("tick ")) for _ in range(6)]
    assert numbers == list(range(numbers[0], numbers[0] + 6))


@by_both
@by_both_protocols
def test_exec(kind: Installed, alice: HubUser, way: str, protocol: str) -> None:
    user, pod = alice.speaking(protocol), pod_of(kind, A)
    told = user.run(exec_in(user, way, A, pod, "import os; print(os.environ['HOSTNAME'])"))
    assert told.decode().strip() == pod
    ended = user.ended(exec_in(user, way, A, pod, "import sys; sys.exit('no'); "))
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert b"no\n" in ended.stderr
    assert user.ended(exec_in(user, way, A, pod, "import sys; sys.exit(7)")).returncode == 7
    assert user.run(exec_in(user, way, A, pod, FLOOD)) == bytes(range(256)) * 256 * 128
    said = os.urandom(8 * MEBIBYTE)
    told = user.run(exec_in(user, way, A, pod, "-i", DIGEST), stdin=said)
    assert told.decode().strip() == hashlib.sha256(said).hexdigest()


@by_both
def test_kubectl_uses_the_requested_protocol(kind: Installed, home: Path, way: str) -> None:
    """Carol may only `get` clusters/proxy: streams by WebSocket, which begin with a GET.

    So by WebSocket is by WebSocket indeed: where that failed, kubectl would go on to SPDY.
    """
    carol, pod = HubUser(kind, home, "carol"), pod_of(kind, A)
    assert carol.run(exec_in(carol, way, A, pod, "print('in')")) == b"in\n"
    spdy = carol.speaking("spdy")
    assert "cannot create resource" in spdy.refused(exec_in(spdy, way, A, pod, "print('in')"))
    forward = ("port-forward", "-n", OFFICE, f"pod/{pod}", f":{workloads.PORT}")
    assert "cannot create resource" in spdy.refused(spdy.kubectl(A, *forward))
    with carol.running(carol.kubectl(A, *forward)) as process:
        assert next(lines_of(process)).startswith("Forwarding from 127.0.0.1")


@contextmanager
def terminal(columns: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield both ends of a terminal of this size."""
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


@by_both
@by_both_protocols
def test_exec_with_a_terminal(kind: Installed, alice: HubUser, way: str, protocol: str) -> None:
    user = alice.speaking(protocol)
    command = exec_in(user, way, A, pod_of(kind, A), "-it", TERMINAL)
    with terminal(101, 37) as (ours, theirs), user.running(command, at=theirs) as process:
        os.write(ours, b"hello\n")
        assert process.wait(60) == 0
        output = os.read(ours, MEBIBYTE).decode()
    assert "terminal True 101 37" in output
    assert "typed hello" in output


@by_both
@by_both_protocols
def test_attach(kind: Installed, alice: HubUser, way: str, protocol: str) -> None:
    user, word = alice.speaking(protocol), f"{way}-{protocol}"
    attach = ("attach", "-i", "-n", OFFICE, pod_of(kind, A), *MAIN)
    with user.running(user.command(way, A, *attach)) as process:
        process.stdin.write(f"{word}\n".encode())
        process.stdin.flush()
        assert f"heard {word}" in lines_of(process)


@by_both_protocols
def test_cp(kind: Installed, alice: HubUser, tmp_path: Path, protocol: str) -> None:
    user, there = alice.speaking(protocol), f"{OFFICE}/{pod_of(kind, A)}:/own/{protocol}"
    (tmp_path / "mine").write_bytes(os.urandom(4 * MEBIBYTE))
    user.run(user.kubectl(A, "cp", str(tmp_path / "mine"), there, *MAIN))
    user.run(user.kubectl(A, "cp", there, str(tmp_path / "back"), *MAIN))
    assert (tmp_path / "back").read_bytes() == (tmp_path / "mine").read_bytes()


@by_both_protocols
def test_port_forward(kind: Installed, alice: HubUser, protocol: str) -> None:
    user = alice.speaking(protocol)
    forward = ("port-forward", "-n", OFFICE, f"pod/{pod_of(kind, A)}", f":{workloads.PORT}")
    with user.running(user.kubectl(A, *forward)) as process:
        told = next(lines_of(process))
        found = re.search(r"127.0.0.1:(\d+) ->", told)
        assert found, told
        port = int(found[1])
        sizes = [MEBIBYTE + number for number in range(8)]
        with ThreadPoolExecutor(len(sizes)) as pool:
            assert list(pool.map(lambda size: _got(port, size), sizes)) == sizes
        assert _got(port, 32 * MEBIBYTE) == 32 * MEBIBYTE
        sent = os.urandom(16 * MEBIBYTE)
        assert _answer(port, "POST", "/", sent).decode() == hashlib.sha256(sent).hexdigest()


def _got(port: int, size: int) -> int:
    """Return how many bytes came of so many."""
    return len(_answer(port, "GET", f"/{size}"))


def _answer(port: int, method: str, path: str, body: bytes = b"") -> bytes:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method, path, body)
        return connection.getresponse().read()


@by_both
def test_top(kind: Installed, root: HubUser, way: str) -> None:
    def look() -> None:
        pods = root.run(root.command(way, A, "top", "pod", "-n", OFFICE)).decode()
        assert pod_of(kind, A) in pods
        assert pod_of(kind, B) not in pods
        everywhere = root.run(root.command(way, A, "top", "pod", "-A")).decode()
        assert pod_of(kind, A) in everywhere
        assert "-v-" not in everywhere
        nodes = root.run(root.command(way, A, "top", "node")).decode()
        own = [node for node, group in _groups(kind).items() if group == "a"]
        assert re.findall(r"\S+-worker\d*", nodes) == own

    within(180, look)


def test_promote(kind: Installed, root: HubUser) -> None:
    """What was created in the virtual cluster itself comes under the hub's control as it runs."""
    legacy = workloads.web(OFFICE, replicas=1)
    legacy["metadata"]["name"] = "legacy"
    for labels in (
        legacy["spec"]["selector"]["matchLabels"],
        legacy["spec"]["template"]["metadata"]["labels"],
    ):
        labels["app"] = "legacy"
    create = root.kubectl(A, "create", "-f", "-")
    root.run(create, stdin=yaml.safe_dump(legacy).encode())
    pod = within(REAL_S, pod_of, kind, A, "legacy")
    root.run(root.command(WAYS[0], A, "promote", "deployment", "legacy", "-n", OFFICE))
    within(120, assert_status, kind, legacy, readyReplicas=1)
    template = kind.hub.get(path_of(legacy))
    assert not [key for key in template["metadata"].get("labels", {}) if "kubeedge" in key]
    assert pod_of(kind, A, "legacy") == pod


@by_both
def test_who_has_no_right_is_refused(kind: Installed, home: Path, way: str) -> None:
    """Bob may reach the virtual cluster and has no right in it; Mallory may not reach it."""
    pod = pod_of(kind, A)
    for name in ("bob", "mallory"):
        user = HubUser(kind, home, name)
        for command in (
            user.command(way, A, "get", "pod", pod, "-n", OFFICE),
            user.command(way, A, "logs", pod, "-n", OFFICE, *MAIN),
            exec_in(user, way, A, pod, "print('in')"),
            user.command(way, A, "attach", "-n", OFFICE, pod, *MAIN),
        ):
            told = user.refused(command)
            assert f'User "{name}" cannot' in told, told
            assert "vc:" not in told
            assert "-v-" not in told


@by_both_protocols
@by_both
def test_pods_of_a_neighbour_are_not_there(
    kind: Installed, root: HubUser, way: str, protocol: str
) -> None:
    user, pod = root.speaking(protocol), pod_of(kind, B)
    for namespace in (OFFICE, f"{OFFICE}-v-{B}"):
        for command in (
            user.command(way, A, "get", "pod", pod, "-n", namespace),
            user.command(way, A, "describe", "pod", pod, "-n", namespace),
            user.command(way, A, "logs", pod, "-n", namespace, *MAIN),
            user.command(way, A, "exec", "-n", namespace, pod, *MAIN, "--", "true"),
            user.command(way, A, "attach", "-n", namespace, pod, *MAIN),
            user.kubectl(A, "port-forward", "-n", namespace, f"pod/{pod}", ":8080"),
        ):
            told = user.refused(command)
            assert "NotFound" in told or "not found" in told, told


def _cluster_role(name: str, group: str, resource: str, verbs: list[str]) -> Object:
    rule = {"apiGroups": [group], "resources": [resource], "verbs": verbs}
    rule |= {"resourceNames": [A]} if "/" in resource else {}
    metadata = {"name": name}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": [rule],
    }


def _cluster_binding(role: str, users: tuple[str, ...]) -> Object:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user} for user in users],
    }


def _binding(role: str, users: tuple[str, ...]) -> Object:
    return {
        **_cluster_binding(role, users),
        "kind": "RoleBinding",
        "metadata": {"name": "editors", "namespace": OFFICE},
    }


def _groups(kind: Installed) -> dict[str, str]:
    return {
        node["metadata"]["name"]: node["metadata"]["labels"].get(LABEL, "")
        for node in kind.host.list("/api/v1/nodes")
    }
