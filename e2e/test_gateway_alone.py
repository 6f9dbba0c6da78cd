"""kubectl and plain clients through the gateway to a real API server, which has nothing else."""

import base64
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from e2e.lab.lone_gateway import FIRST, LoneGateway, config_map, lone_gateway, pod
from e2e.lab.lone_server import lone_api_server
from e2e.lab.pair import Pair
from e2e.lab.wait import PERIODIC_S, within

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
UNAUTHORIZED = (401, "Unauthorized")


@pytest.fixture(name="lone", scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoneGateway]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    with lone_api_server(folder / "host") as host, lone_gateway(host, folder) as lone:
        host.create(config_map("default", "settings", owner="the host"))
        host.create(pod("default", "nginx", f"node-{FIRST}"))
        yield lone


@pytest.fixture
def gateway(lone: LoneGateway) -> Pair:
    """Give each test two virtual clusters of its own."""
    return Pair(lone)


# --- test list 1: each sees its own, under the virtual names --------------------------------


@pytest.mark.parametrize("vc", ["a", "b"])
def test_each_lists_its_own_pods_in_every_form(gateway: Pair, vc: str) -> None:
    for arguments in (
        ("get", "pods", "-n", "edge"),
        ("get", "pods", "-A"),
        ("get", "pods", "-A", "-o", "wide"),
        ("get", "pods", "-A", "-o", "name"),
        ("get", "pods", "-A", "--chunk-size=1"),
        ("get", "pods", "-A", "-o", "yaml"),
        ("describe", "pod", "nginx", "-n", "edge"),
    ):
        told = gateway.kubectl(vc, *arguments)
        assert told.count("nginx") >= 1, (arguments, told)
        other = "b" if vc == "a" else "a"
        hidden_names = (gateway.space("edge", vc), gateway.names[other], "-v-", "vc:", "default")
        for hidden in hidden_names:
            assert hidden not in told.replace("default-scheduler", ""), (arguments, told)
    listed = yaml.safe_load(gateway.kubectl(vc, "get", "pods", "-A", "-o", "yaml"))["items"]
    assert [each["metadata"]["namespace"] for each in listed] == ["edge"]
    assert listed[0]["spec"]["nodeName"] == gateway.node(vc)


def test_a_table_and_metadata_alone_show_the_same(gateway: Pair) -> None:
    for path in ("/api/v1/pods", "/api/v1/namespaces/edge/pods"):
        table = gateway.ask(path, Accept=TABLE).json()
        assert table["kind"] == "Table"
        assert [row["cells"][0] for row in table["rows"]] == ["nginx"]
        metadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
        partial = gateway.ask(path, Accept=metadata).json()
        assert partial["kind"] == "PartialObjectMetadataList"
        assert [each["metadata"]["namespace"] for each in partial["items"]] == ["edge"]


def test_namespaces_and_nodes_are_its_own(gateway: Pair) -> None:
    names = gateway.kubectl("a", "get", "namespaces", "-o", "name").split()
    assert sorted(names) == ["namespace/edge", "namespace/kube-system", "namespace/shop"]
    nodes = gateway.kubectl("a", "get", "nodes", "-o", "name").split()
    assert nodes == [f"node/{gateway.node()}"]
    assert "NotFound" in gateway.kubectl("a", "get", "node", gateway.node("b"), fails=True)
    assert gateway.kubectl("a", "get", "namespace", "edge", "-o", "name") == "namespace/edge\n"
    host_name = gateway.space("edge")
    assert "NotFound" in gateway.kubectl("a", "get", "namespace", host_name, fails=True)


def test_a_list_in_pages_has_everything_once_and_its_tokens_show_nothing(
    gateway: Pair,
) -> None:
    """G-40, G-40a, and test list 8."""
    for number in range(5):
        for vc in ("a", "b"):
            gateway.host.create(config_map(gateway.space("shop", vc), f"page-{number}"))
    query = "/api/v1/configmaps?limit=2&labelSelector=&fieldSelector=metadata.name!=settings"
    names, token, pages = [], "", 0
    while True:
        page = gateway.ask(query + (f"&continue={token}" if token else "")).json()
        names += [
            (item["metadata"]["namespace"], item["metadata"]["name"]) for item in page["items"]
        ]
        pages += 1
        token = page["metadata"].get("continue", "")
        if not token:
            break
        assert b"shop" not in _decoded(token)
        assert b"/registry" not in _decoded(token)
        answer = gateway.ask(f"{query}&continue={token}", "b")
        assert answer.status == 410, answer.data
    assert len(names) == len(set(names))
    assert {name for ns, name in names if ns == "shop"} == {f"page-{n}" for n in range(5)}
    assert pages >= 3


