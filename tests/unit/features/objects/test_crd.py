"""The CRD: made of the settings, as strict as a settings file, and bounded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from e2e.lab.bad_definitions import BAD, BAD_NAMES, NODES
from generate.crd_file import EXTRA, ITEMS, definition, rules_in, text
from karmada_vc_agent.access import templates
from karmada_vc_agent.config.checks import problems, raise_first
from karmada_vc_agent.config.decoding import ConfigError, decode
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.model.objects import dig
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

ROOT = Path(__file__).parents[4]
CRD = "features/objects/crd.yaml"
FILES = (ROOT / "manifests" / "base" / "crd.yaml", ROOT / "karmada_vc_agent" / CRD)
SCHEMA = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SPEC = SCHEMA["properties"]["spec"]


def check_settings(name: str, spec: dict[str, Any]) -> None:
    """Raise ConfigError where a settings file could not have this virtual cluster."""
    settings = {"virtualClusters": [{"name": name, **spec}]}
    raise_first(problems(decode(settings, AgentConfig, "file")), "file")


@pytest.mark.parametrize("file", FILES)
def test_file_is_up_to_date(file: Path) -> None:
    assert file.read_text() == text(), "run hack/update-manifests"


def test_join_installs_what_the_file_says() -> None:
    assert templates.document(CRD, {}) == definition()


def test_each_setting_of_a_virtual_cluster_is_a_field() -> None:
    keys = {field.encode_name for field in msgspec.structs.fields(VirtualCluster)} - {"name"}
    assert keys == SPEC["properties"].keys() - {"deletionPolicy"}


@pytest.mark.parametrize(("spec", "told"), BAD.values(), ids=BAD)
def test_what_the_server_refuses_a_settings_file_may_not_have(
    spec: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError):
        check_settings("south", spec)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_of_objects_are_those_of_clusters(name: str) -> None:
    check_settings("a" * 48, NODES)
    with pytest.raises(ConfigError):
        check_settings(name, NODES)


def test_each_rule_has_a_message_of_its_own() -> None:
    rules = rules_in(SCHEMA)
    assert len(rules) > 20
    assert all(rule["message"] for rule in rules)


def test_extra_schema_keys_exist_in_the_schema() -> None:
    keys = {key.partition(".")[2].removesuffix("[]") for key in (*EXTRA, *ITEMS)} - {""}
    assert keys <= set(_properties(SPEC))


def test_everything_has_a_bound() -> None:
    """Without one the server takes the cost of a rule for what the largest object would cost."""
    for place, schema in _places(SPEC, "spec"):
        kind = schema.get("type")
        if kind == "array":
            assert "maxItems" in schema, place
        elif kind == "string" and "enum" not in schema:
            assert "maxLength" in schema, place
        elif kind == "object" and "additionalProperties" in schema:
            assert "maxProperties" in schema, place


def test_rules_are_about_what_has_a_bound() -> None:
    """API servers before 1.34 take an integer or a string for one as long as a request."""
    for place, schema in _places(SPEC, "spec"):
        if "x-kubernetes-int-or-string" in schema:
            assert "x-kubernetes-validations" not in schema, place


def test_printer_columns_are_those_of_the_status() -> None:
    columns = definition()["spec"]["versions"][0]["additionalPrinterColumns"]
    names = [column["name"].upper() for column in columns if not column.get("priority")]
    assert names == ["READY", "NODES", "WORKS", "FAILED", "HUB", "AGE", "MESSAGE"]
    assert [column["name"] for column in columns[len(names) :]] == ["Phase"]
    for column in columns:
        first, *path = column["jsonPath"].removeprefix(".").split(".")
        if first == "status" and "[" not in path[0]:
            found = SCHEMA["properties"]["status"]
            for name in path:
                found = dig(found, "properties", name)
            assert found["type"] == column["type"], column


def _properties(schema: dict[str, Any]) -> Iterator[str]:
    for _, found in _places(schema, ""):
        yield from found.get("properties", {})


def _places(schema: dict[str, Any], place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield place, schema
    for name, inner in schema.get("properties", {}).items():
        yield from _places(inner, f"{place}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from _places(schema[key], f"{place}[]")
