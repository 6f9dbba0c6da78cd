"""JSON patches, with the examples of RFC 6902, appendix A."""

from typing import Any

import pytest

from karmada_vc_agent.model.objects import apply_json_patch


def op(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more}


@pytest.mark.parametrize(
    ("document", "operation", "expected"),
    [
        ({"foo": "bar"}, op("add", "/baz", value="qux"), {"baz": "qux", "foo": "bar"}),
        ({"foo": [1, 3]}, op("add", "/foo/1", value=2), {"foo": [1, 2, 3]}),
        ({"foo": [1]}, op("add", "/foo/-", value=[2]), {"foo": [1, [2]]}),
        ({"foo": 1}, op("add", "/foo", value=None), {"foo": None}),
        ({"foo": 1, "bar": 2}, op("remove", "/bar"), {"foo": 1}),
        ({"foo": [1, 2, 3]}, op("remove", "/foo/1"), {"foo": [1, 3]}),
        ({"foo": 1}, op("replace", "/foo", value=2), {"foo": 2}),
        ({"foo": [1, 2]}, op("replace", "/foo/1", value=9), {"foo": [1, 9]}),
        (
            {"a": {"b": 1}, "c": {}},
            op("move", "/c/d", **{"from": "/a/b"}),
            {"a": {}, "c": {"d": 1}},
        ),
        ({"a": [1, 2, 3]}, op("move", "/a/2", **{"from": "/a/0"}), {"a": [2, 3, 1]}),
        ({"a": {"b": [1]}}, op("copy", "/c", **{"from": "/a"}), {"a": {"b": [1]}, "c": {"b": [1]}}),
        ({"a/b": 1, "m~n": 2}, op("replace", "/a~1b", value=3), {"a/b": 3, "m~n": 2}),
        ({"a/b": 1, "m~n": 2}, op("remove", "/m~0n"), {"a/b": 1}),
        ({"a": [1, {"b": 2}]}, op("test", "/a", value=[1, {"b": 2}]), {"a": [1, {"b": 2}]}),
        ({"~1": 10}, op("test", "/~01", value=10), {"~1": 10}),
        ({"a": 1}, op("replace", "", value={"b": 2}), {"b": 2}),
    ],
)
def test_an_operation_is_applied(document: Any, operation: Any, expected: Any) -> None:
    before = repr(document)
    assert apply_json_patch(document, [operation]) == expected
    assert repr(document) == before


@pytest.mark.parametrize(
    "operation",
    [
        op("remove", "/none"),
        op("replace", "/none", value=1),
        op("add", "/none/deeper", value=1),
        op("add", "/list/5", value=1),
        op("add", "/list/01", value=1),
        op("remove", "/list/-"),
        op("replace", "/text/0", value="x"),
        op("test", "/number", value=2),
        op("test", "/number", value=True),
        op("test", "/number", value="1"),
        op("move", "/map/inner", **{"from": "/map"}),
        op("copy", "/x", **{"from": "/none"}),
        op("copy", "/x"),
        op("add", "/x"),
        op("spam", "/number"),
        op("remove", ""),
        op("remove", "number"),
        {"op": "remove"},
        "remove",
    ],
)
def test_an_operation_that_does_not_fit_is_an_error(operation: Any) -> None:
    document = {"number": 1, "text": "x", "list": [1], "map": {}}
    with pytest.raises(ValueError, match=r"."):
        apply_json_patch(document, [op("add", "/first", value=1), operation])
    assert "first" not in document


def test_a_patch_that_is_no_list_is_an_error() -> None:
    with pytest.raises(ValueError, match="list of operations"):
        apply_json_patch({}, {"op": "add"})


def test_a_copied_value_is_a_copy() -> None:
    patch = [op("copy", "/b", **{"from": "/a"}), op("add", "/b/x", value=1)]
    assert apply_json_patch({"a": {}}, patch) == {"a": {}, "b": {"x": 1}}
