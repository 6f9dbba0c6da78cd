"""5.3: writing a Namespace is a claim, or leaves it as it is."""

from typing import Any

import orjson
import pytest

from karmada_vc_agent.features.gateway.mapping.refusals import Attributes
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import Bounds
from tests.fakes.gateway_view import FakeView, asked, forwarded, refused, sent, two_branches

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
    assert metadata["labels"][vocabulary.CLUSTER_LABEL] == "branch-a"
    assert metadata["labels"][vocabulary.NAMESPACE_LABEL] == "new"
    assert metadata["annotations"][vocabulary.CREATED_BY_AGENT_ANNOTATION] == "true"
    assert metadata["annotations"][vocabulary.NODE_SELECTOR_ANNOTATION] == "branch=a"


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


@pytest.mark.parametrize("name", ["New", "a.b", "a_b", "-a", "a-", "a/../b", "a" * 64])
def test_names_that_kubernetes_refuses_are_refused(branch: FakeView, name: str) -> None:
    body: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    found = refused(branch, "POST", PATH, body)
    assert (found.code, found.reason) == (422, "Invalid")
    by_chance = {"metadata": {"generateName": f"{name[:40]}_"}}
    assert refused(branch, "POST", PATH, by_chance).code == 422
    if "/" not in name:
        applied = refused(branch, "PATCH", f"{PATH}/{name}", body, content_type=APPLY)
        assert applied.code == 422


def test_replacing_keeps_our_marks(branch: FakeView) -> None:
    body = {
        "metadata": {
            "name": "edge",
            "labels": {"a": "b", vocabulary.CLUSTER_LABEL: "branch-b"},
            "annotations": {vocabulary.NODE_SELECTOR_ANNOTATION: "branch=b"},
            "resourceVersion": "7",
        }
    }
    planned = forwarded(branch, "PUT", f"{PATH}/edge", body)
    assert planned.path == f"{PATH}/edge-v-branch-a"
    assert planned.authorize == Attributes("update", RIGHT, "v1alpha1", "namespaces", name="edge")
    metadata = sent(planned)["metadata"]
    before = live(branch)["metadata"]
    assert metadata["labels"] == {"a": "b", **before["labels"]}
    assert metadata["annotations"] == before["annotations"]
    assert metadata["resourceVersion"] == "7"


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC])
def test_a_patch_leaves_our_marks(branch: FakeView, kind: str) -> None:
    patch = {
        "metadata": {
            "labels": {"a": None, "b": "c", vocabulary.CLUSTER_LABEL: None},
            "annotations": {vocabulary.NODE_SELECTOR_ANNOTATION: "branch=b"},
        }
    }
    planned = forwarded(branch, "PATCH", f"{PATH}/edge", patch, content_type=kind)
    assert planned.path == f"{PATH}/edge-v-branch-a"
    assert sent(planned) == {"metadata": {"labels": {"a": None, "b": "c"}}}


def test_an_applied_namespace_is_created_or_patched(branch: FakeView) -> None:
    body: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "edge"}}
    found: Any = sent(forwarded(branch, "PATCH", f"{PATH}/edge", body, content_type=APPLY))
    marks = live(branch)["metadata"]
    assert found["metadata"]["name"] == "edge-v-branch-a"
    for each in ("labels", "annotations"):
        assert found["metadata"][each].items() <= marks[each].items()
        assert all(map(_is_mark, found["metadata"][each]))
    assert found["metadata"]["labels"][vocabulary.CLUSTER_LABEL] == "branch-a"
    body["metadata"] = {"name": "new"}
    planned = forwarded(branch, "PATCH", f"{PATH}/new", body, content_type=APPLY)
    assert planned.path == f"{PATH}/new-v-branch-a"
    assert planned.authorize == Attributes("create", RIGHT, "v1alpha1", "namespaces", name="new")
    assert sent(planned)["metadata"]["labels"][vocabulary.NAMESPACE_LABEL] == "new"


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        (MERGE, {"metadata": {"labels": None}}),
        (MERGE, {"metadata": {"annotations": None}}),
        (STRATEGIC, {"metadata": {"labels": {"$patch": "replace"}}}),
        (STRATEGIC, {"metadata": {"$patch": "replace", "name": "edge"}}),
        (STRATEGIC, {"$patch": "replace"}),
        (STRATEGIC, {"$patch": "delete"}),
        (JSON_PATCH, [{"op": "remove", "path": "/metadata/labels"}]),
    ],
)
def test_no_patch_takes_our_marks(branch: FakeView, kind: str, patch: Any) -> None:
    """As a merge patch: directives of a strategic one mean nothing then."""
    planned = forwarded(branch, "PATCH", f"{PATH}/edge", patch, content_type=kind)
    assert planned.content_type == MERGE
    written = sent(planned).get("metadata", {})
    assert all(written.get(each, {}) is not None for each in ("labels", "annotations"))
    assert vocabulary.CLUSTER_LABEL not in str(written)