def _decoded(token: str) -> bytes:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


# --- writes ---------------------------------------------------------------------------------


@pytest.mark.smoke
def test_kubectl_creates_applies_patches_and_deletes(gateway: Pair) -> None:
    path = f"/api/v1/namespaces/{gateway.space('shop')}/configmaps/own"
    first = yaml.safe_dump(config_map("shop", "own", x="1"))
    assert gateway.kubectl("a", "create", "-f", "-", stdin=first) == "configmap/own created\n"
    assert gateway.host.get(path)["data"] == {"x": "1"}
    manifest = yaml.safe_dump(config_map("shop", "own", x="2"))
    for more in ((), ("--server-side", "--force-conflicts")):
        gateway.kubectl("a", "apply", *more, "-f", "-", stdin=manifest)
        live = gateway.host.get(path)
        assert live["data"] == {"x": "2"}
    patch = json.dumps({"data": {"x": "3"}})
    for form in ("merge", "strategic"):
        gateway.kubectl("a", "patch", "cm", "own", "-n", "shop", "--type", form, "-p", patch)
    operations = json.dumps([{"op": "add", "path": "/data/y", "value": "4"}])
    gateway.kubectl("a", "patch", "cm", "own", "-n", "shop", "--type", "json", "-p", operations)
    live = gateway.host.get(path)
    assert live["data"] == {"x": "3", "y": "4"}
    gateway.kubectl("a", "delete", "configmap", "own", "-n", "shop")
    assert gateway.host.find(path) is None


def test_a_pod_that_is_written_directly_has_the_node_selector(gateway: Pair) -> None:
    manifest = yaml.safe_dump(pod("shop", "direct"))
    gateway.kubectl("a", "apply", "-f", "-", stdin=manifest)
    live = gateway.host.get(f"/api/v1/namespaces/{gateway.space('shop')}/pods/direct")
    assert live["spec"]["nodeSelector"] == {"branch": gateway.names["a"]}


def test_what_is_not_the_clusters_cannot_be_written(gateway: Pair) -> None:
    neighbour = gateway.space("edge", "b")
    for arguments in (
        ("create", "namespace", "kube-x"),
        ("label", "node", gateway.node(), "x=y"),
        ("create", "configmap", "x", "-n", "kube-system"),
        ("create", "configmap", "x", "-n", neighbour),
        ("delete", "configmap", "settings", "-n", neighbour),
        ("create", "clusterrole", "x", "--verb=get", "--resource=pods"),
    ):
        told = gateway.kubectl("a", *arguments, fails=True)
        assert gateway.node("b") not in told
        assert "vc:" not in told
    assert gateway.host.get(f"/api/v1/namespaces/{neighbour}/configmaps/settings")


# --- watches --------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["", "/namespaces/shop"])
def test_watch_reports_its_own(gateway: Pair, scope: str) -> None:
    name = f"watched-{'one' if scope else 'all'}"
    version = gateway.ask("/api/v1/configmaps").json()["metadata"]["resourceVersion"]
    path = f"/api/v1{scope}/configmaps?watch=true&resourceVersion={version}&timeoutSeconds=4"
    for vc in ("b", "a"):
        gateway.host.create(config_map(gateway.space("shop", vc), name))
    events = [json.loads(line) for line in gateway.ask(path).data.splitlines()]
    found = [event for event in events if event["object"]["metadata"]["name"] == name]
    assert [event["type"] for event in found] == ["ADDED"]
    assert found[0]["object"]["metadata"]["namespace"] == "shop"
    assert all("-v-" not in json.dumps(event["object"]["metadata"]) for event in events)


