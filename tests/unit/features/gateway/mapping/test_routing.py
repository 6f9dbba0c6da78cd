"""Where requests go: G-30, G-33 to G-35, G-40, and the tables 5.1, 5.3, 5.5."""

from typing import Any
from urllib.parse import unquote

import pytest

from karmada_vc_agent.features.gateway.mapping.cluster_view import ResponseKind
from karmada_vc_agent.features.gateway.mapping.refusals import Attributes
from karmada_vc_agent.features.gateway.mapping.responses import Forward
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.virtual_cluster import VirtualNamespace
from karmada_vc_agent.translation.context import host_namespace
from tests.fakes.gateway_view import asked, forwarded, refused, two_branches

BRANCH_A, BRANCH_B = two_branches()
OWN = f"{vocabulary.CLUSTER_LABEL}=branch-a"
EDGE = "/api/v1/namespaces/edge"
ON_HOST = "/api/v1/namespaces/edge-v-branch-a"
ANCHOR = "/api/v1/namespaces/vc-system-v-branch-a"
RBAC = "/apis/rbac.authorization.k8s.io/v1"

# method, path, query -> path, query on the host; as the client itself.
AS_CLIENT = [
    ("GET", f"{EDGE}/pods", "", f"{ON_HOST}/pods", ""),
    ("GET", f"{EDGE}/pods/web", "", f"{ON_HOST}/pods/web", ""),
    ("GET", f"{EDGE}/pods", "watch=1", f"{ON_HOST}/pods", "watch=1"),
    ("GET", f"{EDGE}/pods", "limit=5", f"{ON_HOST}/pods", "limit=5"),
    ("DELETE", f"{EDGE}/pods/web", "", f"{ON_HOST}/pods/web", ""),
    ("DELETE", f"{EDGE}/pods", "labelSelector=a%3Db", f"{ON_HOST}/pods", "labelSelector=a=b"),
    (
        "GET",
        f"{EDGE}/events",
        "fieldSelector=involvedObject.namespace=edge,involvedObject.name=web",
        f"{ON_HOST}/events",
        "fieldSelector=involvedObject.namespace=edge-v-branch-a,involvedObject.name=web",
    ),
    (
        "GET",
        f"{EDGE}/events",
        "fieldSelector=involvedObject.namespace!=shop",
        f"{ON_HOST}/events",
        "fieldSelector=involvedObject.namespace!=shop-v-branch-a",
    ),
    (
        "GET",
        "/apis/events.k8s.io/v1/namespaces/edge/events",
        "fieldSelector=regarding.namespace==edge",
        "/apis/events.k8s.io/v1/namespaces/edge-v-branch-a/events",
        "fieldSelector=regarding.namespace==edge-v-branch-a",
    ),
    (
        "GET",
        "/apis/apps/v1/namespaces/edge/deployments/web/scale",
        "",
        "/apis/apps/v1/namespaces/edge-v-branch-a/deployments/web/scale",
        "",
    ),
    (
        "GET",
        "/apis/metrics.k8s.io/v1beta1/namespaces/edge/pods",
        "",
        "/apis/metrics.k8s.io/v1beta1/namespaces/edge-v-branch-a/pods",
        "",
    ),
    # G-33: the anchor is read as kube-system.
    ("GET", "/api/v1/namespaces/kube-system/configmaps", "", f"{ANCHOR}/configmaps", ""),
    ("GET", "/api/v1/namespaces/kube-system", "", ANCHOR, ""),
    # 5.3
    ("GET", "/api/v1/namespaces", "", "/api/v1/namespaces", f"labelSelector={OWN}"),
    (
        "GET",
        "/api/v1/namespaces",
        "watch=true&labelSelector=kubernetes.io/metadata.name%20in%20(edge,kube-system)",
        "/api/v1/namespaces",
        (
            f"watch=true&labelSelector={OWN},kubernetes.io/metadata.name in "
            "(edge-v-branch-a,vc-system-v-branch-a)"
        ),
    ),
    (
        "GET",
        "/api/v1/namespaces",
        "fieldSelector=metadata.name=edge",
        "/api/v1/namespaces",
        f"fieldSelector=metadata.name=edge-v-branch-a&labelSelector={OWN}",
    ),
    ("GET", EDGE, "", ON_HOST, ""),
    ("GET", "/api/v1/nodes", "", "/api/v1/nodes", "labelSelector=branch=a"),
    (
        "GET",
        "/api/v1/nodes",
        "watch=1&labelSelector=branch%3Db",
        "/api/v1/nodes",
        "watch=1&labelSelector=branch=a,branch=b",
    ),
    ("GET", "/api/v1/nodes/node-1", "", "/api/v1/nodes/node-1", ""),
    (
        "GET",
        "/apis/metrics.k8s.io/v1beta1/nodes",
        "",
        "/apis/metrics.k8s.io/v1beta1/nodes",
        "labelSelector=branch=a",
    ),
    (
        "GET",
        f"{RBAC}/clusterroles",
        "",
        f"{RBAC}/clusterroles",
        f"labelSelector={OWN},!{vocabulary.GATEWAY_LABEL}",
    ),
    ("GET", f"{RBAC}/clusterroles/reader", "", f"{RBAC}/clusterroles/reader-v-branch-a", ""),
    (
        "GET",
        f"{RBAC}/clusterrolebindings/ops",
        "",
        f"{RBAC}/namespaces/vc-system-v-branch-a/rolebindings/vc:crb:ops",
        "",
    ),
    (
        "GET",
        f"{RBAC}/clusterrolebindings",
        "watch=1",
        f"{RBAC}/namespaces/vc-system-v-branch-a/rolebindings",
        "watch=1",
    ),
    (
        "GET",
        "/apis/storage.k8s.io/v1/storageclasses/fast",
        "",
        "/apis/storage.k8s.io/v1/storageclasses/fast",
        "",
    ),
    ("GET", "/apis/storage.k8s.io/v1/csidrivers", "", "/apis/storage.k8s.io/v1/csidrivers", ""),
]


