"""How many deletions are too many, and what a list is identified by."""

from uuid import uuid4

import msgspec
import pytest

from karmada_vc_agent.cluster.hub_clusters import ClusterRecord
from karmada_vc_agent.cluster.registration import settings_digest
from karmada_vc_agent.features.deletion_brake.feature import (
    Deletion,
    DeletionBrakeSettings,
    Record,
    is_too_much,
    record_of,
)
from karmada_vc_agent.model.objects import decode_as
from tests.fakes import objects

ONE, TWO = Deletion("1", "one", 3), Deletion("2", "two", 4)


@pytest.mark.parametrize(
    ("share", "at_least", "deleted", "total", "is_exceeded"),
    [
        (0.3, 10, 0, 0, False),
        (0.3, 10, 9, 9, False),
        (0.3, 10, 10, 10, True),
        (0.3, 10, 10, 33, True),
        (0.3, 10, 30, 100, False),
        (0.3, 10, 31, 100, True),
        (0.0, 10, 9, 1000, False),
        (0.0, 10, 10, 1000, True),
        (1.0, 1, 1000, 1000, False),
        (0.3, 1, 1, 1, True),
    ],
)
def test_limits_are_a_share_and_a_number(
    *, share: float, at_least: int, deleted: int, total: int, is_exceeded: bool
) -> None:
    assert is_too_much(DeletionBrakeSettings(share, at_least), deleted, total) is is_exceeded


def digest_of(deletions: list[Deletion]) -> str:
    return record_of(deletions, 0, 10).digest


def test_digest_is_of_the_list_and_not_of_its_order() -> None:
    assert digest_of([ONE, TWO]) == digest_of([TWO, ONE])
    assert digest_of([ONE, TWO]) != digest_of([ONE])
    assert digest_of([ONE]) != digest_of([Deletion("3", "one", 3)])


def test_record_has_numbers_and_names() -> None:
    record = record_of([TWO, ONE], 5, 20)
    assert record == Record(digest_of([ONE, TWO]), 5, 7, 20, ("one", "two"), 2)


@pytest.mark.parametrize(("virtual_clusters", "named"), [(10, 10), (1000, 2), (2500, 0)])
def test_what_is_held_in_all_virtual_clusters_fits_in_the_state(
    virtual_clusters: int, named: int
) -> None:
    deletions = [Deletion(str(uuid4()), f"{number:0253}", 10) for number in range(30)]
    record = record_of(deletions, 1000, 10_000, virtual_clusters)
    assert len(record.works) == named
    registered = ClusterRecord(str(uuid4()), settings_digest(objects.virtual_cluster("a" * 48)))
    keys = len("cluster.") + len("deletions.") + 2 * 48
    values = len(msgspec.json.encode(record)) + len(msgspec.json.encode(registered))
    assert (keys + values) * virtual_clusters < 2**20


@pytest.mark.parametrize("text", ["", "{", "[]", '{"digest": 1}', "[" * 5000])
def test_malformed_record_is_none(text: str) -> None:
    assert decode_as(Record, text) is None
