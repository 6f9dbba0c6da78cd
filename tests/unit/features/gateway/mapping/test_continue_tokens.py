"""G-40a: tokens are sealed, and bound to virtual cluster, resource and namespace."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    Sealer,
)
from karmada_vc_agent.features.gateway.mapping.refusals import RefusalError
from karmada_vc_agent.features.gateway.tokens import KEY_BYTES

SEALER = Sealer(bytes(range(KEY_BYTES)))
SCOPE = ("branch-a", "", "pods", "edge")
HOST_TOKEN = base64.b64encode(b'{"v":"meta.k8s.io/v1","rv":7,"start":"edge-v-branch-b/x\\u0000"}')


@given(token=st.text(), key=st.text())
def test_a_sealed_token_is_opened_again(token: str, key: str) -> None:
    scope = ("branch-a", "apps", "deployments", key)
    assert SEALER.open(SEALER.seal(token, scope), scope) == token


def test_a_sealed_token_shows_nothing_of_the_hosts() -> None:
    sealed = SEALER.seal(HOST_TOKEN.decode(), SCOPE)
    decoded = base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
    assert b"branch-b" not in decoded
    assert HOST_TOKEN not in decoded
    assert sealed.replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize(
    "other",
    [
        ("branch-b", "", "pods", "edge"),
        ("branch-a", "apps", "pods", "edge"),
        ("branch-a", "", "secrets", "edge"),
        ("branch-a", "", "pods", ""),
        ("branch-a", "", "podsedge", ""),
    ],
)
def test_a_token_is_refused_for_another_list(other: tuple[str, ...]) -> None:
    sealed = SEALER.seal("x", SCOPE)
    with pytest.raises(RefusalError):
        SEALER.open(sealed, other)


@given(st.text())
def test_a_token_that_was_not_sealed_is_refused(text: str) -> None:
    with pytest.raises(RefusalError):
        SEALER.open(text, SCOPE)


def test_a_token_of_the_host_is_refused() -> None:
    with pytest.raises(RefusalError):
        SEALER.open(HOST_TOKEN.decode(), SCOPE)


def test_a_token_of_another_key_is_refused() -> None:
    with pytest.raises(RefusalError):
        Sealer(bytes(KEY_BYTES)).open(SEALER.seal("x", SCOPE), SCOPE)
