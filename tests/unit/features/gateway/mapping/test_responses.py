"""G-40 to G-50: what of an answer is shown, and how."""

import copy
import json
from dataclasses import replace
from typing import Any

import orjson
import pytest

from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    ResponseKind,
    UnknownNamespacesError,
)
from karmada_vc_agent.features.gateway.mapping.object_membership import ObjectReader
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object
from tests.fakes.gateway_view import SEALER, FakeView, forwarded, refused, two_branches

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
BOTH = ("edge-v-branch-a", "edge-v-branch-b", "default", "shop-v-branch-a", "vc-system-v-branch-a")


def pod(host: str, name: str = "nginx", **spec: Any) -> Object:
    labels = {"app": name, vocabulary.CLUSTER_LABEL: host.rpartition("-v-")[2]}
    return {
        "metadata": {
            "name": name,
            "namespace": host,
            "labels": labels,
            "annotations": {vocabulary.WORK_ANNOTATION: "karmada-es-branch-a/w"},
            "uid": f"uid-{host}",
        },
        "spec": {"nodeSelector": {"branch": "a"}, **spec},
    }


def pods(*hosts: str, **metadata: str) -> Object:
    items = [pod(host) for host in hosts]
    found = {"resourceVersion": "100", **metadata}
    return {"kind": "PodList", "apiVersion": "v1", "metadata": found, "items": items}


def table(*objects: Object, columns: bool = True) -> Object:
    rows = [
        {
            "cells": [obj["metadata"]["name"], "1/1"],
            "object": {"kind": "PartialObjectMetadata"} | obj,
        }
        for obj in objects
    ]
    found: Object = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "rows": rows}
    if columns:
        found["columnDefinitions"] = [{"name": "Name"}, {"name": "Ready"}]
    return found


@pytest.fixture
def branch() -> FakeView:
    return two_branches()[0]


def shown(items: list[Object]) -> list[tuple[str, str]]:
    return [(item["metadata"].get("namespace", ""), item["metadata"]["name"]) for item in items]


def test_a_list_of_all_namespaces_has_the_own_ones_only(branch: FakeView) -> None:
    """G-40, G-42, G-44: the anchor, neighbours and the host's own namespaces are dropped."""
    planned = forwarded(branch, "GET", "/api/v1/pods")
    found: Any = planned.response.map(pods(*BOTH, remainingItemCount="9"), branch)
    assert shown(found["items"]) == [("edge", "nginx"), ("shop", "nginx")]
    assert found["metadata"] == {"resourceVersion": "100"}
    metadata = found["items"][0]["metadata"]
    assert metadata["labels"] == {"app": "nginx"}
    assert metadata["annotations"] == {
        "work.karmada.io/name": "w",
        "work.karmada.io/namespace": "karmada-es-branch-a",
    }
    assert metadata["uid"] == "uid-edge-v-branch-a"
    assert found["items"][0]["spec"]["nodeSelector"] == {"branch": "a"}  # G-45


def test_anchor_is_shown_where_it_is_requested(branch: FakeView) -> None:
    """G-33, G-42."""
    planned = forwarded(branch, "GET", "/api/v1/namespaces/kube-system/pods")
    found: Any = planned.response.map(pods("vc-system-v-branch-a", "edge-v-branch-a"), branch)
    assert shown(found["items"]) == [("kube-system", "nginx")]


def test_a_list_of_one_namespace_seals_its_token(branch: FakeView) -> None:
    """G-40a."""
    path = "/api/v1/namespaces/edge/pods"
    pages = forwarded(branch, "GET", path, query="limit=1").pages
    assert pages is not None
    given = pods("edge-v-branch-a", remainingItemCount="9", **{"continue": "TOKEN"})
    assert pages.add(given, branch) is None
    assert len(pages.taken()) == 1
    token = pages.head()["metadata"]["continue"]
    assert SEALER.open(token, ("branch-a", "", "pods", "edge")) == "TOKEN"
    planned = forwarded(branch, "GET", path, query=f"limit=1&continue={token}")
    assert planned.query == "limit=1&continue=TOKEN"