def _without_page(planned: Forward) -> str:
    """Return the query; that of a list is of its first page."""
    query = unquote(planned.query)
    if planned.pages is not None:
        assert "limit=" in query
        query = query.replace("limit=500", "").strip("&")
    return query


@pytest.mark.parametrize(("method", "path", "query", "host_path", "host_query"), AS_CLIENT)
def test_request_is_sent_to_the_host_as_the_client(
    method: str, path: str, query: str, host_path: str, host_query: str
) -> None:
    planned = forwarded(BRANCH_A, method, path, query=query)
    assert (planned.method, planned.path) == (method, host_path)
    assert _without_page(planned) == host_query
    assert not planned.as_gateway
    assert planned.authorize is None
    assert planned.is_long == query.startswith("watch")


# path, query -> path, query on the host, what is asked first; as the gateway.
AS_GATEWAY = [
    ("/api/v1/pods", "", "/api/v1/pods", "limit=500", Attributes("list", "", "v1", "pods")),
    (
        "/api/v1/pods",
        "watch=1&resourceVersion=7",
        "/api/v1/pods",
        "watch=1&resourceVersion=7",
        Attributes("watch", "", "v1", "pods"),
    ),
    (
        "/apis/apps/v1/deployments",
        "fieldSelector=metadata.namespace=shop",
        "/apis/apps/v1/deployments",
        "fieldSelector=metadata.namespace=shop-v-branch-a&limit=500",
        Attributes("list", "apps", "v1", "deployments"),
    ),
    (
        "/api/v1/pods",
        "limit=7&resourceVersion=3",
        "/api/v1/pods",
        "resourceVersion=3&limit=7",
        Attributes("list", "", "v1", "pods"),
    ),
    (
        "/api/v1/pods",
        "limit=900",
        "/api/v1/pods",
        "limit=500",
        Attributes("list", "", "v1", "pods"),
    ),
    # G-30: not claimed, and not there.
    (
        "/api/v1/namespaces/new/pods",
        "",
        "/api/v1/namespaces/new-v-branch-a/pods",
        "",
        Attributes("list", "", "v1", "pods"),
    ),
    (
        "/api/v1/namespaces/new/pods/web",
        "",
        "/api/v1/namespaces/new-v-branch-a/pods/web",
        "",
        Attributes("get", "", "v1", "pods", name="web"),
    ),
    (
        "/api/v1/namespaces/kube-public/configmaps",
        "watch=1",
        "/api/v1/namespaces/kube-public-v-branch-a/configmaps",
        "watch=1",
        Attributes("watch", "", "v1", "configmaps"),
    ),
    (
        "/api/v1/persistentvolumes",
        "",
        "/api/v1/persistentvolumes",
        "limit=500",
        Attributes("list", "", "v1", "persistentvolumes"),
    ),
    (
        "/api/v1/persistentvolumes",
        "watch=1&fieldSelector=metadata.name=data",
        "/api/v1/persistentvolumes",
        "watch=1",
        Attributes("watch", "", "v1", "persistentvolumes"),
    ),
]


