"""Merge patches: the examples of RFC 7386, and that they lead where they should."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.model.objects import Object, copy_object, merge_patch


def applied(target: Any, patch: Any) -> Any:
    """Apply a patch, word for word as RFC 7386 section 2 says."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"a": "b", "b": "c"}, {"b": "c"}),
        ({"a": "b"}, {}, {"a": None}),
        ({"a": "b", "b": "c"}, {"b": "c"}, {"a": None}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d"}}, {"a": {"b": "d"}}),
        ({"a": {"b": "c", "d": "e"}}, {"a": {"d": "e"}}, {"a": {"b": None}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": {"b": "c"}}, {"a": 1}, {"a": 1}),
        ({}, {"a": {"b": {}}}, {"a": {"b": {}}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}),
        ({"a": [1, 2]}, {"a": [1, 2]}, {}),
        ({"a": 1}, {"a": 1}, {}),
    ],
)
def test_patch_names_only_what_differs(old: Object, new: Object, patch: Object) -> None:
    assert merge_patch(old, new) == patch
    assert applied(old, patch) == new


LEAVES = st.one_of(st.integers(0, 3), st.text("ab", max_size=2), st.booleans())
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(OBJECTS, OBJECTS)
def test_patch_leads_from_old_to_new_and_changes_neither(old: Object, new: Object) -> None:
    before = copy_object([old, new])
    assert applied(old, merge_patch(old, new)) == new
    assert [old, new] == before


@given(OBJECTS)
def test_patch_of_equal_objects_is_empty(old: Object) -> None:
    assert merge_patch(old, copy_object(old)) == {}