@pytest.mark.parametrize("path", ["/api/v1/namespaces/shop/pods", "/api/v1/pods", "/api/v1/nodes"])
def test_a_token_of_another_list_is_refused(path: str) -> None:
    """G-40a: another namespace, all of them, another resource, another virtual cluster."""
    views = two_branches()
    token = SEALER.seal("x", ("branch-a", "", "pods", "edge"))
    for view in views:
        found = refused(view, "GET", path, query=f"limit=1&continue={token}")
        assert (found.code, found.reason) == (410, "Expired")


def test_uncached_namespace_is_requested_first(branch: FakeView) -> None:
    """G-41: and nothing was changed until it is known."""
    new = branch.host.claim("branch-a", "new")
    branch.host.unread.add(new)
    planned = forwarded(branch, "GET", "/api/v1/pods")
    given = pods("edge-v-branch-a", new)
    before = copy.deepcopy(given)
    with pytest.raises(UnknownNamespacesError) as raised:
        planned.response.map(given, branch)
    assert raised.value.host_namespaces == {new}
    assert given == before
    branch.host.unread.clear()
    found: Any = planned.response.map(given, branch)
    assert shown(found["items"]) == [("edge", "nginx"), ("new", "nginx")]


def event(kind: str, obj: Object) -> Object:
    return {"type": kind, "object": {"kind": "Pod", "apiVersion": "v1", **obj}}


def test_events_of_a_watch_are_filtered(branch: FakeView) -> None:
    """G-40, G-41, G-47."""
    response = forwarded(branch, "GET", "/api/v1/pods", query="watch=1").response
    assert response.kind is ResponseKind.WATCH
    found: Any = response.map(event("ADDED", pod("edge-v-branch-a")), branch)
    assert shown([found["object"]]) == [("edge", "nginx")]
    for host in ("edge-v-branch-b", "default", "vc-system-v-branch-a"):
        assert response.map(event("DELETED", pod(host)), branch) is None
    new = branch.host.claim("branch-a", "new")
    branch.host.unread.add(new)
    with pytest.raises(UnknownNamespacesError) as raised:
        response.map(event("ADDED", pod(new)), branch)
    assert raised.value.host_namespaces == {new}


def test_bookmarks_and_errors_of_a_watch_pass(branch: FakeView) -> None:
    """G-47."""
    response = forwarded(branch, "GET", "/api/v1/pods", query="watch=1").response
    annotations = {"k8s.io/initial-events-end": "true"}
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "7", "annotations": annotations}})
    assert response.map(copy.deepcopy(bookmark), branch) == bookmark
    status = {"kind": "Status", "apiVersion": "v1", "message": "too old in edge-v-branch-a"}
    found: Any = response.map({"type": "ERROR", "object": {**status, "code": 410}}, branch)
    assert found["object"]["message"] == "too old in edge"
    assert found["object"]["code"] == 410


def test_an_error_of_a_watch_names_no_namespace_of_the_host(branch: FakeView) -> None:
    """G-48: also where it is decoded in part, as it comes from the host."""
    response = forwarded(branch, "GET", "/api/v1/pods", query="watch=1").response
    details = {"name": "edge-v-branch-a", "causes": [{"message": "in edge-v-branch-a"}]}
    text = "no conversion in edge-v-branch-a, shop-v-branch-b"
    status = {"kind": "Status", "apiVersion": "v1", "message": text, "details": details}
    sieve = response.decoder(branch)
    decoded = sieve.event(orjson.dumps({"type": "ERROR", "object": {**status, "code": 500}}))
    assert b"-v-branch" not in sieve.encoded(response.map(decoded, branch))