@pytest.mark.parametrize(("path", "query", "host_path", "host_query", "attributes"), AS_GATEWAY)
def test_request_is_sent_to_the_host_as_the_gateway_after_a_review(
    path: str, query: str, host_path: str, host_query: str, attributes: Attributes
) -> None:
    planned = forwarded(BRANCH_A, "GET", path, query=query)
    assert planned.path == host_path
    assert _without_page(planned) == host_query.replace("limit=500", "").strip("&")
    assert planned.as_gateway
    assert planned.authorize == attributes


def test_a_host_name_has_no_special_meaning() -> None:
    """G-30: it is a virtual name like others, of which nobody has claimed the host namespace."""
    planned = forwarded(BRANCH_A, "GET", "/api/v1/namespaces/edge-v-branch-a/pods")
    name = VirtualNamespace("edge-v-branch-a")
    host = host_namespace(BRANCH_A.settings.namespace_template, name, "branch-a")
    assert planned.path == f"/api/v1/namespaces/{host}/pods"
    assert host.startswith("edge-v-branch-a-v-branch-a--")
    assert planned.as_gateway


def test_a_volume_is_looked_for_under_both_names() -> None:
    planned = forwarded(BRANCH_A, "GET", "/api/v1/persistentvolumes/data")
    assert planned.path == "/api/v1/persistentvolumes/data-v-branch-a"
    assert planned.otherwise is not None
    assert planned.otherwise.path == "/api/v1/persistentvolumes/data"
    assert planned.as_gateway
    assert planned.otherwise.as_gateway


# method, path, code.
REFUSED = [
    ("GET", "/", 403),
    ("GET", "/metrics", 403),
    ("GET", "/logs/x", 403),
    ("GET", "/debug/pprof", 403),
    ("GET", "/configz", 403),
    ("GET", "/readyz/etcd", 403),
    ("POST", "/version", 403),
    ("GET", "/api/v1/unheard", 404),
    ("GET", "/apis/example.com/v1/things", 404),
    ("GET", "/api/v2/pods", 404),
    ("GET", "/api/v1/watch/pods", 404),
    ("GET", "/api/v1/proxy/namespaces/edge/pods/web", 404),
    ("GET", "/api/v1/namespaces/edge/nodes/node-1", 404),
    ("GET", "/api/v1/pods/web", 405),
    ("POST", "/api/v1/pods", 405),
    ("DELETE", "/api/v1/pods", 405),
    ("HEAD", "/api/v1/pods", 405),
    ("OPTIONS", f"{EDGE}/pods", 405),
    ("CONNECT", f"{EDGE}/pods", 405),
    ("PUT", f"{EDGE}/pods", 405),
    ("POST", f"{EDGE}/pods/web", 405),
    ("GET", f"{EDGE}/pods/web/log/x", 404),
    ("GET", "/api/v1/namespaces/../pods", 400),
    ("GET", "/api/v1/namespaces/edge%2fpods", 400),
    ("GET", "//api/v1/pods", 400),
    # G-33
    ("POST", "/api/v1/namespaces/kube-system/configmaps", 403),
    ("PUT", "/api/v1/namespaces/kube-system/configmaps/x", 403),
    ("PATCH", "/api/v1/namespaces/kube-system/configmaps/x", 403),
    ("DELETE", "/api/v1/namespaces/kube-system/configmaps/x", 403),
    ("GET", "/api/v1/namespaces/kube-system/pods/x/exec", 403),
    ("GET", "/api/v1/namespaces/kube-system/services/x/proxy/", 403),
    ("GET", "/api/v1/namespaces/vc-system/pods", 404),
    ("GET", "/api/v1/namespaces/vc-system", 404),
    ("GET", "/api/v1/namespaces/kube-public", 404),
    ("GET", "/api/v1/namespaces/vc-system-v-branch-a", 404),
    ("GET", "/api/v1/namespaces/edge-v-branch-b", 404),
    # G-30
    ("POST", "/api/v1/namespaces/new/configmaps", 404),
    ("PUT", "/api/v1/namespaces/new/configmaps/x", 404),
    ("DELETE", "/api/v1/namespaces/new/configmaps/x", 404),
    ("GET", "/api/v1/namespaces/new/pods/x/log", 404),
    # G-35
    ("POST", f"{EDGE}/serviceaccounts/bot/token", 403),
    ("GET", "/api/v1/nodes/node-1/proxy/metrics", 403),
    ("GET", "/api/v1/nodes/node-1/proxy", 403),
    ("GET", "/api/v1/nodes/node-1/status", 403),
    ("PATCH", "/api/v1/nodes/node-1", 403),
    ("DELETE", "/api/v1/nodes", 403),
    # 5.3
    ("PUT", f"{EDGE}/status", 403),
    ("PUT", f"{EDGE}/finalize", 403),
    ("DELETE", "/api/v1/namespaces/kube-system", 403),
    ("PATCH", "/api/v1/namespaces/kube-system", 403),
    ("DELETE", "/api/v1/namespaces/new", 404),
    ("DELETE", "/api/v1/namespaces", 405),
    ("POST", f"{RBAC}/clusterroles", 403),
    ("POST", f"{RBAC}/clusterrolebindings", 403),
    ("DELETE", "/api/v1/persistentvolumes/data", 403),
    ("POST", "/apis/storage.k8s.io/v1/storageclasses", 403),
    ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", 403),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", 403),
    ("GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests", 403),
    ("GET", "/apis/storage.k8s.io/v1/csinodes", 403),
    ("GET", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", 403),
    ("GET", "/api/v1/componentstatuses", 403),
    ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 403),
    # 5.5
    ("GET", "/apis/work.karmada.io/v1alpha1/namespaces/edge/works", 403),
    ("GET", "/apis/reliablesyncs.kubeedge.io/v1alpha1/objectsyncs", 403),
]


