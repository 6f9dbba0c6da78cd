"""What is taken from the head of a request, and what is refused."""

import h11
import pytest

from karmada_vc_agent.features.gateway.mapping.refusals import RefusalError
from karmada_vc_agent.features.gateway.server.connections import head_of, impersonation_of

Lines = list[tuple[str, str]]


def _request(target: str = "/virtualclusters/a/api", *headers: tuple[str, str]) -> h11.Request:
    return h11.Request(method="GET", target=target, headers=[("Host", "x"), *headers])


@pytest.mark.parametrize(
    ("target", "cluster", "path", "query"),
    [
        ("/virtualclusters/a/api/v1/pods?limit=1&x=%2F", "a", "/api/v1/pods", "limit=1&x=%2F"),
        ("/virtualclusters/branch-a", "branch-a", "/", ""),
        ("/virtualclusters/branch-a/", "branch-a", "/", ""),
        ("/virtualclusters/a//api/../b", "a", "//api/../b", ""),
        ("/virtualclusters/A/api", "", "/virtualclusters/A/api", ""),
        ("/virtualclusters/", "", "/virtualclusters/", ""),
        ("/virtualclusters/a%2Fb/api", "", "/virtualclusters/a%2Fb/api", ""),
        ("/api/v1/pods", "", "/api/v1/pods", ""),
        ("/", "", "/", ""),
    ],
)
def test_the_path_names_the_virtual_cluster(
    target: str, cluster: str, path: str, query: str
) -> None:
    head = head_of(_request(target))
    assert (head.cluster, head.path, head.query) == (cluster, path, query)


@pytest.mark.parametrize(
    "target",
    ["*", "http://host/api", "host:443", "/api#x", "https://127.0.0.1/virtualclusters/a/api"],
)
def test_a_target_that_is_no_absolute_path_is_refused(target: str) -> None:
    with pytest.raises(RefusalError) as raised:
        head_of(_request(target))
    assert raised.value.code == 400


@pytest.mark.parametrize(
    "headers",
    [
        [("Content-Length", "3"), ("Transfer-Encoding", "chunked")],
        [("Authorization", "Bearer a"), ("Authorization", "Bearer b")],
    ],
)
def test_headers_that_two_readers_may_read_differently_are_refused(headers: Lines) -> None:
    with pytest.raises(RefusalError) as raised:
        head_of(_request("/virtualclusters/a/", *headers))
    assert raised.value.code == 400


@pytest.mark.parametrize(
    ("value", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("BEARER  abc", "abc"),
        ("Basic abc", ""),
        ("abc", ""),
        ("", ""),
    ],
)
def test_token_is_read_from_authorization_in_any_case_of_its_scheme(value: str, token: str) -> None:
    assert head_of(_request("/", ("Authorization", value))).token == token


def test_a_token_in_the_protocols_of_a_web_socket_is_refused() -> None:
    protocols = "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0"
    with pytest.raises(RefusalError):
        head_of(_request("/", ("Sec-WebSocket-Protocol", protocols)))


@pytest.mark.parametrize(
    ("value", "is_upgrade"),
    [("Upgrade", True), ("keep-alive, UPGRADE", True), ("keep-alive", False), ("upgraded", False)],
)
def test_an_upgrade_is_an_option_of_connection(*, value: str, is_upgrade: bool) -> None:
    assert head_of(_request("/", ("Connection", value))).is_upgrade is is_upgrade


def test_what_is_impersonated_keeps_its_order_and_names_what_else_there_is() -> None:
    request = _request(
        "/",
        ("Impersonate-User", "alice"),
        ("Impersonate-Group", "b"),
        ("impersonate-group", "a"),
        ("Impersonate-Extra-Scopes", "x"),
    )
    found = impersonation_of(head_of(request).headers)
    assert (found.users, found.groups) == (("alice",), ("b", "a"))
    assert found.others == ("Impersonate-Extra-Scopes",)


def test_a_user_that_is_no_text_is_refused() -> None:
    request = h11.Request(
        method="GET", target="/", headers=[(b"Host", b"x"), (b"Impersonate-User", b"\xff\xfe")]
    )
    with pytest.raises(RefusalError) as raised:
        impersonation_of(head_of(request).headers)
    assert raised.value.code == 400
