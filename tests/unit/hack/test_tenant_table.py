"""docs/tenants.md is complete: each thing that tenants can write has a row, each row an attempt."""

from collections.abc import Iterable, Iterator
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct

from e2e.escapes.table import ATTEMPTS, BY_PROFILE
from karmada_vc_agent.access.admission import PolicyOwner, desired_policies
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import STRICT, Guard
from karmada_vc_agent.translation.guards import NETWORK_SOURCES, OWN_SOURCES
from karmada_vc_agent.translation.kind_policy import NAMED_GROUPS
from karmada_vc_agent.translation.translate import HostObject, translate
from tenant_table import fields, recording
from tenant_table.__main__ import PAGE
from tenant_table.page import OTHERS, page
from tenant_table.rows import find, of_fields, of_resources, rows
from tests.unit.translation import given

SECURITY = PAGE.with_name("security.md")
RULES = rows()["rules"]


def without_row() -> Iterator[str]:
    """Yield the resources, subresources and fields that nothing is said of."""
    yield from (each.name for each in fields.written() if not find(each.name, of_resources()))
    yield from (each for each in fields.fields() if not find(each, of_fields()))


def test_page_is_up_to_date() -> None:
    is_up_to_date = PAGE.read_text() == page()
    assert is_up_to_date, "run hack/update-tenants"