@pytest.mark.parametrize(("method", "path", "code"), REFUSED)
def test_request_is_refused(method: str, path: str, code: int) -> None:
    found = refused(BRANCH_A, method, path, {} if method in ("POST", "PUT") else None)
    assert found.code == code
    assert "-v-" not in found.message.replace(path.rsplit("/", maxsplit=1)[-1], "")
    assert found.status()["code"] == code


def test_namespace_of_another_owner_is_foreign() -> None:
    """G-30: the computed name exists, and is not claimed."""
    branch, _ = two_branches()
    branch.host.namespaces["new-v-branch-a"] = {"metadata": {"name": "new-v-branch-a"}}
    assert refused(branch, "GET", "/api/v1/namespaces/new/pods").code == 403
    assert refused(branch, "POST", "/api/v1/namespaces/new/pods", {}).code == 404


UNTOUCHED = [
    ("GET", "/version", "", "/version"),
    ("GET", "/openapi/v2", "timeout=32s", "/openapi/v2"),
    ("GET", "/openapi/v3", "", "/openapi/v3"),
    ("GET", "/openapi/v3/apis/apps/v1", "hash=AB12", "/openapi/v3/apis/apps/v1"),
    ("GET", f"{EDGE}/pods/web/log", "container=a&follow=true", f"{ON_HOST}/pods/web/log"),
    ("GET", f"{EDGE}/pods/web/exec", "command=sh&command=-c", f"{ON_HOST}/pods/web/exec"),
    ("POST", f"{EDGE}/pods/web/attach", "stdin=true", f"{ON_HOST}/pods/web/attach"),
    ("GET", f"{EDGE}/pods/web/portforward", "", f"{ON_HOST}/pods/web/portforward"),
    (
        "PUT",
        f"{EDGE}/services/web:80/proxy/a%20b/c/",
        "x=%2F..",
        f"{ON_HOST}/services/web:80/proxy/a%20b/c/",
    ),
    ("HEAD", f"{EDGE}/pods/web/proxy/", "", f"{ON_HOST}/pods/web/proxy/"),
]


