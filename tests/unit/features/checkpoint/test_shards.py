"""Which Secret has what."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.features.checkpoint.entries import (
    LARGEST_SECRET,
    cluster_of_key,
    head_key,
    left_out,
    part_of,
    parts_for,
    place_of,
    works_key,
)
from karmada_vc_agent.model.vocabulary import CHECKPOINT_SECRETS, secret_names


def test_names_are_the_same_whatever_is_saved() -> None:
    names = secret_names("agent")
    assert len(set(names)) == CHECKPOINT_SECRETS
    assert names[0] == "agent-checkpoint-0"


@given(st.text(max_size=60), st.sampled_from([1, 2, 8, 512]))
def test_each_work_has_one_part(name: str, parts: int) -> None:
    assert 0 <= part_of(name, parts) < parts


def test_parts_are_about_equal() -> None:
    counted = Counter(part_of(f"work-{n}", 64) for n in range(10_000))
    assert len(counted) == 64
    assert max(counted.values()) < 2 * 10_000 / 64


def test_few_works_lie_in_the_secret_of_their_cluster() -> None:
    assert parts_for(0) == parts_for(32) == 1
    assert {place_of("a", part) for part in range(CHECKPOINT_SECRETS)} == set(
        range(CHECKPOINT_SECRETS)
    )


def test_ten_thousand_works_are_split() -> None:
    assert parts_for(10_000) == 512


def test_few_works_more_or_less_reshard_nothing() -> None:
    parts = parts_for(33)
    assert parts == 2
    assert parts_for(30, parts) == parts
    assert parts_for(32, 8) == 1


def test_a_key_says_whose_it_is() -> None:
    assert cluster_of_key(head_key("branch-a")) == "branch-a"
    assert cluster_of_key(works_key("branch-a", 4, 2)) == "branch-a"
    assert cluster_of_key("rules") == ""


def test_all_stays_where_there_is_space() -> None:
    assert left_out({head_key("a"): 500, works_key("a", 1, 0): LARGEST_SECRET - 500}) == frozenset()


def test_the_largest_cluster_gives_way() -> None:
    sizes = {
        head_key("small"): 500,
        works_key("small", 1, 0): 90_000,
        head_key("large"): 500,
        works_key("large", 2, 0): 300_000,
        works_key("large", 2, 1): 350_000,
        "rules": 10_000,
    }
    assert left_out(sizes) == {works_key("large", 2, 1)}


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abc"), st.integers(0, 7)), st.integers(1, 400_000), max_size=20
    )
)
def test_what_stays_fits(sizes: dict[tuple[str, int], int]) -> None:
    by_key = {works_key(name, 8, part): size for (name, part), size in sizes.items()}
    gone = left_out(by_key)
    assert sum(size for key, size in by_key.items() if key not in gone) <= LARGEST_SECRET
