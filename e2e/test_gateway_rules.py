"""The rules of the gateway on answers of a real API server, compared with those answers.

The same objects lie in a plain namespace `x` and in the namespaces `x` of two virtual clusters.
What a virtual cluster answers must be what the plain namespace answers, and name no neighbour.
"""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from e2e.lab import objects
from e2e.lab.api import Api, Object, collection_of
from e2e.lab.gateway_rules import Answered, RealView, Rules, claim, shown_in
from e2e.lab.lab import Lab
from e2e.lab.wait import PERIODIC_S, eventually, within
from karmada_vc_agent.features.gateway.mapping.cluster_view import VirtualRequest
from karmada_vc_agent.features.gateway.mapping.object_membership import host_namespace

TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
RBAC = "rbac.authorization.k8s.io"
OF_STORIES = re.compile(r"example\.(com|io|org)$|^metrics\.k8s\.io$|\.cattle\.io$")
_VARIES = frozenset(
    {
        *("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"),
        *("clusterIP", "clusterIPs", "deletionTimestamp", "deployment.kubernetes.io/revision"),
    }
)
_OF_CONTROLLERS = frozenset({"nodeSelector", "status"})
"""Maps that are injected, or told a moment later."""


class World(NamedTuple):
    """namespace: its name, plain and virtual. first, second: the virtual clusters."""

    plain: Api
    namespace: str
    first: Rules
    second: Rules


@pytest.fixture(scope="module")
def world(shared_lab: Lab) -> Iterator[World]:
    lab = shared_lab
    namespace = lab.id
    names = [f"{lab.id}-{letter}" for letter in "ab"]
    made = [namespace, *(claim(lab.host, name, namespace) for name in names)]
    lab.host.create(objects.namespace(namespace))
    for each in made:  # what the host itself puts there
        eventually(lab.host.get, f"/api/v1/namespaces/{each}/serviceaccounts/default")
        eventually(lab.host.get, f"/api/v1/namespaces/{each}/configmaps/kube-root-ca.crt")
    rules = [Rules(lab.host, RealView.of(lab.host, name)) for name in names]
    found = World(lab.host, namespace, *rules)
    for manifest in _manifests(namespace):
        _write_everywhere(found, manifest)
    for each in made:
        eventually(_is_seen_by_its_controller, lab.host, each)
    yield found
    for each in made:
        lab.host.delete(f"/api/v1/namespaces/{each}")


def _is_seen_by_its_controller(host: Api, namespace: str) -> None:
    web = host.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web")
    assert web["metadata"]["annotations"]["deployment.kubernetes.io/revision"]