def test_an_object_that_has_items_is_no_list(branch: FakeView) -> None:
    path = "/api/v1/namespaces/edge/configmaps/a"
    response = forwarded(branch, "GET", path).response
    for host, name in (("edge-v-branch-a", "edge"), ("edge-v-branch-b", None)):
        metadata = {"name": "a", "namespace": host}
        obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "items": []}
        found: Any = response.map(obj, branch)
        assert (found and found["metadata"]["namespace"]) == name


def test_a_single_namespace_that_changes_hands_shows_nothing_more(branch: FakeView) -> None:
    response = forwarded(branch, "GET", "/api/v1/namespaces/edge/pods", query="watch=1").response
    branch.host.claim("branch-b", "other", "edge-v-branch-a")
    assert response.map(event("ADDED", pod("edge-v-branch-a")), branch) is None


def test_rows_of_a_table_are_filtered(branch: FakeView) -> None:
    """G-46."""
    planned = forwarded(branch, "GET", "/api/v1/pods", accept=TABLE)
    found: Any = planned.response.map(table(*map(pod, BOTH)), branch)
    assert shown([row["object"] for row in found["rows"]]) == [("edge", "nginx"), ("shop", "nginx")]


def test_objects_of_rows_are_dropped_where_none_were_requested(branch: FakeView) -> None:
    """G-46."""
    planned = forwarded(branch, "GET", "/api/v1/pods", query="includeObject=None", accept=TABLE)
    found: Any = planned.response.map(table(*map(pod, BOTH)), branch)
    assert found["rows"] == [{"cells": ["nginx", "1/1"], "object": None}] * 2


def test_columns_go_to_the_first_row_that_is_shown(branch: FakeView) -> None:
    """G-46: only the first event has them, and it may be of a neighbour."""
    response = forwarded(branch, "GET", "/api/v1/pods", query="watch=1", accept=TABLE).response
    first = {"type": "ADDED", "object": table(pod("edge-v-branch-b"))}
    assert response.map(first, branch) is None
    second = {"type": "ADDED", "object": table(pod("edge-v-branch-a"), columns=False)}
    found: Any = response.map(second, branch)
    assert [column["name"] for column in found["object"]["columnDefinitions"]] == ["Name", "Ready"]
    third = {"type": "ADDED", "object": table(pod("shop-v-branch-a"), columns=False)}
    found = response.map(third, branch)
    assert "columnDefinitions" not in found["object"]


def test_a_bookmark_that_is_a_table_passes(branch: FakeView) -> None:
    """G-46, G-47."""
    response = forwarded(branch, "GET", "/api/v1/pods", query="watch=1", accept=TABLE).response
    bookmark = {"type": "BOOKMARK", "object": table(pod("default"))}
    assert response.map(copy.deepcopy(bookmark), branch) == bookmark


def namespaces(branch: FakeView) -> list[Object]:
    return [orjson.loads(orjson.dumps(obj)) for obj in branch.host.namespaces.values()]


def test_namespaces_have_their_own_names(branch: FakeView) -> None:
    """5.3: the anchor is shown as kube-system."""
    planned = forwarded(branch, "GET", "/api/v1/namespaces")
    given = {"kind": "NamespaceList", "apiVersion": "v1", "items": namespaces(branch)}
    found: Any = planned.response.map(given, branch)
    names = [item["metadata"]["name"] for item in found["items"]]
    assert names == ["edge", "shop", "kube-system"]
    metadata = found["items"][2]["metadata"]
    assert metadata["labels"] == {"kubernetes.io/metadata.name": "kube-system"}


def test_the_first_cell_of_namespaces_is_their_name(branch: FakeView) -> None:
    """G-46."""
    planned = forwarded(branch, "GET", "/api/v1/namespaces", accept=TABLE)
    found: Any = planned.response.map(table(*namespaces(branch)), branch)
    assert [row["cells"][0] for row in found["rows"]] == ["edge", "shop", "kube-system"]