@pytest.mark.parametrize(("method", "path", "query", "host_path"), UNTOUCHED)
def test_bytes_pass_untouched(method: str, path: str, query: str, host_path: str) -> None:
    """G-35, 5.1: the query too."""
    accept = "application/vnd.kubernetes.protobuf"
    planned = forwarded(
        BRANCH_A, method, path, b"\x00bytes", query, accept=accept, content_type="x/y"
    )
    assert planned.response.kind is ResponseKind.OPAQUE
    assert (planned.method, planned.path, planned.query) == (method, host_path, query)
    assert planned.accept == accept
    assert planned.is_long == ("follow" in query)
    if "namespaces" in path:
        assert (planned.body, planned.content_type) == (b"\x00bytes", "x/y")


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/api/v1/configmaps", "watch=true"),
        (f"{EDGE}/pods", "watch=true"),
        (f"{EDGE}/pods/web", ""),
        (f"{EDGE}/pods/web/eviction", ""),
        ("/api/v1/nodes", "watch=true"),
        ("/api/v1/persistentvolumes", "watch=true"),
        ("/openapi/v2", ""),
        ("/apis", ""),
    ],
)
def test_what_is_mapped_is_not_upgraded(path: str, query: str) -> None:
    """An API server serves watches over WebSockets: whole, and with the gateway's rights."""
    assert refused(BRANCH_A, "GET", path, query=query, is_upgrade=True).code == 400


def test_streams_are_upgraded() -> None:
    path = f"{EDGE}/pods/web/exec"
    assert forwarded(BRANCH_A, "GET", path, is_upgrade=True).response.kind is ResponseKind.OPAQUE


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_is_that_of_the_host(path: str) -> None:
    assert forwarded(BRANCH_A, "GET", path).path == path
    assert refused(BRANCH_A, "GET", f"{path}/etcd").code == 403


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/vnd.kubernetes.protobuf, */*", "application/json"),
        ("application/vnd.kubernetes.protobuf,application/json", "application/json"),
        (
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;"
                "g=meta.k8s.io,application/json"
            ),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;"
                "g=meta.k8s.io,application/json"
            ),
        ),
        (
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            ),
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
        ),
        ("application/json;stream=watch;q=0.9", "application/json"),
        ("application/yaml", None),
        ("application/vnd.kubernetes.protobuf", None),
        ("application/cbor", None),
        ("image/png", None),
    ],
)
def test_host_is_requested_for_json(accept: str, expected: str | None) -> None:
    """G-43."""
    if expected is None:
        assert refused(BRANCH_A, "GET", f"{EDGE}/pods", accept=accept).code == 406
    else:
        assert forwarded(BRANCH_A, "GET", f"{EDGE}/pods", accept=accept).accept == expected


@pytest.mark.parametrize("kind", ["application/vnd.kubernetes.protobuf", "application/cbor", "x/y"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_a_body_in_an_unknown_form_is_refused(method: str, kind: str) -> None:
    """G-43."""
    path = f"{EDGE}/configmaps" + ("" if method == "POST" else "/x")
    found = refused(BRANCH_A, method, path, b"k8s\x00", content_type=kind)
    assert (found.code, found.reason) == (415, "UnsupportedMediaType")


def test_rows_without_objects_are_requested_with_metadata() -> None:
    """G-46: the namespace of a row decides."""
    planned = forwarded(BRANCH_A, "GET", f"{EDGE}/pods", query="includeObject=None")
    assert planned.query == "includeObject=Metadata&limit=500"
    planned = forwarded(BRANCH_A, "GET", "/api/v1/pods", query="includeObject=None&limit=3")
    assert planned.query == "includeObject=Metadata&limit=3"


def test_a_client_that_asks_who_it_is_gets_its_own_names() -> None:
    """5.3: nothing of the host's names."""
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    planned = forwarded(BRANCH_A, "POST", path, {})
    assert not planned.as_gateway
    user = {
        "username": "system:serviceaccount:edge-v-branch-a:bot",
        "groups": ["vc:branch-a:ops", "vc:branch-a", "system:authenticated"],
    }
    found: Any = planned.response.map({"status": {"userInfo": user}}, BRANCH_A)
    assert found["status"]["userInfo"] == {
        "username": "system:serviceaccount:edge:bot",
        "groups": ["ops", "system:authenticated"],
    }


def test_the_second_branch_never_meets_the_first() -> None:
    """The same requests in the neighbour name its own namespaces only."""
    for method, path, query, host_path, _ in AS_CLIENT:
        planned = asked(BRANCH_B, method, path, query=query)
        text = repr((getattr(planned, "path", ""), getattr(planned, "query", "")))
        assert "branch-a" not in text, path
        assert host_path.replace("branch-a", "branch-b").replace("branch=a", "branch=b") in text
