"""Placement: rows of rewriting-rules 3.3 that need more than one manifest."""

from typing import Any

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.translation import placement
from karmada_vc_agent.translation.kind_policy import Code, RefusedError
from tests.unit.translation import given

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(spec: Object) -> Object:
    metadata = {"name": "p", "namespace": "edge"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def affinity(*terms: Any) -> Object:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def on_label(operator: str, *values: str, key: str = "branch") -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def on_name(operator: str, *values: str) -> Object:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


EXCLUDING = [
    on_label("In", "b"),
    on_label("In"),
    on_label("NotIn", "a", "b"),
    on_label("DoesNotExist"),
    on_name("In", "node-9"),
    {**on_label("Exists"), **on_name("In", "node-9")},
    {},
    None,
]
OPEN = [
    on_label("In", "a", "b"),
    on_label("NotIn", "b"),
    on_label("Exists"),
    on_label("DoesNotExist", key="other"),
    on_label("In", "x", key="other"),
    on_name("In", "node-9", "node-1"),
    on_name("NotIn", "node-9"),
]


@pytest.mark.parametrize("term", EXCLUDING)
def test_term_without_any_node_of_ours_is_refused(term: Any) -> None:
    refusal = given.refusal(pod(affinity(term)))
    assert refusal.code is Code.NODE_AFFINITY_CONFLICT
    assert refusal.path == "spec.affinity.nodeAffinity"


@pytest.mark.parametrize("term", OPEN)
def test_term_that_may_match_is_kept(term: Any) -> None:
    spec = given.host_object(pod(affinity(*EXCLUDING, term)))["spec"]
    assert spec == {**affinity(*EXCLUDING, term), "nodeSelector": {"branch": "a"}}


def test_affinity_without_terms_is_refused() -> None:
    assert given.refusal(pod(affinity())).code is Code.NODE_AFFINITY_CONFLICT


def test_preferred_affinity_elsewhere_is_kept() -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"preference": EXCLUDING[0]}]}
    spec = given.host_object(pod({"affinity": {"nodeAffinity": preferred}}))["spec"]
    assert spec["affinity"] == {"nodeAffinity": preferred}


def test_every_required_label_must_be_possible() -> None:
    context = given.context(vc={"required": {"branch": "a", "site": "s"}})
    assert given.refusal(pod(affinity(on_label("In", "t", key="site"))), context).code is (
        Code.NODE_AFFINITY_CONFLICT
    )
    host = given.host_object(pod({"nodeSelector": {"site": "s"}}), context)
    assert host["spec"]["nodeSelector"] == {"branch": "a", "site": "s"}


@pytest.mark.parametrize("node", ["", None])
def test_empty_node_name_is_no_node(node: Any) -> None:
    spec = given.host_object(pod({"nodeName": node}))["spec"]
    assert spec == {"nodeSelector": {"branch": "a"}}


def test_node_name_beside_null_affinity() -> None:
    spec = given.host_object(pod({"nodeName": "node-1", "affinity": None}))["spec"]
    assert spec["affinity"] == affinity(on_name("In", "node-1"))["affinity"]


def test_foreign_affinity_is_refused_although_node_name_is_ours() -> None:
    refusal = given.refusal(pod({"nodeName": "node-1", **affinity(on_label("In", "b"))}))
    assert refusal.code is Code.NODE_AFFINITY_CONFLICT


@pytest.mark.parametrize("selector", ["branch=a", ["branch"], 1])
def test_selector_that_is_no_map_is_refused(selector: Any) -> None:
    refusal = given.refusal(pod({"nodeSelector": selector}))
    assert refusal.code is Code.NODE_SELECTOR_CONFLICT
    assert refusal.detail == "spec.nodeSelector is not a map"


def test_null_selector_is_no_selector() -> None:
    assert given.host_object(pod({"nodeSelector": None}))["spec"] == {
        "nodeSelector": {"branch": "a"}
    }


def test_merge_names_the_first_conflict() -> None:
    with pytest.raises(RefusedError) as caught:
        placement.merge_node_selector({"nodeSelector": {"region": "south"}}, "s", {"region": "n"})
    assert caught.value.refusal.detail == 's.nodeSelector["region"] is "south", required "n"'


def test_no_tolerations_are_written_where_none_are_desired() -> None:
    assert "tolerations" not in given.host_object(pod({}))["spec"]


def test_configured_tolerations_are_not_shared_between_objects() -> None:
    toleration = {"key": "edge"}
    context = given.context(vc={"tolerations": [toleration]})
    given.host_object(pod({}), context)["spec"]["tolerations"][0]["key"] = "changed"
    assert toleration == {"key": "edge"}


def test_annotation_has_sorted_keys() -> None:
    assert placement.node_selector_annotation({"z": "1", "a": "2"}) == "a=2,z=1"


@pytest.mark.parametrize(
    "key", ["volume.kubernetes.io/selected-node", "volume.alpha.kubernetes.io/selected-node"]
)
def test_selected_node_is_dropped_from_claims_only(key: str) -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "edge", "annotations": {key: "n"}},
    }
    assert key in given.host_object(obj)["metadata"]["annotations"]
    obj["kind"] = "PersistentVolumeClaim"
    assert key not in given.host_object(obj)["metadata"]["annotations"]
