"""In which order manifests are applied."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.rules.apply_plan import in_order

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


def ordered(*kinds: str) -> list[str]:
    """Return the kinds of the manifests of a Work in the order in which they are applied."""
    manifests = [manifest(kind, f"{place}") for place, kind in enumerate(kinds)]
    return [kinds[place] for place in in_order(manifests)]


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ([], []),
        (["Pod"], ["Pod"]),
        (["Pod", "Widget", "Namespace"], ["Namespace", "Pod", "Widget"]),
        (
            ["Widget", "CustomResourceDefinition", "Pod", "Namespace"],
            ["CustomResourceDefinition", "Namespace", "Widget", "Pod"],
        ),
        (["RoleBinding", "Role"], ["RoleBinding", "Role"]),
    ],
)
def test_order_of_kinds(kinds: list[str], expected: list[str]) -> None:
    assert ordered(*kinds) == expected


@pytest.mark.parametrize("odd", [{}, {"kind": 7}, {"apiVersion": "v1", "kind": "ConfigMap"}])
def test_what_is_no_manifest_has_its_place(odd: Any) -> None:
    assert in_order([manifest("Pod", "a"), odd, manifest("Namespace", "b")]) == [2, 0, 1]


@given(st.lists(KINDS, max_size=12))
def test_every_manifest_is_applied_once_and_none_before_what_it_follows(named: list[str]) -> None:
    places = in_order([manifest(kind, "a") for kind in named])
    assert sorted(places) == list(range(len(named)))
    for is_first in (True, False):
        group = [place for place in places if (named[place] in FIRST) is is_first]
        assert group == sorted(group)
