"""5.3: questions about rights are asked in names of the host, and answered in the client's."""

from typing import Any

import pytest

from karmada_vc_agent.features.gateway.mapping.cluster_view import ResponseKind
from karmada_vc_agent.model.objects import Object
from tests.fakes.gateway_view import FakeView, forwarded, refused, sent, two_branches

ROOT = "/apis/authorization.k8s.io/v1"
ANCHOR = "vc-system-v-branch-a"


@pytest.fixture
def branch() -> FakeView:
    return two_branches()[0]


@pytest.mark.parametrize(
    ("asked", "on_host"),
    [
        (
            {"verb": "get", "resource": "pods", "namespace": "edge"},
            {"verb": "get", "resource": "pods", "namespace": "edge-v-branch-a"},
        ),
        (
            {"verb": "list", "resource": "pods"},
            {"verb": "list", "resource": "pods", "namespace": ANCHOR},
        ),
        (
            {"verb": "list", "group": "apps", "resource": "deployments", "namespace": ""},
            {"verb": "list", "group": "apps", "resource": "deployments", "namespace": ANCHOR},
        ),
        (
            {"verb": "get", "resource": "secrets", "namespace": "kube-system"},
            {"verb": "get", "resource": "secrets", "namespace": ANCHOR},
        ),
        (
            {"verb": "get", "resource": "secrets", "namespace": "edge-v-branch-b"},
            {"verb": "get", "resource": "secrets", "namespace": ...},
        ),
        ({"verb": "list", "resource": "nodes"}, {"verb": "list", "resource": "nodes"}),
        ({"verb": "*", "resource": "*"}, {"verb": "*", "resource": "*", "namespace": ANCHOR}),
        (
            {"verb": "get", "resource": "namespaces", "name": "edge"},
            {"verb": "get", "resource": "namespaces", "name": "edge-v-branch-a"},
        ),
        (
            {"verb": "create", "resource": "namespaces"},
            {
                "verb": "create",
                "group": "virtualcluster.kubeedge.io",
                "version": "*",
                "resource": "namespaces",
                "namespace": ANCHOR,
            },
        ),
    ],
)
def test_reviewed_attributes_are_mapped(branch: FakeView, asked: Object, on_host: Any) -> None:
    body = {"spec": {"resourceAttributes": asked}}
    planned = forwarded(branch, "POST", f"{ROOT}/selfsubjectaccessreviews", body)
    assert not planned.as_gateway
    found = sent(planned)["spec"]["resourceAttributes"]
    if on_host.get("namespace") is ...:
        assert found["namespace"] not in branch.host.namespaces
        found["namespace"] = ...
    assert found == on_host
    answer = {
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {"resourceAttributes": found},
        "status": {"allowed": True, "reason": f'RBAC: bound in "{ANCHOR}" to "vc:branch-a:alice"'},
    }
    assert planned.response.kind is ResponseKind.OBJECT
    shown: Any = planned.response.map(answer, branch)
    assert shown["spec"] == body["spec"]
    assert shown["status"]["reason"] == 'RBAC: bound in "kube-system" to "alice"'


def test_what_is_no_resource_passes(branch: FakeView) -> None:
    body = {"spec": {"nonResourceAttributes": {"path": "/version", "verb": "get"}}}
    planned = forwarded(branch, "POST", f"{ROOT}/selfsubjectaccessreviews", body)
    assert sent(planned)["spec"] == body["spec"]


def test_rules_are_those_of_a_namespace(branch: FakeView) -> None:
    body = {"spec": {"namespace": "edge"}}
    planned = forwarded(branch, "POST", f"{ROOT}/selfsubjectrulesreviews", body)
    assert sent(planned)["spec"] == {"namespace": "edge-v-branch-a"}
    rule = {"verbs": ["get"], "resources": ["namespaces"], "resourceNames": ["edge-v-branch-a"]}
    answer = {"spec": {}, "status": {"resourceRules": [rule], "evaluationError": "edge-v-branch-a"}}
    shown: Any = planned.response.map(answer, branch)
    assert shown["spec"] == body["spec"]
    assert shown["status"]["resourceRules"][0]["resourceNames"] == ["edge"]
    assert shown["status"]["evaluationError"] == "edge"


@pytest.mark.parametrize(
    "path", [f"{ROOT}/subjectaccessreviews", f"{ROOT}/namespaces/edge/localsubjectaccessreviews"]
)
def test_questions_about_others_are_refused(branch: FakeView, path: str) -> None:
    assert refused(branch, "POST", path, {"spec": {"user": "alice"}}).code == 403


@pytest.mark.parametrize("body", [{}, {"spec": []}, []])
def test_a_review_without_a_question_is_refused(branch: FakeView, body: Any) -> None:
    assert refused(branch, "POST", f"{ROOT}/selfsubjectaccessreviews", body).code == 400
