"""5.1, 5.5: discovery without what a virtual cluster never sees, in all its forms."""

from typing import Any

import pytest

from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    KindScope,
    ResponseKind,
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
        assert (scope_of(info, branch) is not KindScope.DENIED) == (info.kind not in HIDDEN), info
        if not (scope_of(info, branch) is not KindScope.DENIED):
            assert is_hidden, info


def test_settings_for_cluster_scoped_kinds_count_here_too(branch: FakeView) -> None:
    info = KindInfo("example.com", "v1", "things", "Thing", namespaced=False)
    assert scope_of(info, branch) is KindScope.DENIED


@pytest.mark.parametrize(
    "path", ["/api", "/apis", "/api/v1", "/apis/apps", "/apis/certificates.k8s.io/v1"]
)
def test_discovery_is_requested_in_the_form_of_the_client(branch: FakeView, path: str) -> None:
    planned = forwarded(branch, "GET", path, accept=AGGREGATED)
    assert (planned.path, planned.accept) == (path, AGGREGATED)
    assert planned.response.kind is ResponseKind.DISCOVERY
    assert not planned.as_gateway


def mapped(branch: FakeView, path: str, answer: Object) -> Any:
    return forwarded(branch, "GET", path).response.map(answer, branch)


def test_addresses_of_the_host_are_left_out(branch: FakeView) -> None:
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:6443"}]
    answer = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}
    found = mapped(branch, "/api", answer)
    assert found == {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def test_groups_of_which_nothing_is_shown_are_left_out(branch: FakeView) -> None:
    names = ["apps", "certificates.k8s.io", "storage.k8s.io", "unheard.example"]
    answer = {"kind": "APIGroupList", "groups": [{"name": name} for name in names]}
    found = mapped(branch, "/apis", answer)
    assert [group["name"] for group in found["groups"]] == [names[0], *names[2:]]


def test_what_is_refused_is_left_out(branch: FakeView) -> None:
    """A controller that lists all kinds there are fails at the first 403."""
    served = [
        ("pods", "Pod", True),
        ("pods/log", "Pod", True),
        ("serviceaccounts", "ServiceAccount", True),
        ("serviceaccounts/token", "TokenRequest", True),
        ("nodes", "Node", False),
        ("nodes/proxy", "NodeProxyOptions", False),
        ("namespaces/finalize", "Namespace", False),
        ("namespaces", "Namespace", False),
        ("componentstatuses", "ComponentStatus", False),
        ("componentstatuses/x", "Pod", False),
    ]
    entries = [
        {"name": name, "kind": kind, "namespaced": inside, "verbs": list(ALL)}
        for name, kind, inside in served
    ]
    answer = {"kind": "APIResourceList", "groupVersion": "v1", "resources": entries}
    found = mapped(branch, "/api/v1", answer)
    assert [(each["name"], each["verbs"]) for each in found["resources"]] == [
        ("pods", list(ALL)),
        ("pods/log", list(ALL)),
        ("serviceaccounts", list(ALL)),
        ("nodes", ["get", "list", "watch"]),
        ("namespaces", list(ALL)),
    ]


def test_aggregated_discovery_shows_the_subresources_that_are_allowed(branch: FakeView) -> None:
    parts = [{"subresource": "log"}, {"subresource": "status"}]
    core = [
        ("serviceaccounts", "ServiceAccount", "Namespaced", [{"subresource": "token"}]),
        ("pods", "Pod", "Namespaced", parts),
        ("nodes", "Node", "Cluster", [{"subresource": "proxy"}]),
    ]
    entries = [
        {"resource": name, "responseKind": {"kind": kind}, "scope": scope, "subresources": inside}
        for name, kind, scope, inside in core
    ]
    group = {"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": entries}]}
    found = mapped(branch, "/api", {"kind": "APIGroupDiscoveryList", "items": [group]})
    shown = found["items"][0]["versions"][0]["resources"]
    assert [each["subresources"] for each in shown] == [[], parts, []]


def test_aggregated_discovery_leaves_them_out_too(branch: FakeView) -> None:
    def group(name: str, *kinds: tuple[str, str]) -> Object:
        entries = [
            {"resource": kind.lower(), "responseKind": {"kind": kind}, "scope": scope}
            for kind, scope in kinds
        ]
        versions = [
            {"version": "v1", "resources": entries},
            {"version": "v2", "freshness": "Stale"},
        ]
        return {"metadata": {"name": name}, "versions": versions}

    secret = group("certificates.k8s.io", ("CertificateSigningRequest", "Cluster"))
    answer = {
        "kind": "APIGroupDiscoveryList",
        "items": [group("apps", ("Deployment", "Namespaced")), secret],
    }
    found = mapped(branch, "/apis", answer)
    assert [
        [entry["responseKind"]["kind"] for entry in each["versions"][0]["resources"]]
        for each in found["items"]
    ] == [["Deployment"]]
    assert [each["versions"][1]["freshness"] for each in found["items"]] == ["Stale"]