def test_a_watch_list_ends_its_first_part_with_the_bookmark(gateway: Pair) -> None:
    query = (
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        "&allowWatchBookmarks=true"
    )
    for seconds in (3, 15):  # the latter for a busy server
        data = gateway.ask(f"/api/v1/pods?{query}&timeoutSeconds={seconds}").data
        if b"initial-events-end" in data:
            break
    events = [json.loads(line) for line in data.splitlines()]
    pods = [event for event in events if event["type"] == "ADDED"]
    assert [event["object"]["metadata"]["namespace"] for event in pods] == ["edge"]
    marks = [e["object"]["metadata"].get("annotations") for e in events if e["type"] == "BOOKMARK"]
    assert {"k8s.io/initial-events-end": "true"} in marks


def test_pod_in_a_namespace_created_just_before_is_watched(gateway: Pair) -> None:
    """Test list 8, G-41: five times, since it is a race."""
    seen, expected = set[str](), {f"new-{number}" for number in range(5)}
    version = gateway.ask("/api/v1/configmaps").json()["metadata"]["resourceVersion"]
    path = f"api/v1/configmaps?watch=true&resourceVersion={version}&timeoutSeconds=60"
    url = gateway.gateway.url(gateway.names["a"]) + path
    headers = {"Authorization": f"bearer {gateway.token('a', 'access')}"}

    def watch() -> None:
        with urllib3.PoolManager(ca_certs=str(gateway.gateway.ca)) as pool:
            events = pool.request("GET", url, headers=headers, preload_content=False)
            for line in events:
                seen.add(json.loads(line)["object"]["metadata"].get("namespace", ""))
                if expected <= seen:
                    break
            events.close()

    watcher = threading.Thread(target=watch)
    watcher.start()
    for number in range(5):
        namespace = gateway.claim("a", f"new-{number}")
        gateway.host.create(config_map(namespace, "quick"))
    watcher.join()
    assert expected <= seen


def test_a_node_that_leaves_is_deleted_for_its_watch(gateway: Pair) -> None:
    """Test list 9."""
    mine, neighbour = ({"labels": {"branch": gateway.names[letter]}} for letter in ("a", "b"))
    name = f"{gateway.node()}-2"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **mine}}
    gateway.host.create(node)
    version = gateway.ask("/api/v1/nodes").json()["metadata"]["resourceVersion"]
    gateway.host.patch(f"/api/v1/nodes/{name}", {"metadata": neighbour})
    path = f"/api/v1/nodes?watch=true&resourceVersion={version}&timeoutSeconds=3"
    events = [json.loads(line) for line in gateway.ask(path).data.splitlines()]
    told = [(event["type"], event["object"]["metadata"]["name"]) for event in events]
    assert told == [("DELETED", name)]
    assert gateway.ask(f"/api/v1/nodes/{name}").status == 404


# --- who may what ---------------------------------------------------------------------------


def test_tokens_open_their_own_cluster_only(gateway: Pair) -> None:
    """Test list 2, plain; upgrades in test_exec_needs_the_same_tokens."""
    neighbours = (gateway.token("b", "access"), gateway.token("b", "impersonator"))
    for token in ("", "wrong", *neighbours):
        answer = gateway.ask("/api/v1/pods", "a", token=token)
        assert (answer.status, answer.json()["reason"]) == UNAUTHORIZED
    assert gateway.ask("/api", "a", Impersonate_User="alice").status == 403
    assert gateway.ask("/api", "a", kind="impersonator").status == 403
    answer = gateway.ask("/api", "a", kind="impersonator", Impersonate_User="mallory")
    assert answer.status == 403
    assert answer.json()["message"].startswith('users "mallory" is forbidden: User')


