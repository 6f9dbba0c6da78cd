"""Which shard serves a virtual cluster, and what --shard says."""

import re
from collections import Counter
from pathlib import Path

import pytest

from karmada_vc_agent.features.shards.division import (
    MOST,
    ShardClusters,
    lease_name,
    lease_names,
    parse,
    shard_of,
)
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

NAMES = [f"branch-{number}" for number in range(1000)]
ROLES = Path(__file__).parents[4] / "karmada_vc_agent/features/shards/roles.yaml"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (0, 1)),
        ("0/1", (0, 1)),
        ("auto/1", (0, 1)),
        ("0/2", (0, 2)),
        ("1/2", (1, 2)),
        ("auto/8", (None, 8)),
    ],
)
def test_shard_is_an_index_of_a_count(text: str, expected: tuple[int | None, int]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["2/2", "1", "1/0", "a/2", "auto/9", "auto", "-1/2", "1/2/3"])
def test_shard_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f'"{text}"')):
        parse(text)


def test_virtual_clusters_are_divided_alike_by_all_versions() -> None:
    assert "".join(str(shard_of(name, 3)) for name in NAMES[:12]) == "002222010201"


@pytest.mark.parametrize("count", range(2, MOST + 1))
def test_shards_are_of_about_one_size(count: int) -> None:
    sizes = Counter(shard_of(name, count) for name in NAMES)
    assert len(sizes) == count
    assert max(sizes.values()) < 1.4 * len(NAMES) / count


@pytest.mark.parametrize("count", range(1, MOST))
def test_a_shard_more_takes_its_part_and_moves_nothing_else(count: int) -> None:
    moved = [name for name in NAMES if shard_of(name, count) != shard_of(name, count + 1)]
    assert {shard_of(name, count + 1) for name in moved} == {count}
    assert len(moved) < 1.5 * len(NAMES) / (count + 1)


def test_shard_has_its_own_and_knows_all() -> None:
    shards = [ShardClusters(index, 3) for index in range(3)]
    for shard in shards:
        shard.everywhere.replace_all(VirtualCluster(name=name) for name in NAMES[:50])
        assert len(shard.everywhere) == 50
    assert sorted(name for shard in shards for name in shard) == sorted(NAMES[:50])
    assert [len(shard) > 5 for shard in shards] == [True] * 3


def test_what_is_defined_later_is_of_one_shard() -> None:
    shards = [ShardClusters(index, 2) for index in range(2)]
    changes: list[str] = []
    for shard in shards:
        shard.changed.subscribe(lambda _, new: changes.append(new.name if new else ""))
        shard.everywhere.put(VirtualCluster(name="branch-1"))
    assert changes == ["branch-1"]
    assert [list(shard) for shard in shards].count(["branch-1"]) == 1


def test_process_that_takes_any_shard_has_none_before() -> None:
    shard = ShardClusters(None, 2)
    shard.everywhere.replace_all(VirtualCluster(name=name) for name in NAMES[:20])
    assert len(shard) == 0
    shard.take(1)
    assert list(shard) == [name for name in NAMES[:20] if shard_of(name, 2) == 1]


def test_one_shard_is_all_there_is() -> None:
    shard = ShardClusters(0, 1)
    assert shard.everywhere is shard
    assert shard.serves("anything")


def test_join_grants_each_lease_by_its_name() -> None:
    names = re.findall(r'"\$\{agent\}(-\d-of-\d)"', ROLES.read_text())
    assert [f"a{name}" for name in names] == list(lease_names("a"))
    assert lease_name("a", 0, 1) == "a"
