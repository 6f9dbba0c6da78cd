"""Depth: what orjson writes is what counts as writable, and the cheap guess is never too low."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.model.objects import WRITABLE_LEVELS, may_be_deeper_than, size_of
from tests.fakes.any_json import JSON


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return int(isinstance(value, dict | list)) + max((depth(one) for one in inner), default=0)


@given(JSON)
def test_size_is_that_of_the_json_text(value: Any) -> None:
    assert size_of(value) == len(orjson.dumps(value))


@given(JSON, st.integers(0, 6))
def test_what_is_deeper_has_no_size(value: Any, levels: int) -> None:
    assert (size_of(value, levels) is None) == (depth(value) > levels)


@given(JSON, st.integers(0, 6))
def test_the_guess_from_the_text_misses_nothing(value: Any, levels: int) -> None:
    assert may_be_deeper_than(levels, orjson.dumps(value)) or depth(value) <= levels


@pytest.mark.parametrize("levels", [1, 200, WRITABLE_LEVELS])
def test_the_bound_itself_is_in_and_one_more_is_out(levels: int) -> None:
    assert size_of(nested(levels), levels) is not None
    assert size_of(nested(levels + 1), levels) is None


@pytest.mark.parametrize("levels", [WRITABLE_LEVELS + 1, 900])
def test_what_cannot_be_written_has_no_size(levels: int) -> None:
    with pytest.raises(TypeError):
        orjson.dumps(nested(levels))
    assert size_of(nested(levels)) is None


def test_many_neighbours_are_not_deep() -> None:
    value: list[Any] = [{"a": []}] * 500
    assert may_be_deeper_than(WRITABLE_LEVELS, orjson.dumps(value))
    assert size_of(value, 3) == len(orjson.dumps(value))