def test_masters_have_all_rights_inside_and_none_outside(gateway: Pair) -> None:
    """Test list 3."""

    def ask(path: str, method: str = "GET", body: object = None) -> int:
        return gateway.ask(
            path,
            "a",
            method,
            body=body,
            kind="impersonator",
            Content_Type="application/json",
            Impersonate_User="root",
            Impersonate_Group="system:masters",
        ).status

    assert ask("/api/v1/pods") == 200
    made = ask("/api/v1/namespaces/shop/configmaps", "POST", config_map("shop", "by-root"))
    assert made == 201
    assert ask("/api/v1/nodes") == 200
    assert ask(f"/api/v1/nodes/{gateway.node()}", "DELETE") == 403
    assert ask(f"/api/v1/nodes/{gateway.node('b')}") == 404
    neighbour = gateway.space("edge", "b")
    assert ask(f"/api/v1/namespaces/{neighbour}/configmaps/settings") in (403, 404)
    assert ask("/apis/apiregistration.k8s.io/v1/apiservices") in (403, 404)
    assert ask("/metrics") == 403


@pytest.mark.smoke
def test_a_user_may_in_one_cluster_what_the_same_user_may_not_in_another(
    gateway: Pair,
) -> None:
    """Test list 4."""
    for vc in ("a", "b"):
        answer = gateway.ask("/api/v1/pods", vc, kind="impersonator", Impersonate_User="alice")
        assert answer.status == 403
        assert 'User "alice" cannot list' in answer.json()["message"]
        assert b"vc:" not in answer.data
        assert b"-v-" not in answer.data
    group = "rbac.authorization.k8s.io"
    metadata = {"name": "alice", "namespace": gateway.space("edge")}
    head = {"apiVersion": f"{group}/v1", "metadata": metadata}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    gateway.host.create({**head, "kind": "Role", "rules": rules})
    gateway.host.create(
        {
            **head,
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "alice"},
            "subjects": [
                {"apiGroup": group, "kind": "User", "name": f"vc:{gateway.names['a']}:alice"}
            ],
        }
    )
    path = "/api/v1/namespaces/edge/pods/nginx"

    def allowed_in_a_only() -> None:
        found = [
            gateway.ask(path, vc, kind="impersonator", Impersonate_User="alice").status
            for vc in ("a", "b")
        ]
        assert found == [200, 403]

    within(PERIODIC_S, allowed_in_a_only)


def test_errors_name_nothing_of_the_host(gateway: Pair) -> None:
    """Test list 10."""
    for path, method in (
        ("/api/v1/namespaces/edge/pods/none", "GET"),
        ("/api/v1/namespaces/none/pods", "POST"),
        ("/api/v1/namespaces/edge/pods", "POST"),
        ("/api/v1/namespaces/edge/nothing", "GET"),
        ("/apis/none/v1/x", "GET"),
        ("/api/v1/namespaces/kube-system", "DELETE"),
        ("/api/v1/namespaces/edge/pods/../x", "GET"),
        (f"/api/v1/nodes/{gateway.node('b')}", "GET"),
    ):
        answer = gateway.ask(path, "a", method, body={"kind": "Pod"})
        assert answer.status >= 400, (method, path)
        assert answer.json()["kind"] == "Status"
        for hidden in (b"-v-", b"vc:"):
            assert hidden not in answer.data, (method, path, answer.data)


# --- discovery, and the process itself -------------------------------------------------------


def test_kubectl_knows_the_kinds_and_the_version(gateway: Pair) -> None:
    kinds = gateway.kubectl("a", "api-resources", "-o", "name").split()
    assert {"pods", "deployments.apps", "nodes"} <= set(kinds)
    assert "apiservices.apiregistration.k8s.io" not in kinds
    version = gateway.host.get("/version")["gitVersion"]
    assert version in gateway.kubectl("a", "version")
    assert "KIND" in gateway.kubectl("a", "explain", "pods")


def test_audit_says_who_requested_what(gateway: Pair) -> None:
    answer = gateway.ask("/api/v1/namespaces/edge/configmaps/settings?pretty=true")
    assert answer.status == 200, answer.data
    path = f"/api/v1/namespaces/{gateway.space('edge')}/configmaps/settings"

    def told() -> Any:
        """Return the line; it is written behind the answer."""
        found = [each for each in gateway.audit() if each.get("hostPath") == path]
        assert len(found) == 1, gateway.audit()
        return found[0]

    line = within(PERIODIC_S, told)
    assert (line["vc"], line["user"], line["verb"]) == (gateway.names["a"], "karmada", "get")
    log = gateway.gateway.log()
    assert not any(token in log for token in gateway.gateway.tokens.values())
