"""Two virtual clusters with equal names: nothing of one ever reaches the other (G-48)."""

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karmada_vc_agent.features.gateway.mapping.cluster_view import ResponseKind
from karmada_vc_agent.features.gateway.mapping.refusals import KindInfo
from karmada_vc_agent.features.gateway.mapping.responses import Forward
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object
from tests.fakes.gateway_view import SERVED, FakeView, asked, forwarded, sent, two_branches

NEIGHBOUR = "branch-b"
"""In every name of the neighbour, and in no name of the virtual cluster that asks."""
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
HOSTS = (
    *("edge-v-branch-a", "shop-v-branch-a", "vc-system-v-branch-a"),
    *("edge-v-branch-b", "shop-v-branch-b", "vc-system-v-branch-b", "default", "gone-v-branch-b"),
)
OF_THE_NEIGHBOUR = frozenset(host for host in HOSTS if NEIGHBOUR in host)

names = st.sampled_from(["web", "nginx-1", "edge", "default", "kube-system"])
hosts = st.sampled_from(HOSTS)


@st.composite
def host_objects(draw: st.DrawFn, kind: str, is_namespaced: bool) -> Object:
    """Make an object as the host has it, with all that the agents put on it."""
    host = draw(hosts)
    cluster = NEIGHBOUR if NEIGHBOUR in host else "branch-a"
    name = draw(names)
    # What is of the neighbour says so wherever it can.
    mark = f"{name}-of-{NEIGHBOUR}" if NEIGHBOUR in host else name
    metadata: Object = {"name": mark, "labels": {vocabulary.CLUSTER_LABEL: cluster, "of": cluster}}
    metadata["annotations"] = {
        vocabulary.WORK_ANNOTATION: f"karmada-es-{cluster}/w",
        "note": f"of {cluster}",
    }
    obj: Object = {"metadata": metadata, "spec": {"text": f"of {cluster}"}}
    if is_namespaced:
        metadata["namespace"] = host
    elif kind == "Namespace":
        metadata["name"] = host
        metadata["labels"] |= {vocabulary.NAMESPACE_LABEL: host.partition("-v-")[0]}
    elif kind in ("ClusterRole", "PersistentVolume"):
        metadata["name"] = f"{name}-v-{cluster}"
        metadata["annotations"][vocabulary.NAME_ANNOTATION] = name
    elif kind == "ClusterRoleBinding":
        metadata |= {"name": f"vc:crb:{mark}", "namespace": f"vc-system-v-{cluster}"}
    elif kind in ("Node", "NodeMetrics"):
        metadata["labels"]["branch"] = cluster[-1]
    else:  # shared
        metadata["labels"] = {vocabulary.SHARED_LABEL: "true"}
        owners = '{"branch-a":"1","branch-b":"1"}'
        metadata["annotations"] = {vocabulary.OWNERS_ANNOTATION: owners}
        metadata["name"], obj["spec"] = name, {}
    if kind == "PersistentVolume" and draw(st.booleans()):
        del metadata["labels"][vocabulary.CLUSTER_LABEL]
        obj["spec"]["claimRef"] = {"namespace": host, "name": mark}
    return obj


READ = [info for info in SERVED if not info.kind.endswith("Review")]


@pytest.mark.parametrize("info", READ, ids=lambda info: f"{info.group}/{info.plural}")
@settings(max_examples=30)
@given(data=st.data())
def test_no_answer_names_the_neighbour(info: KindInfo, data: st.DataObject) -> None:
    branch, _ = two_branches()
    root = f"/apis/{info.group}/{info.version}" if info.group else f"/api/{info.version}"
    namespaces = ["edge", "kube-system", "new"] if info.namespaced else []
    namespace = data.draw(st.sampled_from(["", *namespaces]))
    path = f"{root}/namespaces/{namespace}/{info.plural}" if namespace else f"{root}/{info.plural}"
    verb = data.draw(st.sampled_from(["list", "pages", "watch", "get"]))
    query = {"list": "", "pages": "limit=2", "watch": "watch=1", "get": ""}[verb]
    is_table = data.draw(st.booleans())
    accept = TABLE if is_table else "application/json"
    if verb == "get":
        path += "/web"
    planned = asked(branch, "GET", path, query=query, accept=accept)
    if not isinstance(planned, Forward):
        assert NEIGHBOUR not in repr(planned)
        return
    objects = host_objects(info.kind, info.namespaced)
    found = data.draw(st.lists(objects, min_size=1, max_size=6))
    # The host selects: a request with the client's own rights gets what selectors let through.
    selected = [obj for obj in found if _is_selected(obj, info.kind, verb)]
    shown = _shown(planned, selected, branch, verb, is_table=is_table)
    assert NEIGHBOUR not in orjson.dumps(shown).decode()