@pytest.mark.parametrize(
    ("host", "virtual"),
    [
        ("ClusterRole/reader-v-branch-a", "ClusterRole/reader"),
        ("ClusterRole/vc-view", "ClusterRole/view"),
        ("ClusterRole/virtual-cluster-admin", "ClusterRole/cluster-admin"),
        ("Role/vc-view", "Role/vc-view"),
    ],
)
def test_cells_of_bindings_have_virtual_names(branch: FakeView, host: str, virtual: str) -> None:
    """G-46: `ns/name` cells, and users without their prefix."""
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/edge/rolebindings"
    planned = forwarded(branch, "GET", path, accept=TABLE)
    given = table(pod("edge-v-branch-a", "dev"))
    names = ("Name", "Role", "Age", "Users", "Groups", "ServiceAccounts")
    given["columnDefinitions"] = [{"name": name} for name in names]
    given["rows"][0]["cells"] = [
        "dev",
        host,
        "1d",
        "vc:branch-a:alice, vc:branch-a:bob",
        "vc:branch-a:ops, vc:branch-a",
        "edge-v-branch-a/bot, shop-v-branch-a/bot",
    ]
    found: Any = planned.response.map(given, branch)
    assert found["rows"][0]["cells"] == [
        "dev",
        virtual,
        "1d",
        "alice, bob",
        "ops, system:authenticated",
        "edge/bot, shop/bot",
    ]


def node(name: str, branch: str) -> Object:
    metadata = {"name": name, "labels": {"branch": branch}}
    return {"kind": "Node", "apiVersion": "v1", "metadata": metadata}


def test_node_of_others_returns_404(branch: FakeView) -> None:
    """5.3."""
    response = forwarded(branch, "GET", "/api/v1/nodes/node-1").response
    assert response.map(node("node-1", "a"), branch) == node("node-1", "a")
    assert response.map(node("node-1", "b"), branch) is None
    assert response.not_found().message == 'nodes "node-1" not found'


def test_metrics_of_nodes_go_by_their_names(branch: FakeView) -> None:
    """G-50: labels of nodes are not on their metrics everywhere."""
    path = "/apis/metrics.k8s.io/v1beta1/nodes"
    items = [{"metadata": {"name": name}} for name in ("node-1", "node-2")]
    response = forwarded(branch, "GET", path).response
    found: Any = response.map({"kind": "NodeMetricsList", "items": items}, branch)
    assert found["items"] == [{"metadata": {"name": "node-1"}}]
    response = forwarded(branch, "GET", f"{path}/node-2").response
    assert response.map({"metadata": {"name": "node-2"}}, branch) is None


def volume(name: str, claim: str = "", cluster: str = "", virtual: str = "") -> Object:
    metadata: Object = {"name": name}
    if cluster:
        metadata["labels"] = {vocabulary.CLUSTER_LABEL: cluster}
        metadata["annotations"] = {vocabulary.NAME_ANNOTATION: virtual}
    spec: Object = {"claimRef": {"namespace": claim, "name": "db"}} if claim else {}
    return {"metadata": metadata, "spec": spec}


VOLUMES = (
    volume("data-v-branch-a", cluster="branch-a", virtual="data"),
    volume("data-v-branch-b", cluster="branch-b", virtual="data"),
    volume("pvc-1", "edge-v-branch-a"),
    volume("pvc-2", "edge-v-branch-b"),
    volume("pvc-3", "edge-v-branch-a", cluster="branch-b", virtual="pvc-3"),
    volume("pvc-4"),
)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["data", "pvc-1"]),
        ("fieldSelector=metadata.name=data", ["data"]),
        ("fieldSelector=metadata.name!=data", ["pvc-1"]),
        ("fieldSelector=metadata.name=data-v-branch-a", []),
    ],
)
@pytest.mark.parametrize("is_table", [False, True])
def test_volumes_are_those_of_the_cluster(
    branch: FakeView, query: str, names: list[str], is_table: bool
) -> None:
    """5.3: by label, or by the namespace of their claim."""
    accept = TABLE if is_table else "application/json"
    planned = forwarded(branch, "GET", "/api/v1/persistentvolumes", query=query, accept=accept)
    items = copy.deepcopy(list(VOLUMES))
    if is_table:
        assert planned.query == "includeObject=Object&limit=500"
        found: Any = planned.response.map(table(*items), branch)
        assert [row["cells"][0] for row in found["rows"]] == names
    else:
        given = {"kind": "PersistentVolumeList", "apiVersion": "v1", "items": items}
        found = planned.response.map(given, branch)
        assert [item["metadata"]["name"] for item in found["items"]] == names
        claims = [item["spec"].get("claimRef", {}).get("namespace") for item in found["items"]]
        assert claims == [None if name == "data" else "edge" for name in names]


