"""The gateway's Secret holds sums, never tokens."""

from base64 import b64encode

import pytest

from karmada_vc_agent.access.agent_objects import hub_secret_name, token_keys
from karmada_vc_agent.features.gateway.tokens import (
    TokenSum,
    digest,
    matching,
    sealing_key_of,
    sums_of,
)
from karmada_vc_agent.model.objects import Object

A = TokenSum("access", "branch-a", "2026-02-02T00:00:00Z", digest("token-a"))
OLD = TokenSum("access", "branch-a", "2026-01-01T00:00:00Z", digest("older"))
B = TokenSum("impersonator", "branch-b", "2026-02-02T00:00:00Z", digest("token-b"))


def secret(**data: str) -> Object:
    return {"data": {key: b64encode(value.encode()).decode() for key, value in data.items()}}


def with_sums(*sums: TokenSum) -> Object:
    return secret(**{each.key: each.text for each in sums})


def test_sums_are_read_as_they_were_written() -> None:
    assert set(sums_of(with_sums(A, OLD, B))) == {A, OLD, B}
    assert "token-a" not in str(with_sums(A))


def test_token_is_matched_by_its_sum_only() -> None:
    sums = sums_of(with_sums(A, OLD, B))
    assert matching(sums, "token-a") == A
    assert matching(sums, "older") == OLD
    assert matching(sums, "token-c") is None
    assert matching(sums, digest("token-a")) is None
    assert matching((), "token-a") is None


@pytest.mark.parametrize("value", ["", "{", "[]", '{"kind": "access"}', '{"kind": "root"}'])
def test_unreadable_sum_is_valid_for_no_one(value: str) -> None:
    assert sums_of(secret(**{"token.branch-a.access.1": value})) == ()


def test_secret_without_data_has_no_sums() -> None:
    assert sums_of(None) == sums_of({}) == sums_of({"data": {A.key: "no base64"}}) == ()


def test_keys_of_one_virtual_cluster_are_its_own() -> None:
    longer = TokenSum("access", "branch-a2", "", digest("x"))
    found = with_sums(A, OLD, B, longer)
    assert set(token_keys(found, "branch-a")) == {A.key, OLD.key}
    assert token_keys(None, "branch-a") == ()


def test_sealing_key_has_its_length() -> None:
    assert sealing_key_of({"data": {"sealing-key": b64encode(b"k" * 32).decode()}}) == b"k" * 32
    assert sealing_key_of({"data": {"sealing-key": b64encode(b"k" * 8).decode()}}) is None
    assert sealing_key_of({}) is None


def test_secrets_on_the_hub_are_those_that_karmada_expects() -> None:
    assert hub_secret_name("branch-a", "access") == "branch-a"
    assert hub_secret_name("branch-a", "impersonator") == "branch-a-impersonator"
