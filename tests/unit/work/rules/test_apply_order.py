"""In which order manifests are applied, and which side by side."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.model.objects import Object, key_of
from karmada_vc_agent.work.rules.apply_plan import batches

API_VERSIONS = {
    "Namespace": "v1",
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
    "ServiceAccount": "v1",
    "LimitRange": "v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "ConfigMap": "v1",
    "Secret": "v1",
    "Service": "v1",
    "Deployment": "apps/v1",
    "Pod": "v1",
    "Widget": "example.org/v1",
}
KINDS = st.sampled_from(sorted(API_VERSIONS))
FIRST = ("Namespace", "CustomResourceDefinition")


def manifest(kind: str, name: str) -> Object:
    metadata = {"name": name, "namespace": "edge"}
    return {"apiVersion": API_VERSIONS[kind], "kind": kind, "metadata": metadata}


def ordered(*kinds: str) -> list[list[str]]:
    """Return the batches of a Work with manifests of these kinds, each by its kind."""
    manifests = [manifest(kind, f"{place}") for place, kind in enumerate(kinds)]
    return [[kinds[place] for place in batch] for batch in batches(manifests)]


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ([], []),
        (["Pod"], [["Pod"]]),
        (["ConfigMap", "ConfigMap"], [["ConfigMap", "ConfigMap"]]),
        # What all others may need goes first, wherever it stands.
        (["Pod", "Widget", "Namespace"], [["Namespace"], ["Pod"], ["Widget"]]),
        (
            ["Widget", "CustomResourceDefinition", "Pod", "Namespace"],
            [["CustomResourceDefinition", "Namespace"], ["Widget"], ["Pod"]],
        ),
        # What an API server asks for before it takes another one, or makes of it.
        (["ServiceAccount", "Secret"], [["ServiceAccount"], ["Secret"]]),
        (["Role", "RoleBinding"], [["Role"], ["RoleBinding"]]),
        (["LimitRange", "Pod"], [["LimitRange"], ["Pod"]]),
        # Nobody is put before what the user put before it.
        (["Pod", "ConfigMap", "Pod"], [["Pod"], ["ConfigMap"], ["Pod"]]),
        (["RoleBinding", "Role"], [["RoleBinding"], ["Role"]]),
        # Of two that want one node port the first has it; of custom kinds nobody knows.
        (["Service", "Service"], [["Service"], ["Service"]]),
        (["Widget", "Widget"], [["Widget"], ["Widget"]]),
        (
            ["ServiceAccount", "Role", "ConfigMap", "Secret", "Service", "Deployment", "Pod"],
            [
                ["ServiceAccount", "Role"],
                ["ConfigMap", "Secret"],
                ["Service"],
                ["Deployment", "Pod"],
            ],
        ),
    ],
)
def test_order_of_kinds(kinds: list[str], expected: list[list[str]]) -> None:
    assert ordered(*kinds) == expected


def test_object_that_is_named_twice_is_applied_one_after_the_other() -> None:
    same = manifest("ConfigMap", "settings")
    assert batches([same, manifest("ConfigMap", "other"), same]) == [[0, 1], [2]]


def test_same_name_in_another_namespace_is_another_object() -> None:
    other = manifest("ConfigMap", "settings")
    other["metadata"]["namespace"] = "shop"
    assert batches([manifest("ConfigMap", "settings"), other]) == [[0, 1]]


@pytest.mark.parametrize("odd", [{}, {"kind": 7}, {"apiVersion": "v1", "kind": "ConfigMap"}])
def test_what_is_no_manifest_has_its_place(odd: Any) -> None:
    found = batches([manifest("Pod", "a"), odd, manifest("Namespace", "b")])
    assert found == [[2], [0], [1]]


@given(st.lists(st.tuples(KINDS, st.sampled_from("ab")), max_size=12))
def test_every_manifest_is_applied_once_and_none_before_what_it_stands_after(
    named: list[tuple[str, str]],
) -> None:
    manifests = [manifest(kind, name) for kind, name in named]
    found = batches(manifests)
    assert sorted(place for batch in found for place in batch) == list(range(len(named)))
    turn = {place: number for number, batch in enumerate(found) for place in batch}
    for group in (True, False):
        places = [place for place, (kind, _) in enumerate(named) if (kind in FIRST) is group]
        assert [turn[place] for place in places] == sorted(turn[place] for place in places)
    for batch in found:
        keys = [key_of(manifests[place]) for place in batch]
        assert len(set(keys)) == len(keys)