def test_volumes_are_whole_where_metadata_is_requested(branch: FakeView) -> None:
    """The claim decides, and metadata alone does not have it."""
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
    planned = forwarded(branch, "GET", "/api/v1/persistentvolumes", accept=accept)
    assert planned.accept == "application/json"


def test_cluster_role_bindings_are_made_of_those_in_the_anchor(branch: FakeView) -> None:
    """5.3."""
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    planned = forwarded(branch, "GET", path)
    anchor = "vc-system-v-branch-a"
    binding = {
        "metadata": {"name": "vc:crb:ops", "namespace": anchor},
        "subjects": [{"kind": "User", "name": "vc:branch-a:alice"}],
        "roleRef": {"kind": "ClusterRole", "name": "reader-v-branch-a"},
    }
    own = {"metadata": {"name": "admins", "namespace": anchor}}
    given = {"kind": "RoleBindingList", "items": [binding, own]}
    found: Any = planned.response.map(given, branch)
    assert found == {
        "kind": "ClusterRoleBindingList",
        "items": [
            {
                "metadata": {"name": "ops"},
                "subjects": [{"kind": "User", "name": "alice"}],
                "roleRef": {"kind": "ClusterRole", "name": "reader"},
            }
        ],
    }


@pytest.mark.parametrize("content", [b"[]", b"null"])
def test_an_empty_list_of_bindings_has_the_kind_that_was_requested(
    branch: FakeView, content: bytes
) -> None:
    """5.3."""
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    response = forwarded(branch, "GET", path).response
    given = response.decoder(branch).answer(b'{"kind":"RoleBindingList","items":%b}' % content)
    mapped: Any = response.map(given, branch)
    assert mapped["kind"] == "ClusterRoleBindingList"


def test_shared_objects_do_not_name_their_owners(branch: FakeView) -> None:
    """G-44."""
    planned = forwarded(branch, "GET", "/apis/storage.k8s.io/v1/storageclasses/fast")
    metadata = {
        "name": "fast",
        "labels": {vocabulary.SHARED_LABEL: "true", vocabulary.AGENT_LABEL: "x"},
        "annotations": {vocabulary.OWNERS_ANNOTATION: '{"branch-b":"1"}', "note": "kept"},
    }
    found: Any = planned.response.map({"kind": "StorageClass", "metadata": metadata}, branch)
    assert found["metadata"] == {"name": "fast", "annotations": {"note": "kept"}}


@pytest.mark.parametrize(
    ("tenancy", "owners", "is_shown"),
    [
        ("Shared", ["branch-b"], True),
        ("Strict", ["branch-b"], False),
        ("Strict", ["branch-b", "branch-a"], True),
        ("Strict", ["former"], True),
        ("Strict", None, True),  # of the host
    ],
)
def test_what_only_others_share_is_not_shown_in_strict(
    branch: FakeView, tenancy: str, owners: list[str] | None, is_shown: bool
) -> None:
    branch = replace(
        branch,
        settings=replace(branch.settings, tenancy=tenancy),
        vc_fields={"former_names": ("former",)},
    )
    metadata: Object = {"name": "fast"}
    if owners is not None:
        noted = json.dumps(dict.fromkeys(owners, "1"))
        metadata["labels"] = {vocabulary.SHARED_LABEL: "true"}
        metadata["annotations"] = {vocabulary.OWNERS_ANNOTATION: noted, "note": "branch-b"}
    one = {"kind": "StorageClass", "metadata": metadata}
    path = "/apis/storage.k8s.io/v1/storageclasses"
    found: Any = forwarded(branch, "GET", path).response.map(
        {"kind": "StorageClassList", "metadata": {"remainingItemCount": 3}, "items": [dict(one)]},
        branch,
    )
    assert bool(found["items"]) == is_shown
    assert "remainingItemCount" not in found["metadata"]
    got = forwarded(branch, "GET", f"{path}/fast").response.map(one, branch)
    assert (got is not None) == is_shown


