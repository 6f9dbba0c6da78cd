"""5.1, 5.5: discovery without what a virtual cluster never sees, in all its forms."""

from typing import Any

import pytest

from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    KindScope,
    ResponseKind,
    is_kind_shown,
    scope_of,
)
from karmada_vc_agent.features.gateway.mapping.refusals import KindInfo
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.translation.kind_policy import hidden_from_api_enablements
from tests.fakes.gateway_view import SERVED, FakeView, forwarded, two_branches

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
HIDDEN = {
    "SubjectAccessReview",
    "LocalSubjectAccessReview",
    "ComponentStatus",
    "CSINode",
    "CertificateSigningRequest",
    "TokenReview",
    "ValidatingWebhookConfiguration",
    "Work",
    "ObjectSync",
}
ALL = ("create", "delete", "get", "list", "watch")


@pytest.fixture
def branch() -> FakeView:
    return two_branches()[0]


def test_what_is_hidden_is_never_sent_by_karmada(branch: FakeView) -> None:
    """5.5: one list; what is shown beyond it is only read, or asks about rights."""
    for info in SERVED:
        gvk = GroupVersionKind(info.group, info.version, info.kind)
        is_hidden = hidden_from_api_enablements(gvk, namespaced=info.namespaced)
        assert is_kind_shown(info, branch) == (info.kind not in HIDDEN), info
        if not is_kind_shown(info, branch):
            assert is_hidden, info


def test_settings_for_cluster_scoped_kinds_count_here_too(branch: FakeView) -> None:
    info = KindInfo("example.com", "v1", "things", "Thing", namespaced=False)
    assert scope_of(info, branch) is KindScope.DENIED


@pytest.mark.parametrize("path", ["/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1"])
def test_discovery_is_requested_in_the_form_of_the_client(branch: FakeView, path: str) -> None:
    planned = forwarded(branch, "GET", path, accept=AGGREGATED)
    assert (planned.path, planned.accept) == (path, AGGREGATED)
    assert planned.response.kind is ResponseKind.DISCOVERY
    assert not planned.as_gateway


def mapped(branch: FakeView, path: str, answer: Object) -> Any:
    return forwarded(branch, "GET", path).response.map(answer, branch)


def test_addresses_of_the_host_are_left_out(branch: FakeView) -> None:
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:6443"}]
    answer = {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": addresses,
    }
    found = mapped(branch, "/api", answer)
    assert found == {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def test_groups_of_which_nothing_is_shown_are_left_out(branch: FakeView) -> None:
    names = ["apps", "certificates.k8s.io", "storage.k8s.io", "unheard.example"]
    answer = {"kind": "APIGroupList", "groups": [{"name": name} for name in names]}
    found = mapped(branch, "/apis", answer)
    assert [group["name"] for group in found["groups"]] == [
        "apps",
        "storage.k8s.io",
        "unheard.example",
    ]


def resource(name: str, kind: str, *, namespaced: bool, verbs: tuple[str, ...] = ALL) -> Object:
    return {"name": name, "kind": kind, "namespaced": namespaced, "verbs": list(verbs)}


def test_resources_of_a_version_are_filtered(branch: FakeView) -> None:
    answer = {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            resource("pods", "Pod", namespaced=True),
            resource("pods/log", "Pod", namespaced=True, verbs=("get",)),
            resource("serviceaccounts", "ServiceAccount", namespaced=True),
            resource("serviceaccounts/token", "TokenRequest", namespaced=True),
            resource("nodes", "Node", namespaced=False),
            resource("nodes/proxy", "NodeProxyOptions", namespaced=False),
            resource("namespaces/finalize", "Namespace", namespaced=False),
            resource("namespaces", "Namespace", namespaced=False),
            resource("componentstatuses", "ComponentStatus", namespaced=False),
        ],
    }
    found = mapped(branch, "/api/v1", answer)
    assert [(each["name"], each["verbs"]) for each in found["resources"]] == [
        ("pods", list(ALL)),
        ("pods/log", ["get"]),
        ("serviceaccounts", list(ALL)),
        ("nodes", ["get", "list", "watch"]),
        ("namespaces", list(ALL)),
    ]


def entry(name: str, kind: str, scope: str, *subresources: str) -> Object:
    found: Object = {
        "resource": name,
        "responseKind": {"group": "", "version": "", "kind": kind},
        "scope": scope,
        "verbs": list(ALL),
    }
    if subresources:
        found["subresources"] = [{"subresource": each} for each in subresources]
    return found


def test_aggregated_discovery_is_filtered(branch: FakeView) -> None:
    core = [
        entry("serviceaccounts", "ServiceAccount", "Namespaced", "token"),
        entry("pods", "Pod", "Namespaced", "log", "status"),
        entry("nodes", "Node", "Cluster", "proxy", "status"),
        entry("componentstatuses", "ComponentStatus", "Cluster"),
    ]
    certificates = [entry("certificatesigningrequests", "CertificateSigningRequest", "Cluster")]
    stale = {"version": "v1beta1", "freshness": "Stale"}
    answer = {
        "kind": "APIGroupDiscoveryList",
        "items": [
            {"metadata": {}, "versions": [{"version": "v1", "resources": core}]},
            {
                "metadata": {"name": "certificates.k8s.io"},
                "versions": [{"version": "v1", "resources": certificates}],
            },
            {"metadata": {"name": "metrics.k8s.io"}, "versions": [stale]},
        ],
    }
    found = forwarded(branch, "GET", "/api", accept=AGGREGATED).response.map(answer, branch)
    assert isinstance(found, dict)
    core_group, metrics = found["items"]
    shown = core_group["versions"][0]["resources"]
    assert [each["resource"] for each in shown] == ["serviceaccounts", "pods", "nodes"]
    assert [each.get("subresources") for each in shown] == [
        None,
        [{"subresource": "log"}, {"subresource": "status"}],
        None,
    ]
    assert shown[2]["verbs"] == ["get", "list", "watch"]
    assert metrics["versions"][0]["freshness"] == "Stale"


def test_hidden_group_returns_404(branch: FakeView) -> None:
    response = forwarded(branch, "GET", "/apis/apps").response
    hidden = {"kind": "APIGroup", "name": "certificates.k8s.io"}
    assert response.map(hidden, branch) is None
    assert response.not_found().code == 404
