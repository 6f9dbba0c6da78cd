"""Values as a script sees them; what gopher-lua and Karmada's conversion answer."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karmada_vc_agent.interpretation import lua_values
from karmada_vc_agent.interpretation.lua_values import empties, settle
from karmada_vc_agent.model.objects import Object


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": None, "b": 1}, {"b": 1}),
        ([None, 1, None, 2], [1, 2]),
        ([], {}),
        ([None], {}),
        ({"a": [[]]}, {"a": [{}]}),
        (1.0, 1),
        (1.5, 1.5),
        (2**53 + 1, 2**53),
        (True, True),
        ("1", "1"),
        (None, None),
    ],
)
def test_a_table_has_no_nulls_no_empty_lists_and_floats(value: Any, expected: Any) -> None:
    table = lua_values.to_table(value)
    assert table == expected
    assert type(table) is type(expected)


@pytest.mark.parametrize(
    ("value", "path", "expected"),
    [
        ({"a": {"b": 1}}, ("a", "b"), 1),
        ({"a": {}}, ("a", "b"), None),
        ({"a": ["b"]}, ("a", "b"), None),
        ({"a": "text"}, ("a", "b"), None),
        ({"a": "text"}, ("a",), "text"),
    ],
)
def test_read(value: Any, path: tuple[str, ...], expected: Any) -> None:
    assert lua_values.read(value, *path) == expected


@pytest.mark.parametrize("value", [{}, {"b": 1}, {"b": False}])
def test_what_has_no_fields_cannot_be_read(value: Object) -> None:
    with pytest.raises(ValueError, match=r"cannot read a\.b\.c"):
        lua_values.read({"a": value}, "a", "b", "c")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        (" \t7\n", 7),
        ("-7", -7),
        ("0x1F", 31),
        ("1.5", 1.5),
        ("1.5e2", 150),
        (".5", 0.5),
        ("1e5", None),  # no dot: read as an integer
        ("1_0", None),
        ("9223372036854775808", None),
        ("nan", None),
        ("", None),
        (True, None),
        ({}, None),
    ],
)
def test_to_number(text: Any, expected: float | None) -> None:
    assert lua_values.to_number(text) == expected


def test_an_empty_field_is_what_it_was_before_or_nothing() -> None:
    result = {"spec": {"a": {}, "b": {}, "c": {}, "list": [{"a": {}}, {}], "kept": 0}}
    first: Object = {"spec": {"a": {}, "list": [{"a": 1}, {"a": []}]}}
    second: Object = {"spec": {"a": [], "b": []}}
    assert settle(result, *empties((first, second))) == {
        "spec": {"a": {}, "b": [], "list": [{"a": []}], "kept": 0}
    }


json_values = st.recursive(
    st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text("ab"), json_values, max_size=4))
def test_object_without_nulls_returns_as_the_same_tables(obj: Object) -> None:
    table = lua_values.to_table(obj)
    assert lua_values.to_table(settle(table, *empties((obj,)))) == table
