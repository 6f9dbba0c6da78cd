"""External names, addresses and load balancers of Services."""

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import BALANCER_POOL_LABEL
from karmada_vc_agent.translation.kind_policy import Code
from tests.unit.translation import given


def service(external_name: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "edge"},
        "spec": {"externalName": external_name},
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("db.ops.svc", "db.ops-v-branch-a.svc"),
        ("db.ops.svc.", "db.ops-v-branch-a.svc."),
        ("db.ops.svc.cluster.local", "db.ops-v-branch-a.svc.cluster.local"),
        ("web-0.db.ops.svc.cluster.local.", "web-0.db.ops-v-branch-a.svc.cluster.local."),
        ("db.ops.svc.example.com", "db.ops.svc.example.com"),
        ("db.ops.svcs", "db.ops.svcs"),
        ("ops.svc", "ops.svc"),
        ("db.ops.svcxcluster.local", "db.ops.svcxcluster.local"),
        ("db.ops.svc.clusterxlocal", "db.ops.svc.clusterxlocal"),
        ("example.com", "example.com"),
        (7, 7),
    ],
)
def test_external_name(name: object, expected: object) -> None:
    assert given.host_object(service(name))["spec"]["externalName"] == expected


def test_configured_domain_counts() -> None:
    context = given.context(settings={"cluster_domain": "site.lan"})
    host = given.host_object(service("db.ops.svc.site.lan"), context)
    assert host["spec"]["externalName"] == "db.ops-v-branch-a.svc.site.lan"


def test_external_name_in_kube_system_is_refused() -> None:
    refusal = given.refusal(service("dns.kube-system.svc"))
    assert (refusal.code, refusal.path) == (Code.REFERENCE_FORBIDDEN, "spec.externalName")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"clusterIP": ""}, {}),
        ({"clusterIP": "None"}, {"clusterIP": "None"}),
        ({"clusterIPs": ["10.0.0.1", "fd00::1"]}, {}),
        (None, None),
    ],
)
def test_addresses(spec: object, expected: object) -> None:
    obj = {**service(""), "spec": spec}
    assert given.host_object(obj)["spec"] == expected


@pytest.mark.parametrize(
    ("kind", "required", "expected"),
    [
        ("LoadBalancer", {BALANCER_POOL_LABEL: "a", "branch": "a"}, "a"),
        ("LoadBalancer", {"branch": "a"}, "b"),
        ("ClusterIP", {BALANCER_POOL_LABEL: "a"}, "b"),
    ],
)
def test_a_load_balancer_is_in_the_pool_of_own_nodes(
    kind: str, required: dict[str, str], expected: str
) -> None:
    obj = service(None)
    obj["metadata"]["labels"] = {BALANCER_POOL_LABEL: "b"}
    obj["spec"] = {"type": kind, "ports": [{"port": 443}]}
    host = given.host_object(obj, given.context(vc={"required": required}))
    assert host["metadata"]["labels"][BALANCER_POOL_LABEL] == expected