def test_only_what_the_agent_made_is_deleted(branch: FakeView) -> None:
    marks = branch.host.namespaces["edge-v-branch-a"]["metadata"]["annotations"]
    assert "Karmada propagates it" in refused(branch, "DELETE", f"{PATH}/edge").message
    marks[vocabulary.WORK_ANNOTATION] = ""
    planned = forwarded(branch, "DELETE", f"{PATH}/edge")
    assert planned.path == f"{PATH}/edge-v-branch-a"
    assert planned.as_gateway
    annotations = branch.host.namespaces["edge-v-branch-a"]["metadata"]["annotations"]
    annotations[vocabulary.ADOPTED_ANNOTATION] = "true"
    assert refused(branch, "DELETE", f"{PATH}/edge").code == 403


def _is_mark(key: str) -> bool:
    return vocabulary.is_ours(key) or key == vocabulary.NODE_SELECTOR_ANNOTATION


ENFORCE = "pod-security.kubernetes.io/enforce"


def test_a_name_may_be_left_to_chance(branch: FakeView) -> None:
    planned = forwarded(branch, "POST", PATH, {"metadata": {"generateName": "run-"}})
    metadata = sent(planned)["metadata"]
    assert metadata["name"] == "run-x7k2p-v-branch-a"
    assert metadata["labels"][vocabulary.NAMESPACE_LABEL] == "run-x7k2p"
    long = forwarded(branch, "POST", PATH, {"metadata": {"generateName": "r" * 70}})
    assert len(sent(long)["metadata"]["labels"][vocabulary.NAMESPACE_LABEL]) == 63


def test_labels_not_for_tenants_are_left_out_and_reported(branch: FakeView) -> None:
    labels = {"a": "b", ENFORCE: "privileged", "istio-injection": "disabled", "x.example/y": "z"}
    planned = forwarded(branch, "POST", PATH, {"metadata": {"name": "new", "labels": labels}})
    found = sent(planned)["metadata"]["labels"]
    assert {key for key in found if not vocabulary.is_ours(key)} == {"a"}
    [warning] = planned.warnings
    assert all(key in warning for key in labels if key != "a")


def test_the_level_of_the_settings_is_there_from_the_beginning(branch: FakeView) -> None:
    branch.vc_fields = {"pod_security": "restricted"}
    body = {"metadata": {"name": "new", "labels": {ENFORCE: "privileged"}}}
    metadata = sent(forwarded(branch, "POST", PATH, body))["metadata"]
    assert metadata["labels"][ENFORCE] == "restricted"
    assert metadata["annotations"][vocabulary.POD_SECURITY_ANNOTATION] == "restricted"


def test_a_work_cannot_be_claimed_by_its_annotations(branch: FakeView) -> None:
    marks = {"work.karmada.io/name": "x", "work.karmada.io/namespace": "karmada-es-branch-a"}
    body = {"metadata": {"name": "new", "annotations": marks}}
    annotations = sent(forwarded(branch, "POST", PATH, body))["metadata"]["annotations"]
    assert annotations[vocabulary.WORK_ANNOTATION] == ""
    assert not marks.keys() & annotations.keys()


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"name": "new", "finalizers": ["example.com/x"]}},
        {"metadata": {"name": "new", "ownerReferences": [{"name": "x"}]}},
        {"metadata": {"name": "new"}, "spec": {"finalizers": ["kubernetes", "example.com/x"]}},
    ],
)
def test_what_would_keep_it_on_the_host_is_refused(branch: FakeView, body: Object) -> None:
    assert refused(branch, "POST", PATH, body).code == 403
    edge = {**body, "metadata": {**body["metadata"], "name": "edge"}}
    assert refused(branch, "PUT", f"{PATH}/edge", edge).code == 403
    assert refused(branch, "PATCH", f"{PATH}/edge", edge, content_type=MERGE).code == 403


def test_who_wrote_what_is_kept(branch: FakeView) -> None:
    """Clients send it back as they read it; to empty it would take it from all managers."""
    labels = {"a": "b"}
    body = {"metadata": {"name": "edge", "labels": labels, "managedFields": [{}]}}
    assert "managedFields" not in sent(forwarded(branch, "PUT", f"{PATH}/edge", body))["metadata"]
    for kind in (MERGE, STRATEGIC):
        planned = forwarded(branch, "PATCH", f"{PATH}/edge", body, content_type=kind)
        assert "managedFields" not in sent(planned)["metadata"]
    new = {"metadata": {"name": "new", "managedFields": [{}]}}
    assert "managedFields" not in sent(forwarded(branch, "POST", PATH, new))["metadata"]


