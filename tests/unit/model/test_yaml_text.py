"""YAML texts: what is read, and what is refused with the line."""

import pytest

from karmada_vc_agent.model import user_text


def problem(text: str) -> str:
    with pytest.raises(user_text.YamlError) as raised:
        user_text.load_yaml(text.encode())
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", 'line 3: "a" is set twice, first in line 1; keep one of them'),
        ("{a: 1, 'a': 2}", 'line 1: "a" is set twice, first in line 1; keep one of them'),
        ("l:\n- x: {}\n- k: 1\n  k: 1\n", 'line 4: "k" is set twice, first in line 3; keep one'),
        ("a:\n  b: 1\n  b: 1\na: 1\n", 'line 4: "a" is set twice, first in line 1; keep one'),
    ],
)
def test_key_that_is_set_twice_is_refused_with_its_line(text: str, expected: str) -> None:
    assert problem(text).startswith(expected)


def test_keys_of_different_mappings_and_types_may_be_alike() -> None:
    assert user_text.load_yaml(b"a: {a: 1}\nl: [{a: 1}, {a: 2}]\n1: x\n'1': y\n") == {
        "a": {"a": 1},
        "l": [{"a": 1}, {"a": 2}],
        1: "x",
        "1": "y",
    }


def test_merged_keys_may_be_set_again_however_often_they_are_merged() -> None:
    text = b"a: &a {x: 1}\nb: &b {<<: *a, x: 2}\nc: {<<: *b, x: 3}\nd: {<<: *b}\n"
    assert user_text.load_yaml(text) == {"a": {"x": 1}, "b": {"x": 2}, "c": {"x": 3}, "d": {"x": 2}}


def test_mapping_that_holds_itself_is_read() -> None:
    found = user_text.load_yaml(b"&all {a: *all}")
    assert found["a"] is found


def test_nothing_is_read_as_nothing() -> None:
    assert user_text.load_yaml(b"") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: [1\n", "not valid YAML: line 3, column 1: while parsing a flow sequence"),
        ("a: b: c", "not valid YAML: line 1, column 5: mapping values are not allowed"),
        ("a: 1\n---\nb: 1\n", "not valid YAML: line 2, column 1: expected a single document"),
        ("\x00", "not valid YAML: control characters are not allowed at position"),
        ("a: 2024-99-99", "not valid YAML: month must be in 1..12"),
        ("? [a]\n: 1", "not valid YAML: line 1, column 3: while constructing a mapping"),
    ],
)
def test_text_that_is_no_yaml_is_reported_with_its_place(text: str, expected: str) -> None:
    found = problem(text)
    assert found.startswith(expected)
    assert "byte string" not in found