def _is_selected(obj: Object, kind: str, verb: str) -> bool:
    """Whether the selector that the gateway puts in front lets an object through."""
    if kind in ("Node", "NodeMetrics") and verb != "get":
        return bool(obj["metadata"]["labels"]["branch"] == "a")
    return True


def _shown(
    planned: Forward, found: list[Object], view: FakeView, verb: str, *, is_table: bool
) -> list[Any]:
    response = planned.response
    if verb == "get":
        answers = [_table([obj]) if is_table else obj for obj in found]
        return [response.map(answer, view) for answer in answers]
    if verb == "watch":
        assert response.kind is ResponseKind.WATCH
        objects = [_table([obj]) if is_table else obj for obj in found]
        return [response.map({"type": "ADDED", "object": obj}, view) for obj in objects]
    answer = _table(found) if is_table else {"kind": "List", "metadata": {}, "items": found}
    answer["metadata"] = {"resourceVersion": "1", "continue": f"next-of-{NEIGHBOUR}"}
    if planned.pages is not None:
        query = planned.pages.add(answer, view)
        assert query is None or isinstance(query, str)
        return [planned.pages.head(), planned.pages.taken()]
    return [response.map(answer, view)]


def _table(found: list[Object]) -> Object:
    rows = [
        {"cells": [obj["metadata"]["name"]], "object": obj | {"kind": "PartialObjectMetadata"}}
        for obj in found
    ]
    columns = [{"name": "Name"}]
    kind = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": columns}
    return {**kind, "metadata": {}, "rows": rows}


methods = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"])
segments = st.sampled_from(
    [
        *("api", "apis", "v1", "apps", "namespaces", "pods", "nodes", "deployments", "edge"),
        *("shop", "kube-system", "vc-system", "default", "web", "log", "exec", "proxy", "status"),
        *("rbac.authorization.k8s.io", "clusterroles", "clusterrolebindings", "rolebindings"),
        *("persistentvolumes", "edge-v", "v-branch", "..", "%2e%2e", "a%2fb", "", "watch", "token"),
    ]
)
words = st.sampled_from(
    ["edge", "shop", "kube-system", "vc-system", "default", "new", "edge-v", "v-branch"]
)


@st.composite
def paths(draw: st.DrawFn) -> str:
    """Make a path that leads to a resource, or one of any segments."""
    if draw(st.booleans()):
        return "/" + "/".join(draw(st.lists(segments, max_size=9)))
    info = draw(st.sampled_from(SERVED))
    steps = ["", "apis", info.group, info.version] if info.group else ["", "api", info.version]
    if draw(st.integers(0, 4)):
        steps += ["namespaces", draw(words)]
    if draw(st.integers(0, 9)):
        steps.append(info.plural)
    if draw(st.booleans()):
        steps.append(draw(names))
    return "/".join([*steps, *draw(st.lists(segments, max_size=2))])


queries = st.sampled_from(
    [
        *(
            "",
            "watch=1",
            "limit=1",
            "limit=1&continue=x",
            "fieldSelector=metadata.namespace%3Dshop",
        ),
        *("fieldSelector=metadata.name!%3Dweb", "labelSelector=a", "labelSelector=x%20in%20(a,b)"),
        *("labelSelector=kubernetes.io/metadata.name%3Dedge", "includeObject=None", "a;b"),
    ]
)
bodies = st.sampled_from(
    [
        *(b"", b"{}", b"[]", b"{"),
        b'{"metadata":{"name":"web","namespace":"edge"}}',
        b'{"spec":{"template":{"spec":{"containers":[]}}}}',
        b'[{"op":"replace","path":"/spec/replicas","value":1}]',
    ]
)
types = st.sampled_from(
    [
        *("", "application/json", "application/merge-patch+json", "application/json-patch+json"),
        *("application/strategic-merge-patch+json", "application/apply-patch+yaml", "x/y"),
    ]
)


