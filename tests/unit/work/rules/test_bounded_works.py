"""Which Works are within the bounds: the oldest that fit, whatever came in which order."""

import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.model.quantity import Size
from karmada_vc_agent.model.virtual_cluster import (
    BYTES_BOUND,
    KINDS_BOUND,
    MANIFESTS_BOUND,
    SHARED_OBJECTS_BOUND,
    WORKS_BOUND,
    Bounds,
)
from karmada_vc_agent.work.memory_bounds import BoundedWorks, measure
from karmada_vc_agent.work.works import Measure

NONE = Bounds(0, Size(0), 0, 0, 0)


def kind(letter: str) -> GroupVersionKind:
    return GroupVersionKind("example.com", "v1", letter)


def put(works: BoundedWorks, name: str, created: str, **parts: Any) -> list[str]:
    """Put a Work; size: bytes. kinds, shared: letters. count: of manifests."""
    measured = Measure(
        parts.get("size", 1),
        parts.get("count", 1),
        tuple(kind(letter) for letter in parts.get("kinds", "")),
        tuple(("g", "Class", letter) for letter in parts.get("shared", "")),
    )
    return works.put(name, created, f"uid of {name}", parts.get("generation", 1), measured)


def problems(works: BoundedWorks, names: str) -> dict[str, str]:
    return {name: works.problem(name) for name in names if works.problem(name)}


def test_the_oldest_works_are_in() -> None:
    works = BoundedWorks(Bounds(works=2))
    put(works, "a", "3")
    put(works, "b", "1")
    assert problems(works, "ab") == {}
    assert put(works, "c", "2") == ["a"]
    assert problems(works, "abc") == {"a": WORKS_BOUND}
    assert works.met() == [WORKS_BOUND]
    assert works.remove("b", "uid of b") == ["a"]
    assert problems(works, "ac") == {}
    assert works.met() == []


def test_of_one_time_the_name_decides() -> None:
    works = BoundedWorks(Bounds(works=1))
    put(works, "b", "1")
    put(works, "a", "1")
    assert problems(works, "ab") == {"b": WORKS_BOUND}


def test_a_work_that_does_not_fit_closes_the_line() -> None:
    works = BoundedWorks(Bounds(bytes=Size(10)))
    put(works, "a", "1", size=6)
    put(works, "b", "2", size=5)
    put(works, "c", "3", size=1)
    assert problems(works, "abc") == {"b": BYTES_BOUND, "c": BYTES_BOUND}
    assert works.remove("b", "uid of b") == ["c"]


def test_a_work_that_grows_puts_out_the_youngest() -> None:
    works = BoundedWorks(Bounds(bytes=Size(10)))
    for number, name in enumerate("abc"):
        put(works, name, str(number), size=3)
    assert put(works, "a", "0", size=5, generation=2) == ["c"]
    assert problems(works, "abc") == {"c": BYTES_BOUND}
    assert put(works, "a", "0", size=3, generation=3) == ["c"]


def test_a_work_of_too_many_manifests_is_out_by_itself_alone() -> None:
    works = BoundedWorks(Bounds(manifests_per_work=2, works=1))
    put(works, "a", "1", count=3)
    put(works, "b", "2", count=2)
    assert problems(works, "ab") == {"a": MANIFESTS_BOUND}
    assert works.met() == [MANIFESTS_BOUND]


def test_kinds_are_in_by_the_oldest_work_that_has_them() -> None:
    works = BoundedWorks(Bounds(kinds=2))
    put(works, "a", "1", kinds="XY")
    assert put(works, "b", "2", kinds="YZ") == []
    assert [works.kinds.is_in(kind(letter)) for letter in "XYZ"] == [True, True, False]
    assert works.met() == [KINDS_BOUND]
    assert works.remove("a", "uid of a") == ["b"]
    assert works.kinds.is_in(kind("Z"))


def test_an_older_work_with_a_new_kind_puts_out_that_of_the_youngest() -> None:
    works = BoundedWorks(Bounds(kinds=2))
    put(works, "b", "2", kinds="X")
    put(works, "c", "3", kinds="Y")
    assert put(works, "a", "1", kinds="Z") == ["c"]
    assert [works.kinds.is_in(kind(letter)) for letter in "XYZ"] == [True, False, True]


def test_kinds_of_works_that_are_out_do_not_count() -> None:
    works = BoundedWorks(Bounds(works=1, kinds=1))
    put(works, "b", "2", kinds="X")
    put(works, "a", "1", kinds="Y")
    assert problems(works, "ab") == {"b": WORKS_BOUND}
    assert works.kinds.is_in(kind("Y"))
    assert works.met() == [WORKS_BOUND]