def test_events_name_virtual_namespaces(branch: FakeView) -> None:
    """G-49."""
    planned = forwarded(branch, "GET", "/api/v1/namespaces/edge/events")
    given = pod("edge-v-branch-a", "web.1") | {
        "involvedObject": {"kind": "Pod", "name": "web", "namespace": "edge-v-branch-a"},
        "related": {"namespace": "edge-v-branch-a"},
        "message": "Assigned edge-v-branch-a/web; preempted by edge-v-branch-b/web",
    }
    found: Any = planned.response.map({"kind": "EventList", "items": [given]}, branch)
    item = found["items"][0]
    assert item["involvedObject"]["namespace"] == item["related"]["namespace"] == "edge"
    assert item["message"] == "Assigned edge/web; preempted by another-namespace/web"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('pods "x" not found', 'pods "x" not found'),
        ('namespaces "edge-v-branch-a" not found', 'namespaces "edge" not found'),
        ("in edge-v-branch-a, shop-v-branch-a.", "in edge, shop."),
        ("web.edge-v-branch-a.svc", "web.edge.svc"),
        ("vc-system-v-branch-a", "kube-system"),
        ("xedge-v-branch-b-y", "xedge-v-branch-b-y"),
        ("host taken in edge-v-branch-b/web", "host taken in another-namespace/web"),
        (
            (
                'User "vc:branch-a:alice" cannot get resource "pods" in the namespace '
                '"edge-v-branch-a"'
            ),
            'User "alice" cannot get resource "pods" in the namespace "edge"',
        ),
        ("groups=[vc:branch-a:ops vc:branch-a]", "groups=[ops system:authenticated]"),
        (
            'User "system:serviceaccount:edge-v-branch-a:bot" cannot',
            'User "system:serviceaccount:edge:bot" cannot',
        ),
        (
            'User "system:serviceaccount:karmada-vc-agent:gateway" cannot list resource',
            'User "another-identity" cannot list resource',
        ),
        ('rolebindings "vc:crb:ops" not found', 'rolebindings "ops" not found'),
        ("vc:branch-b:alice", "another-identity:alice"),
    ],
)
def test_texts_of_the_host_have_virtual_names(branch: FakeView, text: str, expected: str) -> None:
    """G-48: in the message, in causes, and in warnings."""
    response = forwarded(branch, "GET", "/api/v1/namespaces/edge/pods/x").response
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "message": text,
        "details": {"name": text, "causes": [{"reason": "X", "message": text}]},
        "code": 403,
    }
    found = response.map_status(status, branch)
    assert found["message"] == found["details"]["name"] == expected
    assert found["details"]["causes"] == [{"reason": "X", "message": expected}]
    assert ObjectReader(branch).text(f'299 - "{text}"') == f'299 - "{expected}"'


def test_what_a_deletion_returns_is_mapped(branch: FakeView) -> None:
    """A Status, the object, or a list of what was deleted."""
    response = forwarded(branch, "DELETE", "/api/v1/namespaces/edge/pods/x").response
    status: Object = {"kind": "Status", "apiVersion": "v1", "status": "Success"}
    assert response.map(dict(status), branch) == status
    found: Any = response.map({"kind": "Pod", **pod("edge-v-branch-a")}, branch)
    assert found["metadata"]["namespace"] == "edge"
    found = response.map(pods("edge-v-branch-a"), branch)
    assert shown(found["items"]) == [("edge", "nginx")]