def test_each_resource_and_field_has_a_row() -> None:
    assert not [*without_row()]


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Let a host serve something else."""
    served = recording.load()
    cached = (fields.recorded, fields.fields, fields.written, fields._granted)
    monkeypatch.setattr(fields, "load", lambda: served)
    for each in cached:
        each.cache_clear()
    yield served
    for each in cached:
        each.cache_clear()


def test_what_kubernetes_adds_has_none(changed: dict[str, Any]) -> None:
    row = {"namespaced": True, "type": "core.Pod", "verbs": ["create", "patch", "update"]}
    changed["resources"]["/pods/teleport"] = row
    changed["resources"]["apps/balloons"] = row
    changed["types"]["core.ServiceSpec"]["teleport"] = "[]string"
    changed["types"]["core.PodSpec"]["neighbourNode"] = "boolean"
    changed["types"]["core.PodSpec"]["isQuick"] = "boolean"
    assert sorted(without_row()) == [
        "/pods/teleport",
        "PodSpec.neighbourNode",
        "ServiceSpec.teleport",
        "apps/balloons",
    ]


def test_no_row_is_left_over_and_a_new_field_of_a_harmless_type_is_looked_at() -> None:
    found = {find(each, of_fields()) for each in fields.fields()}
    assert {*of_fields()} == found
    assert {*of_resources()} == {find(each.name, of_resources()) for each in fields.written()}
    for row in rows()["harmless"]:
        own = {(pattern, row["why"]) for pattern in row["patterns"].split()}
        covered = [each for each in fields.fields() if find(each, of_fields()) in own]
        assert len(covered) == row["fields"], (row["why"], sorted(covered))


def test_each_rule_holds_something_and_is_tried() -> None:
    tried = {attempt.title for attempt in (*ATTEMPTS, *BY_PROFILE)}
    for name, rule in RULES.items():
        assert rule["tried"], name
        assert {*rule["tried"]} <= tried, name
    used = {rule for _, rule in of_resources()}
    used |= {rule for row in rows()["held"] for rule in row}
    others = (*rows()["annotations"], *rows()["believed"].values())
    used |= {row["rule"] for row in others if "rule" in row}
    assert used | {OTHERS} == RULES.keys()


def test_all_groups_of_kubernetes_are_listed() -> None:
    groups = {name.partition("/")[0] for name in fields.recorded()["resources"]}
    assert groups - NAMED_GROUPS == set()


def test_remaining_risks_are_in_the_table_of_the_docs() -> None:
    table = SECURITY.read_text().partition("## What remains\n")[2]
    for name, rule in RULES.items():
        if "remains" in rule:
            assert f"| [{name}](tenants.md#{name.replace(' ', '-')}) | {rule['remains']} |" in table


def test_sources_of_volumes_are_of_the_pod_or_judged() -> None:
    known = {*fields.recorded()["types"]["core.Volume"]}
    assert known == {*NETWORK_SOURCES, *OWN_SOURCES}
    assert not OWN_SOURCES & {*NETWORK_SOURCES}


@pytest.mark.parametrize("row", [row for row in rows()["annotations"] if "guard" in row])
def test_annotations_that_controllers_read_are_caught_by_their_guard(row: dict[str, str]) -> None:
    others = {*Guard} - {row["guard"]}
    for key in row["keys"].split():
        obj = ingress({key: "~^theirs"})
        if row["guard"] == "DefaultClasses":
            obj = ingress({key: "true"})
        assert isinstance(outcome(obj, *Guard), HostObject), key
        assert not isinstance(outcome(obj, *others), HostObject), key


@pytest.mark.parametrize("row", [row for row in rows()["annotations"] if "mapped" in row])
def test_annotations_that_name_objects_of_others_are_mapped(row: dict[str, str]) -> None:
    for key in row["keys"].split():
        found = outcome(ingress({key: "edge/theirs"}))
        assert isinstance(found, HostObject)
        assert found.obj["metadata"]["annotations"][key] == "edge-v-branch-a/theirs", key


def ingress(annotations: dict[str, str]) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "x", "namespace": "edge", "annotations": annotations},
        "spec": {"rules": [{"host": "a.example"}]},
    }


def outcome(obj: Object, *allow: str) -> object:
    context = given.context(vc={"allow": allow}, settings={"tenancy": STRICT})
    return translate(obj, True, context)


@pytest.mark.parametrize("struct", [Node, Pod])
def test_each_field_that_is_believed_of_nodes_has_a_row(struct: type[Struct]) -> None:
    stated = {name for name in rows()["believed"] if name.startswith(f"{struct.__name__}.")}
    assert {*_paths(struct, struct.__name__)} == stated


def _paths(kind: Any, path: str) -> Iterator[str]:
    """Yield the path of each field of a struct that holds no struct itself."""
    inside = [each for each in (kind, *get_args(kind)) if isinstance(each, type)]
    structs = [each for each in inside if get_origin(each) is None and issubclass(each, Struct)]
    if not structs:
        yield path
    for struct in structs:
        for name, hint in get_type_hints(struct).items():
            yield from _paths(hint, f"{path}.{name}")


# --- policies --------------------------------------------------------------------------------


def test_policies_match_each_subresource_that_writes_what_they_match() -> None:
    owner = PolicyOwner("agent", "agents", "user", clusters=("a",), gateway="gateway")
    judged = [
        (policy["metadata"]["name"], policy["spec"]["matchConstraints"]["resourceRules"])
        for policy in desired_policies(owner, {"ValidatingAdmissionPolicy": "v1"})
        if policy["kind"] == "ValidatingAdmissionPolicy"
    ]
    assert judged
    missed = [
        f"{name}: {written}"
        for name, rules in judged
        for written in fields.recorded()["resources"]
        if _is_update(written)
        and any(_matches(rule, written.rpartition("/")[0]) for rule in rules)
        and not any(_matches(rule, written) for rule in rules)
    ]
    assert not missed


def _is_update(name: str) -> bool:
    """Whether a subresource updates the object that it belongs to."""
    verbs = fields.recorded()["resources"][name]["verbs"]
    return name.count("/") == 2 and bool({"update", "patch"} & {*verbs})


def _matches(rule: Object, name: str) -> bool:
    """Whether a rule matches updates of a resource or by a subresource, as an API server reads."""
    group, plural, *parts = name.split("/")
    wanted: Iterable[str] = (plural, "*", "*/*")
    if parts:
        wanted = (f"{plural}/{parts[0]}", f"{plural}/*", f"*/{parts[0]}", "*/*")
    return (
        bool({"UPDATE", "*"} & {*rule["operations"]})
        and bool({group, "*"} & {*rule["apiGroups"]})
        and bool({*wanted} & {*rule["resources"]})
    )