def test_shared_objects_have_a_bound() -> None:
    works = BoundedWorks(Bounds(shared_objects=1))
    put(works, "a", "1", shared="p")
    put(works, "b", "2", shared="q")
    assert works.shared.is_in(("g", "Class", "p"))
    assert not works.shared.is_in(("g", "Class", "q"))
    assert works.met() == [SHARED_OBJECTS_BOUND]


def test_zero_is_no_bound() -> None:
    works = BoundedWorks(NONE)
    for number in range(50):
        name = f"w{number}"
        put(works, name, "1", size=2**30, count=10**6, kinds=[name], shared=[name])
        assert works.problem(name) == ""
        assert works.kinds.is_in(kind(name))
    assert works.met() == []


def test_the_end_of_an_earlier_work_of_that_name_changes_nothing() -> None:
    works = BoundedWorks(Bounds(works=1))
    put(works, "a", "1")
    assert works.remove("a", "uid of an earlier one") == []
    assert works.uids() == {"a": "uid of a"}


def test_measured_work_is_not_measured_again() -> None:
    works = BoundedWorks(Bounds())
    put(works, "a", "1", size=7)
    found = works.measured("a", "uid of a", 1)
    assert found is not None
    assert found.byte_count == 7
    assert works.measured("a", "uid of a", 2) is None
    assert works.measured("a", "another", 1) is None


_WORK = st.tuples(
    st.sampled_from("abcdefgh"),
    st.sampled_from("123"),
    st.integers(1, 6),
    st.lists(st.sampled_from("UVWXYZ"), max_size=3, unique=True),
)


@given(st.lists(st.one_of(_WORK, st.sampled_from("abcdefgh")), max_size=40), st.randoms())
def test_only_the_present_state_decides_and_every_change_is_reported(
    steps: list[Any], order: random.Random
) -> None:
    bounds = Bounds(works=4, bytes=Size(12), kinds=3, shared_objects=2)
    works, there = BoundedWorks(bounds), dict[str, tuple[str, int, list[str]]]()
    for number, step in enumerate(steps):
        before = {name: _seen(works, name, parts) for name, parts in there.items()}
        if isinstance(step, str):
            told = works.remove(step, f"uid of {step}")
            there.pop(step, None)
            own = step
        else:
            own, created, size, kinds = step
            there[own] = (created, size, kinds)
            told = put(
                works, own, created, size=size, kinds=kinds, shared=kinds, generation=number + 1
            )
        after = {name: _seen(works, name, parts) for name, parts in there.items()}
        moved = {name for name in after if before.get(name) != after[name]} - {own}
        assert moved <= set(told)
    again = BoundedWorks(bounds)
    names = list(there)
    order.shuffle(names)
    for name in names:
        created, size, kinds = there[name]
        put(again, name, created, size=size, kinds=kinds, shared=kinds)
    for name, parts in there.items():
        assert _seen(works, name, parts) == _seen(again, name, parts)
        assert works.problem(name) == again.problem(name)
    assert works.met() == again.met()


def _seen(works: BoundedWorks, name: str, parts: tuple[str, int, list[str]]) -> object:
    if works.problem(name):
        return "out"  # for which bound may change with others; nobody is told of that
    return [(works.kinds.is_in(kind(x)), works.shared.is_in(("g", "Class", x))) for x in parts[2]]


def test_works_over_a_bound_cost_no_more_the_more_there_are() -> None:
    """A list of Works must not take the loop from other virtual clusters."""
    works, began = BoundedWorks(Bounds()), time.process_time()
    for number in range(3000):
        kinds = [f"K{number % 150}"]
        put(works, f"{number:04}", f"{3000 - number:04}", kinds=kinds)
    assert works.met() == [KINDS_BOUND]
    assert time.process_time() - began < 1.0


# --- measures --------------------------------------------------------------------------------


def manifest(api_version: Any = "v1", kind: Any = "ConfigMap", name: Any = "x") -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


def test_measure_of_manifests() -> None:
    shares = kind("Class")
    found = measure(
        [manifest(), manifest(name="y"), manifest("example.com/v1", "Class", "gold")],
        lambda gvk: gvk == shares,
    )
    assert found.manifest_count == 3
    assert found.kinds == (GroupVersionKind("", "v1", "ConfigMap"), shares)
    assert found.shared == (("example.com", "Class", "gold"),)
    assert found.byte_count > 150


@pytest.mark.parametrize(
    "manifests",
    [None, {}, "text", 7, [None], [[]], [{}], [manifest(api_version=[])], [manifest(kind=None)],
     [{"apiVersion": "v1", "kind": "K", "metadata": []}], [manifest(name={})]],
)  # fmt: skip
def test_manifests_of_any_shape_are_measured(manifests: Any) -> None:
    assert measure(manifests, lambda _: True).shared == ()


def test_manifests_that_cannot_be_written_are_measured() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"x": deep}
    assert measure([deep], lambda _: False).byte_count > 100_000 * 100