def _manifests(namespace: str) -> list[Object]:
    subject = {"kind": "ServiceAccount", "name": "bot", "namespace": namespace}
    user = {"kind": "User", "apiGroup": RBAC, "name": "alice"}
    role = {"kind": "ClusterRole", "apiGroup": RBAC, "name": "view"}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    return [
        *(objects.config_map(namespace, f"settings-{number}") for number in range(4)),
        objects.deployment(namespace, replicas=0),
        objects.service(namespace),
        _object("v1", "ServiceAccount", namespace, "bot"),
        _object("v1", "Secret", namespace, "password", stringData={"a": "b"}),
        _object("v1", "Pod", namespace, "bare", **_pod()),
        _object(f"{RBAC}/v1", "Role", namespace, "reader", rules=[rule]),
        _object(
            f"{RBAC}/v1", "RoleBinding", namespace, "read", subjects=[subject, user], roleRef=role
        ),
        _object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            namespace,
            "own",
            spec={"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]},
        ),
        _object(
            "v1",
            "PersistentVolumeClaim",
            namespace,
            "data",
            spec={
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "none",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        ),
        _object(
            "v1",
            "Event",
            namespace,
            "bare.1",
            involvedObject={"kind": "Pod", "name": "bare", "namespace": namespace},
            reason="Told",
            message="of a test",
            type="Normal",
        ),
    ]


def _object(api_version: str, kind: str, namespace: str, name: str, **content: Any) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def _pod() -> Object:
    # Waits for ever: no scheduler of this name.
    container = {"name": "app", "image": objects.IMAGE}
    spec = {"automountServiceAccountToken": False, "containers": [container]}
    return {"spec": {"schedulerName": "nobody", **spec}}


def _write_everywhere(world: World, manifest: Object) -> None:
    world.plain.create(manifest)
    if manifest["kind"] == "Event":  # tenants write none; those of components are alike
        for rules in (world.first, world.second):
            host = host_namespace(rules.view, world.namespace)
            text = json.dumps(manifest).replace(f'"{world.namespace}"', f'"{host}"')
            world.plain.create(json.loads(text))
        return
    path = collection_of(manifest)
    for rules in (world.first, world.second):
        request = _request("POST", path, copy.deepcopy(manifest))
        answered = rules.ask(request)
        assert answered.code == 201, answered


def _request(
    method: str, path: str, body: Any = None, accept: str = "application/json", form: str = ""
) -> VirtualRequest:
    path, _, query = path.partition("?")
    content = b"" if body is None else json.dumps(body).encode()
    form = form or ("application/json" if body is not None else "")
    return VirtualRequest(method, path, query, accept, form, content)


def _plain(world: World, request: VirtualRequest) -> Answered:
    """Ask the plain namespace as a client without a gateway does."""
    headers = {"Accept": request.accept}
    if request.content_type:
        headers["Content-Type"] = request.content_type
    path = f"{request.path}?{request.query}" if request.query else request.path
    code, content = world.plain.answer(request.method, path, request.body, headers)
    return Answered(code, json.loads(content))


def _comparable(value: Any) -> Any:
    """Return an answer without what differs from one creation to the next, and what is injected."""
    if isinstance(value, dict):
        return {
            key: _comparable(each)
            for key, each in sorted(value.items())
            if key not in _VARIES and not (key in _OF_CONTROLLERS and isinstance(each, dict))
        }
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    return value


# path behind the namespace, accept
READS = [
    ("/api/v1", "configmaps", ""),
    ("/api/v1", "configmaps/settings-1", ""),
    ("/api/v1", "configmaps/missing", ""),
    ("/api/v1", "configmaps?labelSelector=app%3Dnothing", ""),
    ("/api/v1", "configmaps?fieldSelector=metadata.name%3Dsettings-2", ""),
    ("/api/v1", "configmaps?fieldSelector=nonsense%3D1", ""),
    ("/api/v1", "configmaps?labelSelector=%3D%3D", ""),
    ("/api/v1", "configmaps?limit=x", ""),
    ("/api/v1", "configmaps?resourceVersion=nonsense", ""),
    ("/api/v1", "secrets", ""),
    ("/api/v1", "services", ""),
    ("/api/v1", "services/web", ""),
    ("/api/v1", "serviceaccounts", ""),
    ("/api/v1", "persistentvolumeclaims", ""),
    ("/api/v1", "pods", ""),
    ("/api/v1", "pods/bare", ""),
    ("/api/v1", "pods/bare/status", ""),
    ("/api/v1", "pods/missing/log", ""),
    ("/api/v1", "events?fieldSelector=involvedObject.name%3Dbare,reason%3DTold", ""),
    ("/apis/events.k8s.io/v1", "events?fieldSelector=reason%3DTold", ""),
    ("/apis/apps/v1", "deployments", ""),
    ("/apis/apps/v1", "deployments/web", ""),
    ("/apis/apps/v1", "deployments/web/scale", ""),
    ("/apis/networking.k8s.io/v1", "networkpolicies", ""),
    (f"/apis/{RBAC}/v1", "roles", ""),
    (f"/apis/{RBAC}/v1", "rolebindings", ""),
    (f"/apis/{RBAC}/v1", "rolebindings/read", ""),
]
FORMS = [
    ("/api/v1", "configmaps", TABLE),
    ("/api/v1", "configmaps/settings-1", TABLE),
    ("/api/v1", "configmaps?includeObject=None", TABLE),
    ("/api/v1", "configmaps?includeObject=Object", TABLE),
    ("/api/v1", "configmaps", METADATA_LIST),
    ("/api/v1", "configmaps/settings-1", METADATA),
    ("/api/v1", "pods", TABLE),
    ("/api/v1", "services", TABLE),
    ("/api/v1", "persistentvolumeclaims", TABLE),
    ("/apis/apps/v1", "deployments", TABLE),
    ("/apis/apps/v1", "deployments", METADATA_LIST),
    (f"/apis/{RBAC}/v1", "rolebindings", TABLE),
]


@pytest.mark.parametrize(("root", "rest", "accept"), [*READS, *FORMS])
def test_reads_answer_as_the_plain_namespace_does(
    world: World, root: str, rest: str, accept: str
) -> None:
    """G-31 to G-50."""
    path = f"{root}/namespaces/{world.namespace}/{rest}"
    request = _request("GET", path, accept=accept or "application/json")
    plain = _plain(world, request)
    for rules in (world.first, world.second):
        found = rules.ask(request)
        assert found.code == plain.code
        assert _without_ages(_comparable(found.body)) == _without_ages(_comparable(plain.body))
    _assert_nothing_leaked(world)


def _without_ages(answer: Any) -> Any:
    """Return a Table without its cells of age and address, and other answers as they are."""
    if answer.get("kind") != "Table":
        return answer
    at = [
        index
        for index, column in enumerate(answer.get("columnDefinitions") or ())
        if column["name"] in ("Age", "Cluster-IP", "Last Seen", "Created At")
    ]
    for row in answer["rows"]:
        row["cells"] = [cell for index, cell in enumerate(row["cells"]) if index not in at]
    return answer


# method, path behind the namespace, body, form; run in this order.
_BIG = {"data": {"a": "x" * 1_100_000}}
_Y = {"name": "y"}
_E = {"path": "/data/e"}
_SELECTOR = {"matchLabels": {"a": "b"}}
WRITES: list[tuple[str, str, str, Any, str]] = [
    ("POST", "/api/v1", "configmaps", {"metadata": {"name": "new"}}, ""),
    ("POST", "/api/v1", "configmaps", {"metadata": {"name": "new"}}, ""),  # it is there
    ("POST", "/api/v1", "configmaps", {"metadata": {"name": "Not A Name"}}, ""),
    ("POST", "/api/v1", "configmaps", {"metadata": {"name": "x", "namespace": "other"}}, ""),
    ("POST", "/api/v1", "configmaps", {"metadata": {"name": "big"}, **_BIG}, ""),
    ("POST", "/api/v1", "configmaps?dryRun=All", {"metadata": {"name": "dry"}}, ""),
    (
        "POST",
        "/api/v1",
        "configmaps?fieldValidation=Strict",
        {"metadata": {"name": "y"}, "z": 1},
        "",
    ),
    ("PUT", "/api/v1", "configmaps/new", {"metadata": {"name": "new"}, "data": {"a": "b"}}, ""),
    ("PUT", "/api/v1", "configmaps/new", {"metadata": {"name": "other"}}, ""),
    (
        "PUT",
        "/api/v1",
        "configmaps/new",
        {"metadata": {"name": "new", "resourceVersion": "1"}},
        "",
    ),
    ("PUT", "/api/v1", "configmaps/missing", {"metadata": {"name": "missing", "uid": "u"}}, ""),
    ("PATCH", "/api/v1", "configmaps/new", {"data": {"a": None, "c": "d"}}, MERGE),
    ("PATCH", "/api/v1", "configmaps/new", {"metadata": {"labels": {"k": "v"}}}, STRATEGIC),
    ("PATCH", "/api/v1", "configmaps/new", {"metadata": {"labels": {"k": None}}}, MERGE),
    (
        "PATCH",
        "/api/v1",
        "configmaps/new",
        [{"op": "add", "path": "/data/e", "value": "f"}],
        JSON_PATCH,
    ),
    (
        "PATCH",
        "/api/v1",
        "configmaps/new",
        [{"op": "test", "path": "/data/e", "value": "x"}],
        JSON_PATCH,
    ),
    ("PATCH", "/api/v1", "configmaps/missing", {"data": {"a": "b"}}, MERGE),
    (
        "PATCH",
        "/api/v1",
        "configmaps/applied?fieldManager=test",
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "applied"},
            "data": {"a": "b"},
        },
        APPLY,
    ),
    ("PATCH", "/apis/apps/v1", "deployments/web", {"spec": {"minReadySeconds": 5}}, MERGE),
    (
        "PATCH",
        "/apis/apps/v1",
        "deployments/web",
        {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "b:2"}]}}}},
        STRATEGIC,
    ),
    (
        "PATCH",
        "/apis/apps/v1",
        "deployments/web",
        [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "c:3"}],
        JSON_PATCH,
    ),
    ("PATCH", "/apis/apps/v1", "deployments/web/scale", {"spec": {"paused": True}}, MERGE),
    ("PATCH", "/apis/apps/v1", "deployments/web", {"spec": {"replicas": "x"}}, MERGE),
    (
        "PATCH",
        "/apis/apps/v1",
        "deployments/web",
        {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
        MERGE,
    ),
    (
        "PATCH",
        f"/apis/{RBAC}/v1",
        "rolebindings/read",
        [
            {
                "op": "add",
                "path": "/subjects/-",
                "value": {"kind": "User", "apiGroup": RBAC, "name": "bob"},
            }
        ],
        JSON_PATCH,
    ),
    ("POST", "/api/v1", "pods/bare/eviction", {"metadata": {"name": "bare"}}, ""),
    ("DELETE", "/api/v1", "configmaps/new", None, ""),
    ("DELETE", "/api/v1", "configmaps/new", None, ""),
    ("DELETE", "/api/v1", "configmaps/applied", {"kind": "DeleteOptions", "apiVersion": "v1"}, ""),
    ("DELETE", "/api/v1", "secrets?labelSelector=app%3Dpassword", None, ""),
]


