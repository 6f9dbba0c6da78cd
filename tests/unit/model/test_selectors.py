"""Label selectors."""

import pytest

from karmada_vc_agent.model import virtual_cluster
from karmada_vc_agent.model.virtual_cluster import LabelSelector, Operator, Requirement


@pytest.mark.parametrize(
    ("operator", "values", "labels", "expected"),
    [
        ("In", ["a", "b"], {"k": "a"}, True),
        ("In", ["a", "b"], {"k": "c"}, False),
        ("In", ["a"], {}, False),
        ("NotIn", ["a"], {"k": "b"}, True),
        ("NotIn", ["a"], {"k": "a"}, False),
        ("NotIn", ["a"], {}, True),
        ("Exists", [], {"k": ""}, True),
        ("Exists", [], {"x": ""}, False),
        ("DoesNotExist", [], {"k": ""}, False),
        ("DoesNotExist", [], {}, True),
    ],
)
def test_requirement_matches_as_in_kubernetes(
    operator: Operator, values: list[str], labels: dict[str, str], expected: bool
) -> None:
    assert Requirement("k", operator, frozenset(values)).matches(labels) is expected


def test_selector_needs_labels_and_expressions() -> None:
    selector = LabelSelector({"region": "north"}, (Requirement("gpu", "Exists"),))
    assert selector.matches({"region": "north", "gpu": "1"})
    assert not selector.matches({"region": "north"})
    assert not selector.matches({"gpu": "1"})


def test_an_empty_selector_requires_nothing() -> None:
    assert not LabelSelector()
    assert LabelSelector({"a": "b"})
    assert LabelSelector(match_expressions=(Requirement("a", "Exists"),))


@pytest.mark.parametrize("key", ["a", "app.kubernetes.io/name", "example.com/A_b.c", "x" * 63])
def test_good_label_keys_have_no_problem(key: str) -> None:
    assert virtual_cluster.label_key_problem(key) is None


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "-a", "a-", "x" * 64, "Upper.com/a", "a/b/c", "x" * 254 + "/a", "a b"]
)
def test_bad_label_keys_are_named(key: str) -> None:
    problem = virtual_cluster.label_key_problem(key)
    assert problem is not None
    assert f'"{key}"' in problem


@pytest.mark.parametrize("value", ["", "north", "a.b_c-1", "x" * 63])
def test_good_label_values_have_no_problem(value: str) -> None:
    assert virtual_cluster.label_value_problem(value) is None


@pytest.mark.parametrize("value", ["-a", "a b", "x" * 64, "a/b"])
def test_bad_label_values_are_named(value: str) -> None:
    problem = virtual_cluster.label_value_problem(value)
    assert problem is not None
    assert f'"{value}"' in problem
