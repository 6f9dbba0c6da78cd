"""Templates: what is filled in and how, what is left out, and that they keep to the constants."""

import re
from importlib import resources
from typing import Any

import pytest
import yaml

from karmada_vc_agent.access import templates
from karmada_vc_agent.access.agent_objects import (
    HostInstall,
    base_objects,
    secret_name,
    workload_objects,
)
from karmada_vc_agent.access.rights import HUB_SECRET, HostAccess, host_roles
from karmada_vc_agent.access.templates import Fragment
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.vocabulary import (
    CLUSTER_READER,
    TENANT_ROLES,
    account_role,
    gateway_account,
    gateway_accounts_role,
    gateway_role,
    namespace_role,
)
from karmada_vc_agent.translation import context

FOLDER = resources.files("karmada_vc_agent")


def files(folder: str) -> list[str]:
    return sorted(f"{folder}/{each.name}" for each in FOLDER.joinpath(folder).iterdir())


POLICIES = files("access/policies")
FOLDERS = [each.name for each in FOLDER.joinpath("features").iterdir() if each.is_dir()]
OF_FEATURES = [path for name in sorted(FOLDERS) for path in files(f"features/{name}")]
ROLES = [*files("access/roles"), *(path for path in OF_FEATURES if "roles" in path)]


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


def test_an_object_without_a_value_in_one_of_its_lists_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule = {"resources": ["pods"], "resourceNames": ["${names}"]}
    assert filled(monkeypatch, {"rules": [rule]}, names=None) == {"rules": []}


def test_an_object_is_repeated_for_each_item_of_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    template = {"subjects": [{"kind": "User", "name": "x:${users.name}", "of": ["${users.of}"]}]}
    users = [{"name": "a", "of": ["1", "2"]}, {"name": "b", "of": ["3"]}]
    assert filled(monkeypatch, template, users=users)["subjects"] == [
        {"kind": "User", "name": "x:a", "of": ["1", "2"]},
        {"kind": "User", "name": "x:b", "of": ["3"]},
    ]
    assert filled(monkeypatch, template, users=[]) == {"subjects": []}
    with pytest.raises(ValueError, match="users has other fields than the template: name"):
        filled(monkeypatch, template, users=[{"name": "a"}])


def test_a_whole_object_without_a_value_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [{"kind": "ConfigMap", "data": {"a": "${text}"}}, {"kind": "Secret"}]
    monkeypatch.setattr(templates, "_documents", lambda _: documents)
    assert templates.objects("x.yaml", {"text": None}) == [{"kind": "Secret"}]
    text = " as it is:\n  it's ${text}\n"
    assert templates.objects("x.yaml", {"text": text})[0]["data"] == {"a": text}


def granted(monkeypatch: pytest.MonkeyPatch, text: str, **values: Any) -> Any:
    monkeypatch.setattr(templates, "_texts", lambda _: text.split("\n---\n"))
    templates._documents.cache_clear()
    templates._reasons.cache_clear()
    try:
        return templates.granted([("x.yaml", values)])
    finally:
        templates._documents.cache_clear()
        templates._reasons.cache_clear()


ROLE = "kind: Role\nmetadata: {name: x, namespace: y}\n"


def test_parts_of_a_role_are_put_together_with_their_reasons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = (
        "rules:\n# because\n# of this\n- {verbs: [get]}\n# for each\n- {verbs: ['${more.verbs}']}\n"
    )
    second = "rules:\n# also\n- verbs:\n  - list\n- {verbs: [watch]}\n"
    more = [{"verbs": ["create"]}, {"verbs": ["delete"]}]
    [role], reasons = granted(monkeypatch, f"{ROLE}{first}\n---\n{ROLE}{second}", more=more)
    verbs = [rule["verbs"] for rule in role["rules"]]
    assert verbs == [["get"], ["create"], ["delete"], ["list"], ["watch"]]
    assert reasons == {"Role y/x": ["because of this", "for each", "for each", "also", ""]}


def test_a_rule_for_all_names_is_granted_on_purpose_only(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f'{ROLE}rules:\n- {{verbs: [get], resourceNames: ["${{names}}"]}}\n'
    cases: list[tuple[Any, Any]] = [(("a",), [["a"]]), ((), [None]), (None, [])]
    for given, rules in cases:
        [role], _ = granted(monkeypatch, text, names=given)
        assert [rule.get("resourceNames") for rule in role["rules"]] == rules


@pytest.mark.parametrize("path", ROLES)
def test_each_rule_has_a_reason(path: str) -> None:
    for role, why in zip(templates._documents(path), templates._reasons(path), strict=True):
        name = role["metadata"]["name"]
        if path == "access/roles/unconfined.yaml" and name in TENANT_ROLES.values():
            continue  # what the host's own roles grant
        if name.endswith(":unified-auth"):  # nobody has it
            continue
        assert all(why), name
        assert len(why) == len(role.get("rules", ()))


@pytest.mark.parametrize("path", POLICIES)
def test_each_file_is_valid_yaml_with_whole_objects(path: str) -> None:
    for obj in yaml.safe_load_all(FOLDER.joinpath(path).read_text()):
        assert {"apiVersion", "kind", "metadata", "spec"} == set(obj)


@pytest.mark.parametrize("path", [*POLICIES, *ROLES, "access/expressions.yaml"])
def test_labels_and_annotations_are_those_of_the_model(path: str) -> None:
    keys = set(re.findall(rf"\b{vocabulary.DOMAIN}/[a-z-]+", FOLDER.joinpath(path).read_text()))
    others = {"virtualclusters", "parameters", "unplaced"}
    assert keys <= vocabulary.MARKS | {f"{vocabulary.DOMAIN}/{each}" for each in others}


def test_names_in_templates_are_those_of_the_model() -> None:
    access = HostAccess("a", "home", (), bound_roles=(account_role("a"),), gateway_callers=())
    install = HostInstall("a", "home", "", kubeconfig="x", gateway_port=1)
    made = [*host_roles(access), *base_objects(install), *workload_objects(install)]
    found = {(obj["kind"], obj["metadata"]["name"]) for obj in made}
    roles = (namespace_role, account_role, gateway_role, gateway_accounts_role)
    assert {("ClusterRole", role("a")) for role in roles} <= found
    assert {("ClusterRole", name) for name in (*TENANT_ROLES.values(), CLUSTER_READER)} <= found
    assert {("Secret", HUB_SECRET), ("Secret", secret_name("a"))} <= found
    assert {("ServiceAccount", gateway_account("a")), ("Deployment", gateway_account("a"))} <= found


def test_names_of_namespaces_are_made_as_translation_makes_them() -> None:
    assert (context.HASH_MARK, context.HASH_LENGTH, context.LABEL_MAX_LENGTH) == ("--", 12, 63)
    assert (context.NAME_SEPARATOR, context.ANCHOR_NAMESPACE) == ("-v-", "vc-system")