def test_labels_of_the_site_stay(branch: FakeView) -> None:
    labels = branch.host.namespaces["edge-v-branch-a"]["metadata"]["labels"]
    labels |= {ENFORCE: "restricted", "site.example/x": "y", "a": "b"}
    put = sent(forwarded(branch, "PUT", f"{PATH}/edge", {"metadata": {"labels": {"c": "d"}}}))
    assert put["metadata"]["labels"] == {k: v for k, v in labels.items() if k != "a"} | {"c": "d"}
    patch = {"metadata": {"labels": {ENFORCE: None, "site.example/x": "z", "a": None}}}
    planned = forwarded(branch, "PATCH", f"{PATH}/edge", patch, content_type=MERGE)
    assert sent(planned) == {"metadata": {"labels": {"a": None}}}
    assert "site.example/x" in planned.warnings[0]


def test_a_json_patch_is_a_merge_patch(branch: FakeView) -> None:
    def patched(path: str) -> Any:
        patch = [{"op": "add", "path": path, "value": "b"}]
        return asked(branch, "PATCH", f"{PATH}/edge", patch, content_type=JSON_PATCH)

    assert sent(patched("/metadata/labels/a")) == {"metadata": {"labels": {"a": "b"}}}
    assert sent(patched("/metadata/labels/pod-security.kubernetes.io~1enforce")) == {}
    assert sent(patched("/metadata/managedFields")) == {}
    assert patched("/metadata/finalizers").code == 403
    assert patched("/spec/finalizers").code == 403


def test_taken_names_are_reported_to_writers_only(branch: FakeView) -> None:
    branch.host.namespaces["taken-v-branch-a"] = {"metadata": {"name": "taken-v-branch-a"}}
    branch.vc_fields = {"adopt_namespaces": ("legacy",)}
    for name, code in (("edge", 409), ("taken", 403), ("legacy", 403), ("kube-x", 403)):
        found = refused(branch, "POST", PATH, {"metadata": {"name": name}})
        assert found.code == code
        assert "-v-" not in found.message
        assert found.authorize == Attributes("create", RIGHT, "v1alpha1", "namespaces")
    gone = refused(branch, "DELETE", f"{PATH}/nothing")
    assert (gone.code, gone.authorize is None) == (404, False)


def test_a_virtual_cluster_has_no_more_namespaces_than_works(branch: FakeView) -> None:
    branch.vc_fields = {"bounds": Bounds(works=len(branch.claims()))}
    assert "bounds.works" in refused(branch, "POST", PATH, {"metadata": {"name": "new"}}).message


def test_another_name_than_that_of_the_path_is_refused(branch: FakeView) -> None:
    body = {"metadata": {"name": "other"}}
    for method, kind in (("PUT", ""), ("PATCH", MERGE), ("PATCH", APPLY)):
        found = refused(branch, method, f"{PATH}/edge", body, content_type=kind)
        assert (found.code, "-v-" in found.message) == (400, False)


def test_the_answer_waits_for_what_is_really_created(branch: FakeView) -> None:
    body = {"metadata": {"name": "new"}}
    assert forwarded(branch, "POST", PATH, body).sets_up == "new-v-branch-a"
    assert forwarded(branch, "POST", PATH, body, "dryRun=All").sets_up == ""
    applied = forwarded(branch, "PATCH", f"{PATH}/new", body, content_type=APPLY)
    assert applied.sets_up == "new-v-branch-a"
    assert forwarded(branch, "PUT", f"{PATH}/edge", {"metadata": {}}).sets_up == ""


@pytest.mark.parametrize("mark", [vocabulary.HOLD_ANNOTATION, vocabulary.WORK_ANNOTATION])
def test_held_and_propagated_ones_are_not_deleted(branch: FakeView, mark: str) -> None:
    marks = branch.host.namespaces["edge-v-branch-a"]["metadata"]["annotations"]
    marks |= {vocabulary.WORK_ANNOTATION: "", mark: "x"}
    assert refused(branch, "DELETE", f"{PATH}/edge").code == 403


def test_default_is_kept_as_kubernetes_does(branch: FakeView) -> None:
    branch.host.claim("branch-a", "default")
    assert "may not be deleted" in refused(branch, "DELETE", f"{PATH}/default").message
