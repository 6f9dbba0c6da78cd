"""Templates: what is filled in and how, what is left out, and that they keep to the constants."""

import re
from importlib import resources
from typing import Any

import pytest
import yaml

from karmada_vc_agent.access import templates
from karmada_vc_agent.access.templates import Fragment
from karmada_vc_agent.model import domain
from karmada_vc_agent.translation import names

FOLDER = resources.files("karmada_vc_agent.access")
FILES = sorted(
    f"policies/{each.name}"
    for each in FOLDER.joinpath("policies").iterdir()
    if each.name.endswith(".yaml")
)


def filled(monkeypatch: pytest.MonkeyPatch, template: Any, **values: Any) -> Any:
    monkeypatch.setattr(templates, "_documents", lambda _: [template])
    [made] = templates.objects("x.yaml", values)
    return made


def test_quoted_placeholders_become_literals_and_others_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    template = {"a": "x == '${user}' || x in ['${users}']", "b": "agent ${user}"}
    made = filled(monkeypatch, template, user="it's", users=("a", "b\\"))
    assert made == {"a": r"x == 'it\'s' || x in ['a', 'b\\']", "b": "agent it's"}
    assert filled(monkeypatch, {"a": "x in ['${users}']"}, users=()) == {"a": "x in []"}


def test_fragments_are_filled_in_themselves_and_values_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = {"part": Fragment("x == '${user}'"), "user": "${part}"}
    assert filled(monkeypatch, {"a": "!(${part})"}, **values) == {"a": "!(x == '${part}')"}


def test_lists_are_spliced_and_items_without_value_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    template = {"names": ["first", "${names}"], "rules": [{"a": {"b": ["${one}"]}}, {"c": "d"}]}
    made = filled(monkeypatch, template, names=("x", "y"), one="1")
    assert made == {"names": ["first", "x", "y"], "rules": [{"a": {"b": ["1"]}}, {"c": "d"}]}


def test_an_item_that_names_a_value_of_none_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    template = {"rules": [{"expression": "!(${held}) || x"}, {"expression": "y"}]}
    assert filled(monkeypatch, template, held=None) == {"rules": [{"expression": "y"}]}


def test_variables_that_nothing_uses_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = [
        {"name": "a", "expression": "1"},
        {"name": "b", "expression": "variables.a"},
        {"name": "c", "expression": "variables.a"},
    ]
    spec = {"variables": variables, "validations": [{"expression": "variables.b == 1"}]}
    made = filled(monkeypatch, {"spec": spec})
    assert [each["name"] for each in made["spec"]["variables"]] == ["a", "b"]


def test_an_unknown_placeholder_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError):
        filled(monkeypatch, {"a": "x ${unknown}"})


@pytest.mark.parametrize("path", FILES)
def test_each_file_is_valid_yaml_with_whole_objects(path: str) -> None:
    for obj in yaml.safe_load_all(FOLDER.joinpath(path).read_text()):
        assert {"apiVersion", "kind", "metadata", "spec"} == set(obj)


@pytest.mark.parametrize("path", [*FILES, "expressions.yaml"])
def test_labels_and_annotations_are_those_of_the_model(path: str) -> None:
    keys = set(re.findall(rf"\b{domain.DOMAIN}/[a-z-]+", FOLDER.joinpath(path).read_text()))
    others = {"virtualclusters", "parameters", "unplaced"}
    assert keys <= domain.MARKS | {f"{domain.DOMAIN}/{each}" for each in others}


def test_names_of_namespaces_are_made_as_translation_makes_them() -> None:
    assert (names.HASH_MARK, names.HASH_LENGTH, names.LABEL_MAX_LENGTH) == ("--", 12, 63)
    assert (names.NAME_SEPARATOR, names.ANCHOR_NAMESPACE) == ("-v-", "vc-system")
