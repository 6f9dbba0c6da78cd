"""Values as a script sees them; what gopher-lua and Karmada's conversion answer."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karmada_vc_agent.interpretation import lua_values
from karmada_vc_agent.interpretation.lua_values import LuaError
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
        (12345678901234567890, 12345678901234567000),
        (True, True),
        ("1", "1"),
        (None, None),
    ],
)
def test_a_table_has_no_nulls_no_empty_lists_and_floats(value: Any, expected: Any) -> None:
    table = lua_values.to_table(value)
    assert table == expected
    assert type(table) is type(expected)


def test_a_number_beyond_all_floats_is_an_error() -> None:
    with pytest.raises(LuaError, match="too large"):
        lua_values.to_table(10**400)


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


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "cannot read c: a.b is absent, not an object"),
        ({"b": 1}, "cannot read c: a.b is a number, not an object"),
        ({"b": False}, "cannot read c: a.b is a boolean, not an object"),
    ],
)
def test_what_has_no_fields_cannot_be_read(value: Object, message: str) -> None:
    with pytest.raises(LuaError) as failed:
        lua_values.read({"a": value}, "a", "b", "c")
    assert str(failed.value) == message


def test_a_list_or_a_text_has_no_place_for_a_field() -> None:
    for parent in ([1], "text"):
        with pytest.raises(LuaError, match="cannot set b: a is a"):
            lua_values.assign({"a": parent}, 1, "a", "b")


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 1, True),
        (None, None, True),
        (True, 1, False),
        (1, "1", False),
        ({}, {}, False),
        ([1], [1], False),
    ],
)
def test_equality_looks_at_types_and_finds_no_two_tables_equal(
    left: Any, right: Any, expected: object
) -> None:
    assert lua_values.is_equal(left, right) is expected


@pytest.mark.parametrize(("left", "right"), [(None, 1), (1, None), (1, "2"), (True, 2), ({}, {})])
def test_only_two_numbers_or_two_texts_have_an_order(left: Any, right: Any) -> None:
    assert lua_values.is_less(1, 2.5)
    assert lua_values.is_less("a", "b")
    with pytest.raises(LuaError, match="cannot compare"):
        lua_values.is_less(left, right)


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
        ("1.0e999", None),
        ("nan", None),
        ("", None),
        (7, 7),
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
    assert lua_values.to_json(result, first, second) == {
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
    assert lua_values.to_table(lua_values.to_json(table, obj)) == table
