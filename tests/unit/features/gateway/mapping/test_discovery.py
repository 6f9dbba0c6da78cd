"""5.1, 5.5: discovery without what a virtual cluster never sees, in all its forms."""

import pytest

from karmada_vc_agent.features.gateway.mapping.cluster_view import (
    KindScope,
    ResponseKind,
    scope_of,
)
from karmada_vc_agent.features.gateway.mapping.refusals import KindInfo
from karmada_vc_agent.model.objects import GroupVersionKind
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
def test_discovery_is_that_of_the_host(branch: FakeView, path: str) -> None:
    planned = forwarded(branch, "GET", path, accept=AGGREGATED)
    assert (planned.path, planned.accept) == (path, AGGREGATED)
    assert planned.response.kind is ResponseKind.OPAQUE
    assert not planned.as_gateway