def test_writes_answer_as_the_plain_namespace_does(world: World) -> None:
    """G-31, G-32: one after the other, as a client would."""
    for number, (method, root, rest, body, form) in enumerate(WRITES):
        path = f"{root}/namespaces/{world.namespace}/{rest}"
        request = _request(method, path, body, form=form)
        plain = _plain(world, request)
        for rules in (world.first, world.second):
            found = rules.ask(request)
            case = f"{number}: {method} {rest}"
            assert (case, found.code) == (case, plain.code), found.body
            assert _told(_comparable(found.body)) == _told(_comparable(plain.body)), case
    _assert_nothing_leaked(world)


def _told(answer: Object) -> Object:
    """Return an answer without a message that quotes the whole object, marks and all."""
    if '"{' not in str(answer.get("message")):
        return answer
    return {key: answer[key] for key in ("kind", "status", "reason", "code")}


def test_lists_of_all_namespaces_have_the_own_ones_only(world: World) -> None:
    """G-40: whole, as Table, as metadata, and joined from pages of any size."""
    for rules in (world.first, world.second):
        for accept in ("application/json", TABLE, METADATA_LIST):
            whole = rules.ask(_request("GET", "/api/v1/configmaps", accept=accept))
            wanted = _names(whole.body)
            assert (world.namespace, "settings-0") in wanted
            assert {namespace for namespace, _ in wanted} == {world.namespace}
            for limit in (1, 3):
                assert _paged(rules, accept, limit) == wanted
    _assert_nothing_leaked(world)