@settings(max_examples=100)
@given(
    method=methods,
    path=paths(),
    query=queries,
    body=bodies,
    content_type=types,
    is_upgrade=st.booleans(),
)
def test_no_request_reaches_a_namespace_of_others(
    method: str, path: str, query: str, body: bytes, content_type: str, is_upgrade: bool
) -> None:
    """Whatever is asked: what goes to the host names own namespaces, or asks first."""
    branch, _ = two_branches()
    branch.host.namespaces["v-branch-v-branch-a"] = {"metadata": {}}  # foreign
    planned = asked(
        branch, method, path, body, query, content_type=content_type, is_upgrade=is_upgrade
    )
    assert NEIGHBOUR not in repr(planned)
    if not isinstance(planned, Forward):
        return
    steps = planned.path.strip("/").split("/")
    assert not {"", ".."} & set(steps)
    assert not is_upgrade or planned.response.kind is ResponseKind.OPAQUE
    own = {host for host in HOSTS if host.endswith("branch-a")}
    if "namespaces" in steps[:4] and len(steps) > steps.index("namespaces") + 1:
        host = steps[steps.index("namespaces") + 1]
        is_new = host.endswith("-v-branch-a") or "--" in host
        assert host in own or (is_new and not branch.is_foreign(host))
        if host not in own:
            assert planned.as_gateway
    if planned.as_gateway:
        assert planned.authorize is not None
        is_of_namespaces = planned.authorize.group == vocabulary.DOMAIN
        assert method == "GET" or is_of_namespaces


# --- out and back -----------------------------------------------------------------------

texts = st.text(alphabet="abc-.", min_size=1, max_size=8).map(lambda text: f"x{text}x")
maps = st.dictionaries(texts, texts, max_size=3)


@given(labels=maps, annotations=maps, data=maps, method=st.sampled_from(["POST", "PUT"]))
def test_what_is_written_is_read_again(
    labels: dict[str, str], annotations: dict[str, str], data: dict[str, str], method: str
) -> None:
    """G-31, G-44: mapping out and back is the identity."""
    branch, _ = two_branches()
    metadata: Object = {"name": "x", "namespace": "edge"}
    metadata |= {"labels": labels} if labels else {}
    metadata |= {"annotations": annotations} if annotations else {}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    path = "/api/v1/namespaces/edge/configmaps" + ("/x" if method == "PUT" else "")
    planned = forwarded(branch, method, path, body)
    on_host = sent(planned)
    assert on_host["metadata"]["namespace"] == "edge-v-branch-a"
    assert planned.response.map(copy.deepcopy(on_host), branch) == body


WRITTEN: list[tuple[str, str, Object]] = [
    (
        "apps/v1",
        "deployments",
        {"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}, "containers": []}}}},
    ),
    (
        "rbac.authorization.k8s.io/v1",
        "rolebindings",
        {
            "subjects": [
                {"kind": "User", "name": "alice"},
                {"kind": "Group", "name": "system:authenticated"},
                {"kind": "User", "name": "system:serviceaccount:shop:bot"},
                {"kind": "ServiceAccount", "name": "bot", "namespace": "new"},
            ],
            "roleRef": {"kind": "ClusterRole", "name": "reader"},
        },
    ),
    (
        "networking.k8s.io/v1",
        "networkpolicies",
        {
            "spec": {
                "ingress": [
                    {
                        "from": [
                            {
                                "namespaceSelector": {
                                    "matchLabels": {"kubernetes.io/metadata.name": "new"}
                                }
                            }
                        ]
                    }
                ]
            }
        },
    ),
]


@pytest.mark.parametrize(("api_version", "plural", "content"), WRITTEN)
def test_what_was_read_is_written_back_as_it_was(
    api_version: str, plural: str, content: Object
) -> None:
    """G-45: what was injected stays visible, so that writing it back changes nothing."""
    branch, _ = two_branches()
    path = f"/apis/{api_version}/namespaces/edge/{plural}"
    planned = forwarded(branch, "POST", path, {"metadata": {"name": "x"}, **content})
    first = sent(planned)
    shown: Any = planned.response.map(copy.deepcopy(first), branch)
    assert "-v-" not in str(shown)
    again = forwarded(branch, "PUT", f"{path}/x", shown)
    assert sent(again) == first
    second: Any = again.response.map(copy.deepcopy(first), branch)
    assert second == shown
    for field in content.keys() - {"spec"}:
        assert shown[field] == content[field]
