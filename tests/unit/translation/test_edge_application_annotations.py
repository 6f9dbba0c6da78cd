"""KubeEdge's controller deletes what an annotation of its own lists: no tenant writes it."""

import json

from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.rules.ownership import merge_metadata
from tests.unit.translation import given

LAST = "apps.kubeedge.io/last-contained-resources"
FOREIGN = json.dumps([{"Kind": "Secret", "namespace": "kube-system", "name": "x"}])


def edge_application(**annotations: str) -> Object:
    inside: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "annotations": {LAST: FOREIGN, "own": "1"}},
    }
    return {
        "apiVersion": "apps.kubeedge.io/v1alpha1",
        "kind": "EdgeApplication",
        "metadata": {"name": "e", "namespace": "edge", "annotations": annotations},
        "spec": {"workloadTemplate": {"manifests": [inside]}},
    }


def test_what_the_controller_remembers_is_not_taken_from_a_manifest() -> None:
    manifest = edge_application(**{LAST: FOREIGN, "apps.kubeedge.io/any": "x", "own": "1"})
    obj = given.host_object(manifest)
    assert FOREIGN not in json.dumps(obj)
    assert "apps.kubeedge.io/any" not in obj["metadata"]["annotations"]
    [inside] = obj["spec"]["workloadTemplate"]["manifests"]
    for kept in (obj, inside):
        assert kept["metadata"]["annotations"]["own"] == "1"
        assert LAST not in kept["metadata"]["annotations"]


def test_what_the_controller_wrote_on_the_host_stays() -> None:
    managed = {vocabulary.MANAGED_ANNOTATIONS_ANNOTATION: f"own,{LAST}", "own": "1", LAST: FOREIGN}
    obj = given.host_object(edge_application(**managed))
    live = {**obj, "metadata": {**obj["metadata"]}}
    live["metadata"]["annotations"] = {**obj["metadata"]["annotations"], LAST: "its own"}
    assert merge_metadata(obj, live)["metadata"]["annotations"][LAST] == "its own"


def test_former_annotation_of_a_tenant_is_removed() -> None:
    obj = given.host_object(edge_application())
    old = {vocabulary.MANAGED_ANNOTATIONS_ANNOTATION: LAST, LAST: FOREIGN}
    live = {**obj, "metadata": {**obj["metadata"], "annotations": old}}
    wanted = given.host_object(edge_application(**old))
    assert LAST not in merge_metadata(wanted, live)["metadata"].get("annotations", {})
