"""Paths are read strictly, and built anew: nothing else reaches the host."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    RequestPath,
    encode_path,
    parse_path,
    split_path,
)
from karmada_vc_agent.features.gateway.mapping.refusals import RefusalError

PARSED = [
    ("/api/v1/pods", RequestPath("", "v1", "pods")),
    ("/api/v1/pods/", RequestPath("", "v1", "pods", has_slash_at_end=True)),
    ("/api/v1/namespaces", RequestPath("", "v1", "namespaces")),
    ("/api/v1/namespaces/edge", RequestPath("", "v1", "namespaces", "edge", "edge")),
    (
        "/api/v1/namespaces/edge/status",
        RequestPath("", "v1", "namespaces", "edge", "edge", "status"),
    ),
    (
        "/api/v1/namespaces/edge/finalize",
        RequestPath("", "v1", "namespaces", "edge", "edge", "finalize"),
    ),
    ("/api/v1/namespaces/edge/pods", RequestPath("", "v1", "pods", "edge")),
    ("/api/v1/namespaces/edge/pods/web", RequestPath("", "v1", "pods", "edge", "web")),
    (
        "/api/v1/namespaces/edge/pods/web/log",
        RequestPath("", "v1", "pods", "edge", "web", "log"),
    ),
    (
        "/api/v1/namespaces/edge/services/https:web:443/proxy/a/b/",
        RequestPath(
            "",
            "v1",
            "services",
            "edge",
            "https:web:443",
            "proxy",
            ("a", "b"),
            has_slash_at_end=True,
        ),
    ),
    ("/apis/apps/v1/deployments", RequestPath("apps", "v1", "deployments")),
    (
        "/apis/apps/v1/namespaces/edge/deployments/web/scale",
        RequestPath("apps", "v1", "deployments", "edge", "web", "scale"),
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
        RequestPath("rbac.authorization.k8s.io", "v1", "clusterroles", "", "system:node"),
    ),
    ("/", RequestPath()),
    ("/version", RequestPath(rest=("version",))),
    ("/api", RequestPath(rest=("api",))),
    ("/apis/", RequestPath(rest=("apis",), has_slash_at_end=True)),
    ("/apis/apps/v1", RequestPath(rest=("apis", "apps", "v1"))),
    ("/openapi/v3/apis/apps/v1", RequestPath(rest=("openapi", "v3", "apis", "apps", "v1"))),
]

REFUSED = [
    "",
    "*",
    "api/v1/pods",
    "http://host/api/v1/pods",
    "//api/v1/pods",
    "/api//v1/pods",
    "/api/v1/namespaces//pods",
    "/api/v1/pods//",
    "/api/v1/namespaces/../secrets",
    "/api/v1/namespaces/./pods",
    "/api/v1/namespaces/edge/..",
    "/api/v1/namespaces/%2e%2e/secrets",
    "/api/v1/namespaces/%2E/pods",
    "/api/v1/namespaces/edge%2fpods",
    "/api/v1/namespaces/edge%2Fpods",
    "/api/v1/namespaces/edge%5cpods",
    "/api/v1/namespaces/ed%00ge/pods",
    "/api/v1/namespaces/ed%0d%0age/pods",
    "/api/v1/namespaces/ed%ffge/pods",
    "/api/v1/namespaces/ed%2ge/pods",
    "/api/v1/namespaces/ed%",
    "/api/v1/namespaces/%252e%252e/pods",
    "/api/v1/namespaces/edge pods",
    "/api/v1/namespaces/édge/pods",
    "/api/v1/pods?x=1",
    "/api/v1/pods#x",
    "/api/v1/pods\r\nX: y",
    "/api/v1/namespaces/edge/services/web/proxy/../../../secrets",
    "/api/v1/namespaces/edge/services/web/proxy/%2e%2e/x",
    "/api/v1/namespaces/edge/services/web/proxy/a%2fb",
    "/openapi/../metrics",
]


@pytest.mark.parametrize(("path", "expected"), PARSED)
def test_path_is_parsed_as_kubernetes_does(path: str, expected: RequestPath) -> None:
    assert parse_path(path) == expected


@pytest.mark.parametrize(("path", "expected"), PARSED)
def test_path_is_built_again(path: str, expected: RequestPath) -> None:
    assert expected.encoded() == path.replace("%3A", ":")


@pytest.mark.parametrize("path", REFUSED)
def test_path_that_is_not_clear_is_refused(path: str) -> None:
    with pytest.raises(RefusalError):
        parse_path(path)


@given(st.text(alphabet="ab/.%25fFeE0\\:;=?#\x00\né", max_size=24))
def test_what_is_parsed_is_read_in_the_same_way_again(text: str) -> None:
    try:
        found = parse_path("/" + text)
    except RefusalError:
        return
    built = found.encoded()
    assert "//" not in built
    assert not {".", ".."} & set(built.split("/"))
    if isinstance(found, RequestPath):
        assert "%2F" not in built.upper()
    assert parse_path(built) == found


@given(st.lists(st.text(min_size=1, max_size=8), max_size=4))
def test_segments_survive_encoding(segments: list[str]) -> None:
    path = encode_path(tuple(segments))
    try:
        found, _ = split_path(path)
    except RefusalError:
        return
    assert found == tuple(segments)
