"""What may be used of a checkpoint, and why the rest is refused."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from karmada_vc_agent.features.checkpoint.entries import (
    CLUSTER,
    CONTACT,
    CONTACT_KEY,
    DAMAGED,
    RULES,
    RULES_KEY,
    WORKS,
    Reason,
    UnusableError,
    head_key,
    identity,
    works_key,
)
from karmada_vc_agent.features.checkpoint.reader import SKEW_S, Expected, Saved, read, usable_times
from tests.unit.features.checkpoint.scene import cluster, entry, expected, secret, work

NOW = datetime(2026, 5, 1, 11, tzinfo=UTC)


def names(works: list[dict[str, Any]]) -> list[str]:
    return [each["metadata"]["name"] for each in works]


def test_cluster_works_and_rules_are_there() -> None:
    saved = read([{}, secret()], expected())
    assert saved.clusters == ["a"]
    found = saved.cluster("a")
    assert found is not None
    assert found["metadata"] == {"name": "a", "uid": "uid-a", "labels": {"x": "y"}}
    assert names(saved.works("a")) == ["one"]
    assert saved.rules() == []
    assert not saved.refusals


def test_parts_are_put_together_across_secrets() -> None:
    first = secret(**{head_key("a"): entry(CLUSTER, cluster(), parts=2)})
    first[works_key("a", 2, 0)] = secret(x=entry(WORKS, work("p"), part=0, parts=2))["x"]
    second = {works_key("a", 2, 1): secret(x=entry(WORKS, work("q"), part=1, parts=2))["x"]}
    assert names(read([first, second], expected()).works("a")) == ["p", "q"]


def test_parts_of_another_split_are_not_used() -> None:
    stale = secret(**{works_key("a", 4, 2): entry(WORKS, work("stale"), part=2, parts=4)})
    assert names(read([stale], expected()).works("a")) == ["one"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"hub": "hub-2"}, Reason.HUB),
        ({"uids": {"a": "uid-b"}}, Reason.CLUSTER),
        ({"uids": {"a": None}}, Reason.DELETED),
        ({"template": "{cluster}-{namespace}"}, Reason.TEMPLATE),
        ({"times": usable_times(NOW, 1800)}, Reason.TOO_OLD),
    ],
)
def test_what_is_of_something_else_is_refused(given: dict[str, Any], reason: Reason) -> None:
    saved = read([secret()], expected(**given))
    assert saved.refusals["a"].reason is reason
    _assert_nothing_of_a(saved)


def _assert_nothing_of_a(saved: Saved) -> None:
    assert saved.clusters == []
    assert saved.cluster("a") is None
    assert saved.works("a") == []


def test_a_damaged_cluster_is_refused_and_its_neighbour_is_not() -> None:
    data = secret(
        **{
            head_key("b"): entry(CLUSTER, cluster("b", "uid-b"), cluster="b", uid="uid-b", parts=1),
            works_key("b", 1, 0): entry(
                WORKS, work("other", "b"), cluster="b", uid="uid-b", parts=1
            ),
        }
    )
    data[head_key("a")] = "%%%"
    saved = read([data], expected())
    assert saved.refusals["a"].reason is Reason.UNREADABLE
    assert saved.cluster("a") is None
    assert saved.works("a") == []
    assert saved.clusters == ["b"]
    assert names(saved.works("b")) == ["other"]


def test_a_damaged_part_costs_only_itself() -> None:
    damaged = entry(WORKS, work("p"), part=0, parts=2)[:-1] + b"x"
    data = secret(
        **{
            head_key("a"): entry(CLUSTER, cluster(), parts=2),
            works_key("a", 2, 0): damaged,
            works_key("a", 2, 1): entry(WORKS, work("q"), part=1, parts=2),
        }
    )
    saved = read([data], expected())
    assert names(saved.works("a")) == ["q"]
    assert saved.refusals["a"].reason is Reason.CHECKSUM


@pytest.mark.parametrize(
    "part",
    [
        entry(WORKS, work(of="b"), parts=1),
        entry(WORKS, work(), parts=1, uid="uid-b"),
        entry(WORKS, work(), parts=1, hub="hub-2"),
    ],
    ids=["work of another", "other uid", "other hub"],
)
def test_works_of_another_cluster_are_refused(part: bytes) -> None:
    saved = read([secret(**{works_key("a", 1, 0): part})], expected())
    assert saved.works("a") == []
    assert saved.refusals["a"].reason is Reason.CLUSTER


@pytest.mark.parametrize("key", [head_key("a"), works_key("a", 1, 0)])
def test_one_flipped_byte_refuses_the_cluster_and_names_its_secret(key: str) -> None:
    whole = base64.b64decode(secret()[key])
    for position in range(len(whole)):
        torn = bytearray(whole)
        torn[position] ^= 1
        assert identity(bytes(torn)) != identity(whole), "or it would not be written again"
        saved = read([{}, secret(**{key: bytes(torn)})], expected(), ("s-0", "s-1"))
        refusal = saved.refusals["a"]
        assert refusal.reason in {*DAMAGED, Reason.FORMAT}, position
        assert refusal.reason is Reason.FORMAT or f"{key} of Secret s-1: " in str(refusal)
        assert saved.clusters == []


def test_rules_of_another_hub_are_refused() -> None:
    saved = read([secret(**{RULES_KEY: entry(RULES, hub="hub-2")})], expected())
    assert saved.refusals["rules"].reason is Reason.HUB
    assert saved.clusters == ["a"]


def test_an_unknown_hub_refuses_nothing() -> None:
    saved = read(
        [secret(**{head_key("a"): entry(CLUSTER, cluster(), hub="", parts=1)})], expected()
    )
    assert saved.clusters == ["a"]


def test_knowledge_is_as_old_as_the_last_contact() -> None:
    contact = entry(CONTACT, cluster="", uid="", saved="2026-05-01T10:45:00Z")
    saved = read([secret(**{CONTACT_KEY: contact})], expected(times=usable_times(NOW, 1800)))
    assert saved.saved_at("a") == datetime(2026, 5, 1, 10, 45, tzinfo=UTC)
    assert saved.clusters == ["a"]


def test_a_contact_with_another_hub_says_nothing() -> None:
    contact = entry(CONTACT, cluster="", uid="", hub="hub-2", saved="2026-05-01T10:45:00Z")
    saved = read([secret(**{CONTACT_KEY: contact})], Expected("{namespace}-v-{cluster}", {}))
    assert saved.saved_at("a") == datetime(2026, 5, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(("ahead_s", "clusters"), [(SKEW_S, ["a"]), (SKEW_S + 1, [])])
def test_age_of_a_future_record_is_unknown(ahead_s: float, clusters: list[str]) -> None:
    before = datetime(2026, 5, 1, 10, tzinfo=UTC) - timedelta(seconds=ahead_s)  # it is of 10:00
    saved = read([secret()], expected(times=usable_times(before, 1800)))
    assert saved.clusters == clusters
    told = [str(refusal) for refusal in saved.refusals.values()]
    assert [text for text in told if "in the future" not in text] == []


def test_nothing_is_too_old_without_a_limit() -> None:
    assert usable_times(NOW, 0) is None


def test_forgotten_one_leaves_nothing() -> None:
    saved = read([secret()], expected())
    saved.forget("a")
    _assert_nothing_of_a(saved)


def test_a_refusal_later_counts() -> None:
    saved = read([secret()], expected())
    saved.refuse("a", UnusableError(Reason.CLUSTER, "the hub says otherwise"))
    _assert_nothing_of_a(saved)
