"""Whatever a client sends or an API server answers: the rules answer, and never fail."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from karmada_vc_agent.features.gateway.mapping.responses import Forward
from karmada_vc_agent.model.objects import Object
from tests.fakes.gateway_view import asked, forwarded, two_branches

BRANCH, _ = two_branches()
ROOTS = {
    "pods": "/api/v1",
    "services": "/api/v1",
    "deployments": "/apis/apps/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "localsubjectaccessreviews": "/apis/authorization.k8s.io/v1",
}
KEYS = (
    *("metadata", "spec", "status", "template", "nodeSelector", "affinity", "nodeName", "labels"),
    *("annotations", "name", "namespace", "subjects", "rules", "roleRef", "verbs", "ingress"),
    *("from", "namespaceSelector", "matchLabels", "op", "path", "value", "$patch", "kind"),
    *("resourceAttributes", "user", "groups", "resources", "tolerations", "branch", "items"),
    *("object", "type", "rows", "cells", "claimRef", "finalizers", "containers", "apiGroups"),
)
VALUES = (
    *("edge", "web", "delete", "replace", "add", "/spec/template", "/metadata/labels/a", "b", ""),
    *("User", "Group", "ServiceAccount", "ClusterRole", "system:serviceaccounts", "*", "Table"),
    *("edge-v-branch-a", "node-1", "BOOKMARK", "ERROR", "ADDED", "Status", "get", "reader"),
)
leaves = st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from(VALUES)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from(KEYS), values, max_size=5)
FORMS = (
    "application/json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/json-patch+json",
)


@pytest.mark.parametrize("plural", ROOTS)
@given(
    body=objects | st.lists(objects, max_size=3) | leaves,
    form=st.sampled_from(FORMS),
    method=st.sampled_from(["POST", "PUT", "PATCH", "DELETE"]),
)
def test_any_body_is_mapped_or_refused(plural: str, body: Any, form: str, method: str) -> None:
    path = f"{ROOTS[plural]}/namespaces/edge/{plural}" + ("" if method == "POST" else "/web")
    planned = asked(BRANCH, method, path, body, content_type=form)
    if not isinstance(planned, Forward):
        assert 400 <= planned.code < 500


@given(
    body=objects | st.lists(objects, max_size=3),
    form=st.sampled_from(FORMS),
    method=st.sampled_from(["POST", "PUT", "PATCH", "DELETE"]),
)
@example(body={"metadata": True}, form=FORMS[1], method="PATCH")
def test_any_namespace_is_mapped_or_refused(body: Any, form: str, method: str) -> None:
    path = "/api/v1/namespaces" + ("" if method == "POST" else "/edge")
    planned = asked(BRANCH, method, path, body, content_type=form)
    if not isinstance(planned, Forward):
        assert 400 <= planned.code < 500


PATHS = (
    *("/api/v1/pods", "/api/v1/namespaces/edge/pods", "/api/v1/namespaces", "/api/v1/nodes"),
    *("/api/v1/persistentvolumes", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    *("/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/storage.k8s.io/v1/csidrivers"),
    "/apis/rbac.authorization.k8s.io/v1/namespaces/edge/rolebindings",
)


@pytest.mark.parametrize("path", PATHS)
@given(answer=objects)
@example(answer={"metadata": {"namespace": 1}})
def test_any_answer_is_mapped(path: str, answer: Object) -> None:
    response = forwarded(BRANCH, "GET", path).response
    table = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", **answer}
    for given_answer in (answer, {"items": [answer]}, table):
        response.map(given_answer, BRANCH)
    response.map_status(answer, BRANCH)
    watch = forwarded(BRANCH, "GET", path, query="watch=1").response
    watch.map({"type": "ADDED", "object": answer}, BRANCH)
    watch.map(answer, BRANCH)
    if path != "/api/v1/namespaces/edge/pods":
        return
    one = forwarded(BRANCH, "GET", f"{path}/web").response
    one.map(answer, BRANCH)
