"""5.3: writing a Namespace is a claim, or leaves it as it is."""

from typing import Any

import orjson
import pytest

from karmada_vc_agent.gateway.mapping.exchange import Attributes
from karmada_vc_agent.model import domain
from karmada_vc_agent.model.objects import Object
from tests.fakes.gateway_view import FakeView, forwarded, refused, sent, two_branches

PATH = "/api/v1/namespaces"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
RIGHT = "virtualcluster.kubeedge.io"


@pytest.fixture
def branch() -> FakeView:
    return two_branches()[0]


def live(branch: FakeView) -> Object:
    found: Object = orjson.loads(orjson.dumps(branch.host.namespaces["edge-v-branch-a"]))
    return found


def test_creation_claims_the_namespace(branch: FakeView) -> None:
    planned = forwarded(branch, "POST", PATH, {"metadata": {"name": "new", "labels": {"a": "b"}}})
    assert planned.path == PATH
    assert planned.as_gateway
    assert planned.authorize == Attributes("create", RIGHT, "v1alpha1", "namespaces")
    metadata = sent(planned)["metadata"]
    assert metadata["name"] == "new-v-branch-a"
    assert metadata["labels"][domain.CLUSTER_LABEL] == "branch-a"
    assert metadata["labels"][domain.NAMESPACE_LABEL] == "new"
    assert metadata["annotations"][domain.CREATED_BY_AGENT_ANNOTATION] == "true"
    assert metadata["annotations"][domain.NODE_SELECTOR_ANNOTATION] == "branch=a"


@pytest.mark.parametrize(
    ("name", "code"),
    [("kube-system", 403), ("kube-public", 403), ("vc-system", 403), ("karmada-x", 201), ("", 422)],
)
def test_reserved_names_are_refused(branch: FakeView, name: str, code: int) -> None:
    body = {"metadata": {"name": name}}
    if code == 201:
        assert (
            sent(forwarded(branch, "POST", PATH, body))["metadata"]["name"] == f"{name}-v-branch-a"
        )
    else:
        assert refused(branch, "POST", PATH, body).code == code


def test_replacing_keeps_our_marks(branch: FakeView) -> None:
    body = {
        "metadata": {
            "name": "edge",
            "labels": {"a": "b", domain.CLUSTER_LABEL: "branch-b"},
            "annotations": {domain.NODE_SELECTOR_ANNOTATION: "branch=b"},
            "resourceVersion": "7",
        }
    }
    planned = forwarded(branch, "PUT", f"{PATH}/edge", body)
    assert planned.path == f"{PATH}/edge-v-branch-a"
    assert planned.authorize == Attributes("update", RIGHT, "v1alpha1", "namespaces", name="edge")
    metadata = sent(planned)["metadata"]
    before = live(branch)["metadata"]
    marks = {key: value for key, value in before["labels"].items() if domain.is_ours(key)}
    assert metadata["labels"] == {"a": "b", **marks}
    assert metadata["annotations"] == before["annotations"]
    assert metadata["resourceVersion"] == "7"


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC])
def test_a_patch_leaves_our_marks(branch: FakeView, kind: str) -> None:
    patch = {
        "metadata": {
            "labels": {"a": None, "b": "c", domain.CLUSTER_LABEL: None},
            "annotations": {domain.NODE_SELECTOR_ANNOTATION: "branch=b"},
        }
    }
    planned = forwarded(branch, "PATCH", f"{PATH}/edge", patch, content_type=kind)
    assert planned.path == f"{PATH}/edge-v-branch-a"
    assert sent(planned) == {"metadata": {"labels": {"a": None, "b": "c"}}}


def test_an_applied_namespace_is_created_or_patched(branch: FakeView) -> None:
    body: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "edge"}}
    found: Any = sent(forwarded(branch, "PATCH", f"{PATH}/edge", body, content_type=APPLY))
    assert found == {**body, "metadata": {"name": "edge-v-branch-a"}}
    body["metadata"] = {"name": "new"}
    planned = forwarded(branch, "PATCH", f"{PATH}/new", body, content_type=APPLY)
    assert planned.path == f"{PATH}/new-v-branch-a"
    assert planned.authorize == Attributes("create", RIGHT, "v1alpha1", "namespaces", name="new")
    assert sent(planned)["metadata"]["labels"][domain.NAMESPACE_LABEL] == "new"


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        (MERGE, {"metadata": {"labels": None}}),
        (MERGE, {"metadata": {"annotations": None}}),
        (STRATEGIC, {"metadata": {"labels": {"$patch": "replace"}}}),
        (STRATEGIC, {"metadata": {"$patch": "replace", "name": "edge"}}),
        (STRATEGIC, {"metadata": {"annotations": {"$retainKeys": ["a"]}}}),
        (JSON_PATCH, [{"op": "remove", "path": "/metadata/labels"}]),
        (JSON_PATCH, [{"op": "replace", "path": "/metadata/labels", "value": {}}]),
        (JSON_PATCH, [{"op": "add", "path": "/metadata/annotations", "value": {}}]),
        (JSON_PATCH, [{"op": "remove", "path": "/metadata"}]),
        (
            JSON_PATCH,
            [{"op": "remove", "path": "/metadata/labels/virtualcluster.kubeedge.io~1cluster"}],
        ),
        (
            JSON_PATCH,
            [
                {
                    "op": "replace",
                    "path": "/metadata/annotations/scheduler.alpha.kubernetes.io~1node-selector",
                    "value": "",
                }
            ],
        ),
    ],
)
def test_a_patch_that_takes_our_marks_is_refused(branch: FakeView, kind: str, patch: Any) -> None:
    assert refused(branch, "PATCH", f"{PATH}/edge", patch, content_type=kind).code == 422


def test_only_what_the_agent_made_is_deleted(branch: FakeView) -> None:
    planned = forwarded(branch, "DELETE", f"{PATH}/edge")
    assert planned.path == f"{PATH}/edge-v-branch-a"
    assert planned.as_gateway
    annotations = branch.host.namespaces["edge-v-branch-a"]["metadata"]["annotations"]
    annotations[domain.ADOPTED_ANNOTATION] = "true"
    assert refused(branch, "DELETE", f"{PATH}/edge").code == 403
