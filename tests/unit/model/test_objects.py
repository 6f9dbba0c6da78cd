"""Reading and copying raw objects."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.model import objects
from karmada_vc_agent.model.objects import GroupVersionKind, Object, ObjectKey

DEPLOYMENT: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "edge", "labels": {"a": "1"}},
    "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}},
}


def test_key_has_group_version_kind_namespace_and_name() -> None:
    assert objects.key_of(DEPLOYMENT) == ObjectKey(
        GroupVersionKind("apps", "v1", "Deployment"), "edge", "web"
    )


def test_key_of_an_empty_object_is_empty() -> None:
    assert objects.key_of({}) == ObjectKey(GroupVersionKind("", "", ""), "", "")


def test_core_kinds_have_no_group() -> None:
    gvk = objects.parse_api_version("v1", "Pod")
    assert gvk == GroupVersionKind("", "v1", "Pod")
    assert gvk.api_version == "v1"
    assert objects.gvk_of(DEPLOYMENT).api_version == "apps/v1"


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        ('{"a": "1", "b": 2, "c": null}', {"a": "1"}),
        ("[1]", {}),
        ("", {}),
        ("{", {}),
        ("[" * 100_000, {}),
        (5, {}),
    ],
)
def test_what_an_annotation_records_is_read_as_far_as_it_is_valid(
    text: Any, recorded: dict[str, str]
) -> None:
    obj = {"metadata": {"annotations": {"x": text}}}
    assert objects.recorded_in(obj, "x", str) == recorded
    assert objects.recorded_in({}, "x", str) == {}


def test_key_reads_as_kind_and_name() -> None:
    assert str(objects.key_of(DEPLOYMENT)) == "Deployment edge/web"
    assert str(ObjectKey(GroupVersionKind("", "v1", "Node"), "", "n1")) == "Node n1"


def test_labels_and_annotations_are_empty_where_there_are_none() -> None:
    assert objects.labels_of(DEPLOYMENT) == {"a": "1"}
    assert objects.annotations_of(DEPLOYMENT) == {}
    assert objects.labels_of({"metadata": {"labels": None}}) == {}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "template", "spec", "containers", 0, "name"), "c"),
        (("spec", "template", "spec", "containers", 1, "name"), None),
        (("spec", "missing", "spec"), None),
        (("kind", "deeper"), None),
    ],
)
def test_dig_follows_keys_and_indices(path: tuple[str | int, ...], value: Any) -> None:
    assert objects.dig(DEPLOYMENT, *path) == value


def test_values_at_yields_every_element_with_its_path() -> None:
    obj = {"spec": {"tasks": [{"t": 1}, {"t": 2}, {}], "roles": {"x": {"t": 3}}}}
    assert list(objects.values_at(obj, "spec.tasks[].t")) == [
        ("spec.tasks[0].t", 1),
        ("spec.tasks[1].t", 2),
    ]
    assert list(objects.values_at(obj, "spec.roles{}.t")) == [('spec.roles["x"].t', 3)]
    assert list(objects.values_at(obj, "spec.absent.t")) == []


def test_put_copies_only_the_path() -> None:
    before = copy.deepcopy(DEPLOYMENT)
    changed = objects.put(DEPLOYMENT, 3, "spec", "replicas")
    assert changed["spec"]["replicas"] == 3
    assert changed["metadata"] is DEPLOYMENT["metadata"]
    assert changed["spec"]["template"] is DEPLOYMENT["spec"]["template"]
    assert before == DEPLOYMENT


def test_put_makes_missing_dicts() -> None:
    assert objects.put({"spec": None}, 1, "spec", "a", "b") == {"spec": {"a": {"b": 1}}}


def test_put_refuses_to_replace_what_is_no_map() -> None:
    with pytest.raises(ValueError, match=r"^spec is str, not a map$"):
        objects.put({"spec": "text"}, 1, "spec", "a")


def test_drop_removes_one_key_and_copies_only_the_path() -> None:
    before = copy.deepcopy(DEPLOYMENT)
    changed = objects.drop(DEPLOYMENT, "metadata", "labels", "a")
    assert changed["metadata"]["labels"] == {}
    assert changed["spec"] is DEPLOYMENT["spec"]
    assert before == DEPLOYMENT


@pytest.mark.parametrize("path", [("absent",), ("metadata", "absent", "x"), ("kind", "x")])
def test_drop_returns_the_object_itself_where_nothing_is(path: tuple[str, ...]) -> None:
    assert objects.drop(DEPLOYMENT, *path) is DEPLOYMENT


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(json_values)
def test_copy_is_equal_and_shares_no_container(value: Any) -> None:
    copied = objects.copy_object(value)
    assert copied == value
    if isinstance(value, dict | list):
        assert copied is not value
        copied.clear()
        assert value == copy.deepcopy(value)


def test_copy_is_deep() -> None:
    copied = objects.copy_object(DEPLOYMENT)
    copied["spec"]["template"]["spec"]["containers"][0]["name"] = "changed"
    assert DEPLOYMENT["spec"]["template"]["spec"]["containers"][0]["name"] == "c"