def _names(answer: Object) -> list[tuple[str, str]]:
    found = answer["rows"] if "rows" in answer else answer["items"]
    metadata = [entry.get("object", entry)["metadata"] for entry in found]
    return [(each["namespace"], each["name"]) for each in metadata]


def _paged(rules: Rules, accept: str, limit: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    token = ""
    while True:
        path = f"/api/v1/configmaps?limit={limit}" + (f"&continue={token}" if token else "")
        page = rules.ask(_request("GET", path, accept=accept))
        assert page.code == 200, page
        assert len(_names(page.body)) <= limit
        found += _names(page.body)
        token = page.body["metadata"].get("continue", "")
        if not token:
            return found
        assert b"-v-" not in shown_in(token)


def test_pages_of_one_namespace_go_on(world: World) -> None:
    """G-40a."""
    path = f"/api/v1/namespaces/{world.namespace}/configmaps?limit=2"
    first = world.first.ask(_request("GET", path))
    token = first.body["metadata"]["continue"]
    assert b"settings" not in shown_in(token)
    second = world.first.ask(_request("GET", f"{path}&continue={token}"))
    assert second.code == 200
    assert not set(_names(first.body)) & set(_names(second.body))
    for other in (world.second, world.first):
        foreign = f"/api/v1/secrets?limit=2&continue={token}"
        assert other.ask(_request("GET", foreign)).code == 410


@pytest.mark.parametrize("accept", ["application/json", TABLE])
def test_a_watch_begins_with_the_own_objects(world: World, accept: str) -> None:
    """G-40, G-46, G-47: a watch-list, with the bookmark that ends its beginning."""
    query = (
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        "&allowWatchBookmarks=true"
    )
    for seconds in (2, 15):  # the latter for a busy server
        path = f"/api/v1/configmaps?{query}&timeoutSeconds={seconds}"
        events = world.first.events(_request("GET", path, accept=accept))
        bookmarks = [json.dumps(event) for event in events if event["type"] == "BOOKMARK"]
        if ended := any("k8s.io/initial-events-end" in each for each in bookmarks):
            break
    assert ended, [event["type"] for event in events]
    added = [event["object"] for event in events if event["type"] == "ADDED"]
    if accept == TABLE:
        assert added[0]["columnDefinitions"]
        assert not any(table["columnDefinitions"] for table in added[1:])
        added = [row["object"] for table in added for row in table["rows"]]
    found = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in added}
    assert (world.namespace, "settings-0") in found
    assert {namespace for namespace, _ in found} == {world.namespace}
    _assert_nothing_leaked(world)


