"""Differences between two objects, field by field."""

from typing import Any

import pytest

from karmada_vc_agent.install.apply_objects import Changes, differences, fields_of, without_fields
from karmada_vc_agent.model.objects import Object


def obj(kind: str = "ConfigMap", **fields: Any) -> Object:
    metadata = fields.pop("metadata", {"name": "x", "namespace": "y"})
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": "1"}, ['.spec.a: 1 -> "1"']),
        ({}, {"a": True}, [".spec: {} -> absent", ".spec.a: absent -> true"]),
        ({"a": 1, "b": 2}, {"b": 2}, [".spec.a: 1 -> absent"]),
        ({"l": ["a", "b"]}, {"l": ["a", "c"]}, [".spec.l:", "  - b", "  + c"]),
        (
            {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
            {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]},
            [
                ".spec.rules:",
                '  - {apiGroups: [""], resources: [pods], verbs: [get]}',
                '  + {apiGroups: [""], resources: [pods], verbs: [get, list]}',
            ],
        ),
        (
            {"c": [{"name": "a", "x": 1}, {"name": "b", "x": 1}]},
            {"c": [{"name": "b", "x": 2}, {"name": "a", "x": 1}]},
            ['.spec.c[name="b"].x: 1 -> 2'],
        ),
        ({"t": "a\nb\nc\n"}, {"t": "a\nB\nc\n"}, [".spec.t:", "  - b", "  + B"]),
        ({"t": "x" * 200}, {"t": "y"}, [f'.spec.t: "{"x" * 159}... -> "y"']),
        (
            {"l": ["x" * 160 + "y"]},
            {"l": ["x" * 160 + "z"]},
            [".spec.l:", f"  - {'x' * 160}...", f"  + {'x' * 160}..."],
        ),
    ],
)
def test_each_field_that_differs_is_a_line(old: Object, new: Object, lines: list[str]) -> None:
    assert differences(obj(spec=old), obj(spec=new)) == lines


def test_what_the_server_keeps_is_no_difference() -> None:
    old = obj(metadata={"name": "x", "resourceVersion": "1", "generation": 1, "managedFields": []})
    new = obj(metadata={"name": "x", "resourceVersion": "2", "uid": "u"}, status={"a": 1})
    assert differences(old, new) == []


def test_values_of_secrets_are_not_shown() -> None:
    lines = differences(obj("Secret", data={"k": "b2xk"}), obj("Secret", data={"k": "bmV3"}))
    assert lines == [".data.k: changed (not shown)"]


def test_fields_are_left_out_by_their_paths() -> None:
    value = {"a": {"b": 1, "c": 2}, "l": [{"name": "n", "x": 1, "y": 2}], "m": [1]}
    left_out = frozenset({".a.b", '.l[name="n"].x'})
    left = without_fields(value, left_out)
    assert left == {"a": {"c": 2}, "l": [{"name": "n", "y": 2}], "m": [1]}
    assert left_out.isdisjoint(dict(fields_of(left)))


def test_changes_are_counted_and_their_details_indented() -> None:
    lines: list[str] = []
    changes = Changes(lines.append)
    changes.report("one", ["detail"])
    changes.report("two")
    assert lines == ["one\n    detail", "two"]
    assert changes.count == 2
