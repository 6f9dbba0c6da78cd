"""What every claimed namespace gets."""

from typing import Any

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import (
    ApplyAs,
    HostNamespace,
    PodSecurity,
    VirtualCluster,
    VirtualNamespace,
)
from karmada_vc_agent.model.vocabulary import (
    CLUSTER_LABEL,
    NAMESPACE_LABEL,
    POD_SECURITY_ANNOTATION,
)
from karmada_vc_agent.translation.context import GatewayBinding
from karmada_vc_agent.translation.namespace_defaults import (
    POD_SECURITY_LABEL,
    empty_quota,
    namespace_defaults,
    pod_security_changes,
)
from tests.unit.translation import given

EDGE, HOST = VirtualNamespace("edge"), HostNamespace("edge-v-branch-a")
MANAGED_LABELS = "resourcetemplate.karmada.io/managed-labels"


def defaults(
    infrastructure: tuple[str, ...] = ("kube-system", "agent"),
    pod_cidrs: tuple[str, ...] = (),
    **fields: Any,
) -> list[Object]:
    vc = given.virtual_cluster(**fields)
    return namespace_defaults(vc, EDGE, HOST, infrastructure, pod_cidrs)


def test_nothing_is_created_unless_requested() -> None:
    assert defaults() == []


def test_objects_are_in_the_namespace_and_say_whose_they_are() -> None:
    (limits,) = defaults(limits=({"type": "Pod", "max": {"cpu": "1"}},))
    assert limits["metadata"] == {
        "name": "vc-limits",
        "namespace": HOST,
        "labels": {CLUSTER_LABEL: "branch-a", NAMESPACE_LABEL: "edge"},
    }


def test_limits_are_written_as_the_server_keeps_them() -> None:
    (limits,) = defaults(
        limits=(
            {"type": "Container", "max": {"cpu": "1000m"}, "min": {"memory": "1024Ki"}},
            {"type": "Container", "default": {"cpu": 1}, "defaultRequest": {"cpu": "0.1"}},
        )
    )
    assert limits["spec"]["limits"] == [
        {
            "type": "Container",
            "max": {"cpu": "1"},
            "min": {"memory": "1Mi"},
            "default": {"cpu": "1"},
            "defaultRequest": {"cpu": "1", "memory": "1Mi"},
        },
        {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}},
    ]


def test_isolated_pods_are_reached_from_their_own_and_the_infrastructure() -> None:
    (policy,) = defaults(network_policy="isolate")
    assert policy["metadata"]["name"] == "vc-isolation"
    named = {
        "key": "kubernetes.io/metadata.name",
        "operator": "In",
        "values": ["agent", "kube-system"],
    }
    assert policy["spec"] == {
        "podSelector": {},
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": [{"namespaceSelector": {"matchLabels": {CLUSTER_LABEL: "branch-a"}}}]},
            {"from": [{"namespaceSelector": {"matchExpressions": [named]}}]},
        ],
    }


def test_world_outside_is_admitted_where_the_pod_networks_are_set() -> None:
    (policy,) = defaults(network_policy="isolate", pod_cidrs=("10.0.0.0/16", "10.1.0.0/16"))
    assert policy["spec"]["ingress"][2] == {
        "from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/16", "10.1.0.0/16"]}}]
    }
    (policy,) = defaults(network_policy="isolate", pod_cidrs=("10.0.0.0/16", "fd00::/48"))
    assert policy["spec"]["ingress"][2]["from"][1] == {
        "ipBlock": {"cidr": "::/0", "except": ["fd00::/48"]}
    }


def test_account_is_bound_where_a_role_is_named() -> None:
    assert defaults(apply_as=ApplyAs("tenants", "a")) == []
    (binding,) = defaults(apply_as=ApplyAs("tenants", "a", "edit"))
    assert binding["metadata"]["name"] == "vc:apply-as"
    assert binding["roleRef"]["name"] == "edit"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "a", "namespace": "tenants"}]