def test_discovery_shows_less_than_the_host_serves(world: World) -> None:
    """5.5: in all three forms alike."""
    # Kinds of other stories are added and removed between the two requests.
    within(PERIODIC_S, _assert_discovery, world)


def _assert_discovery(world: World) -> None:
    groups = world.first.ask(_request("GET", "/apis")).body["groups"]
    names = {group["name"] for group in groups}
    assert {"apps", "batch", RBAC, "storage.k8s.io", "authorization.k8s.io"} <= names
    assert (
        not {
            *("admissionregistration.k8s.io", "apiregistration.k8s.io", "certificates.k8s.io"),
            "flowcontrol.apiserver.k8s.io",
        }
        & names
    )
    core = world.first.ask(_request("GET", "/api/v1")).body["resources"]
    plural = {entry["name"] for entry in core}
    assert {"pods", "pods/exec", "nodes", "namespaces", "events"} <= plural
    assert not {"nodes/proxy", "serviceaccounts/token", "componentstatuses"} & plural
    form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    aggregated = world.first.ask(_request("GET", "/apis", accept=form)).body
    assert aggregated["kind"] == "APIGroupDiscoveryList"
    also = {item["metadata"]["name"] for item in aggregated["items"]}
    assert {name for name in also ^ names if not OF_STORIES.search(name)} == set()
    inside = world.first.ask(_request("GET", "/api", accept=form)).body["items"][0]["versions"][0]
    shown = {each["resource"] for each in inside["resources"]}
    assert shown == {name for name in plural if "/" not in name}


def test_namespaces_are_the_own_ones(world: World) -> None:
    """5.3."""
    for accept in ("application/json", TABLE, METADATA_LIST):
        answer = world.first.ask(_request("GET", "/api/v1/namespaces", accept=accept)).body
        found = answer["rows"] if "rows" in answer else answer["items"]
        names = [entry.get("object", entry)["metadata"]["name"] for entry in found]
        assert names == [world.namespace]
    one = world.first.ask(_request("GET", f"/api/v1/namespaces/{world.namespace}"))
    assert one.body["metadata"]["labels"]["kubernetes.io/metadata.name"] == world.namespace
    _assert_nothing_leaked(world)
    host = host_namespace(world.second.view, world.namespace)
    found = world.first.ask(_request("GET", f"/api/v1/namespaces/{host}"))
    assert found.code == 404
    world.first.seen.pop()  # it has the name that was asked for


def _assert_nothing_leaked(world: World) -> None:
    """G-48: nothing that a client was given names the neighbour, or the host's namespaces."""
    for rules, other in ((world.first, world.second), (world.second, world.first)):
        for text in rules.seen:
            assert other.view.name not in text, text
            assert f"{world.namespace}-v-" not in text, text
