"""Which labels and annotations of Namespaces and ClusterRoles reach the host."""

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import SHARED, STRICT
from karmada_vc_agent.translation.context import NoticeCode
from tests.unit.translation import given

OPT_OUTS = (
    *("admission.gatekeeper.sh/ignore", "control-plane", "istio-injection", "istio.io/rev"),
    *("policies.kyverno.io/ignore", "linkerd.io/inject", "field.cattle.io/projectId"),
    *("scheduler.alpha.kubernetes.io/defaultTolerations", "openpolicyagent.org/webhook"),
    *("cert-manager.io/disable-validation", "openshift.io/sa.scc.uid-range"),
    *("notkarmada.io/x", "evil-karmada.io/x"),
)
HARMLESS = ("team", "app.kubernetes.io/part-of", "pod-security.kubernetes.io/audit")
KARMADAS = ("karmada.io/managed", "namespace.karmada.io/skip-auto-propagation")


def passed(key: str, tenancy: str, *patterns: str, field: str = "labels") -> tuple[bool, list[str]]:
    settings = {"tenancy": tenancy, "namespace_keys": patterns}
    obj: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "edge"}}
    obj["metadata"][field] = {key: "x"}
    context = given.context(settings=settings)
    result = given.translated(obj, context, namespaced=False)
    return key in result.obj["metadata"][field], [notice.code for notice in result.notices]


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize("tenancy", [SHARED, STRICT])
@pytest.mark.parametrize("key", OPT_OUTS)
def test_label_that_disables_a_guard_is_dropped_and_reported(
    key: str, tenancy: str, field: str
) -> None:
    assert passed(key, tenancy, field=field) == (False, [NoticeCode.METADATA_DROPPED])
    assert passed(key, tenancy, key, field=field) == (True, [])


@pytest.mark.parametrize("key", HARMLESS)
def test_what_says_nothing_to_controllers_passes_in_shared(key: str) -> None:
    assert passed(key, SHARED) == (True, [])
    assert passed(key, STRICT) == (False, [NoticeCode.METADATA_DROPPED])
    assert passed(key, STRICT, f"{key.partition('/')[0]}*") == (True, [])


@pytest.mark.parametrize("tenancy", [SHARED, STRICT])
@pytest.mark.parametrize("key", KARMADAS)
def test_karmadas_own_keys_pass(key: str, tenancy: str) -> None:
    assert passed(key, tenancy) == (True, [])


def test_cluster_role_labels_are_dropped_and_aggregating_ones_reported() -> None:
    role: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": "reader",
            "labels": {
                "rbac.authorization.k8s.io/aggregate-to-view": "true",
                "team": "a",
                "karmada.io/managed": "true",
            },
        },
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    }
    result = given.translated(role, namespaced=False)
    labels = result.obj["metadata"]["labels"]
    assert {key for key in labels if not key.startswith("virtualcluster")} == {"karmada.io/managed"}
    [notice] = result.notices
    assert notice.code is NoticeCode.METADATA_DROPPED
    assert "aggregate-to-view" in notice.detail
    assert "team" not in notice.detail