def test_quota_begins_with_nothing() -> None:
    vc = given.virtual_cluster(quota={"pods": "5", "requests.cpu": "2"})
    assert empty_quota(vc, EDGE, HOST)["spec"] == {"hard": {"pods": "0", "requests.cpu": "0"}}


def namespace(labels: dict[str, str] | None = None) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "edge", "labels": labels or {}},
    }


def test_namespace_gets_its_level_whatever_its_own_label_says() -> None:
    context = given.context(vc={"pod_security": "restricted"})
    for own in ({}, {POD_SECURITY_LABEL: "privileged"}):
        obj = given.host_object(namespace(own), context, namespaced=False)
        assert obj["metadata"]["labels"][POD_SECURITY_LABEL] == "restricted"
        assert obj["metadata"]["annotations"][POD_SECURITY_ANNOTATION] == "restricted"
    assert POD_SECURITY_LABEL not in str(given.host_object(namespace(), namespaced=False))


PUT = {POD_SECURITY_ANNOTATION: "baseline"}


@pytest.mark.parametrize(
    ("level", "labels", "annotations", "expected"),
    [
        ("", {}, {}, {}),
        ("", {POD_SECURITY_LABEL: "baseline"}, {}, {}),
        ("baseline", {POD_SECURITY_LABEL: "baseline"}, PUT, {}),
        (
            "baseline",
            {},
            {},
            {"labels": {POD_SECURITY_LABEL: "baseline"}, "annotations": PUT},
        ),
        ("baseline", {POD_SECURITY_LABEL: "x"}, PUT, {"labels": {POD_SECURITY_LABEL: "baseline"}}),
        (
            "baseline",
            {POD_SECURITY_LABEL: "restricted"},
            {**PUT, MANAGED_LABELS: f"a,{POD_SECURITY_LABEL}"},
            {"labels": {POD_SECURITY_LABEL: "baseline"}},
        ),
        (
            "",
            {POD_SECURITY_LABEL: "baseline"},
            PUT,
            {
                "labels": {POD_SECURITY_LABEL: None},
                "annotations": {POD_SECURITY_ANNOTATION: None},
            },
        ),
        (
            "",
            {POD_SECURITY_LABEL: "restricted"},
            PUT,
            {"annotations": {POD_SECURITY_ANNOTATION: None}},
        ),
    ],
)
def test_level_is_kept_right(
    level: PodSecurity, labels: dict[str, str], annotations: dict[str, str], expected: Object
) -> None:
    live = namespace(labels)
    live["metadata"]["annotations"] = annotations
    assert pod_security_changes(live, VirtualCluster("branch-a", pod_security=level)) == expected


GATEWAY = GatewayBinding(("agents", "agent-gateway"), "vc-agent:agent:gateway:accounts")


@pytest.mark.parametrize("virtual", ["edge", "vc-system"])
def test_gateway_binds_its_callers_in_each_namespace(virtual: str) -> None:
    vc = given.virtual_cluster()
    made = namespace_defaults(vc, VirtualNamespace(virtual), HOST, (), (), GATEWAY)
    found = {obj["metadata"]["name"]: obj for obj in made}
    groups = [subject["name"] for subject in found["vc:admin"]["subjects"]]
    assert groups == ["vc:branch-a:system:masters", "vc:branch-a:karmada-access"]
    assert found["vc:admin"]["roleRef"]["name"] == "virtual-cluster-admin"
    if virtual == "vc-system":
        assert set(found) == {"vc:admin", "vc:reader"}
        assert found["vc:reader"]["roleRef"]["name"] == "virtual-cluster-reader"
    else:
        assert set(found) == {"vc:admin", "vc:gateway"}
        (account,) = found["vc:gateway"]["subjects"]
        assert (account["namespace"], account["name"]) == ("agents", "agent-gateway")
