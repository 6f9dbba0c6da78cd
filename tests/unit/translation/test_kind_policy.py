"""Kind policy: what is applied, mapped, refused, hidden."""

import pytest

from karmada_vc_agent.model.objects import Object, parse_api_version
from karmada_vc_agent.translation import kind_policy
from karmada_vc_agent.translation.kind_policy import Code, Policy, Refusal
from karmada_vc_agent.translation.translate import translate
from tests.unit.translation import given

REFUSED_NAMESPACED = [
    ("v1", "Event"),
    ("events.k8s.io/v1", "Event"),
    ("v1", "Binding"),
    ("authentication.k8s.io/v1", "TokenRequest"),
    ("authorization.k8s.io/v1", "LocalSubjectAccessReview"),
    ("storage.k8s.io/v1", "CSIStorageCapacity"),
    ("policy.kubeedge.io/v1alpha1", "ServiceAccountAccess"),
    ("reliablesyncs.kubeedge.io/v1alpha1", "ObjectSync"),
    ("work.karmada.io/v1alpha2", "ResourceBinding"),
    ("policy.karmada.io/v1alpha1", "PropagationPolicy"),
    ("virtualcluster.kubeedge.io/v1alpha1", "VirtualCluster"),
]
REFUSED_CLUSTER_SCOPED = [
    ("v1", "Node"),
    ("apiregistration.k8s.io/v1", "APIService"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("apps.kubeedge.io/v1alpha1", "NodeGroup"),
    ("cluster.karmada.io/v1alpha1", "Cluster"),
    ("example.com/v1", "Anything"),
    ("example.com/v1", "Namespace"),
]
SYSTEM = {"karmada.io/system": "true"}
APPLIED = [
    ("v1", "ConfigMap"),
    ("apps/v1", "Deployment"),
    ("example.com/v1", "Event"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("devices.kubeedge.io/v1beta1", "Device"),
    ("example.com/v1", "Unknown"),
]


def manifest(api_version: str, kind: str, namespace: str = "edge") -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": namespace},
    }


@pytest.mark.parametrize(
    ("api_version", "kind", "namespaced"),
    [(*each, True) for each in REFUSED_NAMESPACED]
    + [(*each, False) for each in REFUSED_CLUSTER_SCOPED],
)
def test_refused_kind_is_hidden_too(api_version: str, kind: str, namespaced: bool) -> None:
    gvk = parse_api_version(api_version, kind)
    assert kind_policy.hidden_from_api_enablements(gvk, namespaced=namespaced)
    refusal = given.refusal(manifest(api_version, kind), namespaced=namespaced)
    assert refusal.code is Code.KIND_FORBIDDEN
    assert kind in refusal.detail


@pytest.mark.parametrize(("api_version", "kind"), APPLIED)
def test_other_namespaced_kind_is_applied_and_shown(api_version: str, kind: str) -> None:
    gvk = parse_api_version(api_version, kind)
    assert kind_policy.policy_for(gvk, namespaced=True) is Policy.APPLY
    assert not kind_policy.hidden_from_api_enablements(gvk, namespaced=True)
    assert given.host_object(manifest(api_version, kind))["kind"] == kind


@pytest.mark.parametrize(("api_version", "kind"), [("v1", "Node"), ("v1", "Event")])
def test_kind_that_is_only_read_is_shown_where_the_hub_reads(api_version: str, kind: str) -> None:
    gvk = parse_api_version(api_version, kind)
    namespaced = kind == "Event"
    assert kind_policy.hidden_from_api_enablements(gvk, namespaced=namespaced)
    assert not kind_policy.hidden_from_api_enablements(gvk, namespaced=namespaced, is_reached=True)


def test_namespace_is_mapped_and_shown() -> None:
    gvk = parse_api_version("v1", "Namespace")
    assert kind_policy.policy_for(gvk, namespaced=False) is Policy.MAP
    assert not kind_policy.hidden_from_api_enablements(gvk, namespaced=False)


@pytest.mark.parametrize(
    ("api_version", "kind", "name", "is_reserved"),
    [
        ("rbac.authorization.k8s.io/v1", "Role", "vc:x", True),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", "vc:crb:x", True),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", "vc-agent:x", True),
        ("rbac.authorization.k8s.io/v1", "Role", "vc-agent:x", True),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", "vc-x", False),
        ("networking.k8s.io/v1", "NetworkPolicy", "vc-isolation", True),
        ("v1", "ResourceQuota", "vc-quota", True),
        ("v1", "LimitRange", "vc-limits", True),
        ("v1", "ConfigMap", "vc-limits", False),
        ("v1", "LimitRange", "limits", False),
    ],
)
def test_reserved_name_is_refused(
    api_version: str, kind: str, name: str, is_reserved: bool
) -> None:
    obj = manifest(api_version, kind)
    obj["metadata"]["name"] = name
    if is_reserved:
        assert given.refusal(obj).code is Code.NAME_RESERVED
    else:
        assert given.host_object(obj)["metadata"]["name"] == name


@pytest.mark.parametrize(
    ("kind", "name", "labels", "expected"),
    [
        ("ClusterRole", "karmada-impersonator", SYSTEM, Policy.RENAME),
        ("ClusterRoleBinding", "karmada-impersonator", SYSTEM, Policy.ABSORB),
        ("Role", "karmada-impersonator", SYSTEM, None),
        ("ClusterRole", "other", SYSTEM, None),
        ("ClusterRole", "karmada-impersonator", {}, None),
        (
            "ClusterRole",
            "karmada-impersonator",
            {**SYSTEM, "resourcebinding.karmada.io/permanent-id": "1"},
            None,
        ),
    ],
)
def test_control_planes_own_object_is_recognised(
    kind: str, name: str, labels: dict[str, str], expected: Policy | None
) -> None:
    obj = manifest("rbac.authorization.k8s.io/v1", kind)
    obj["metadata"] = {"name": name, "labels": labels}
    assert kind_policy.control_planes_own(obj) is expected


@pytest.mark.parametrize(
    ("allowed", "denied", "api_version", "kind", "is_denied"),
    [
        ((), (), "v1", "Secret", False),
        ((), ("Secret",), "v1", "Secret", True),
        ((), ("Secret",), "example.com/v1", "Secret", False),
        ((), ("apps/*",), "apps/v1", "DaemonSet", True),
        ((), ("*/Ingress",), "networking.k8s.io/v1", "Ingress", True),
        ((), ("*/*",), "v1", "ConfigMap", True),
        (("apps/Deployment", "ConfigMap"), (), "apps/v1", "Deployment", False),
        (("apps/Deployment", "ConfigMap"), (), "apps/v1", "StatefulSet", True),
        (("apps/*",), ("apps/DaemonSet",), "apps/v1", "DaemonSet", True),
    ],
)
def test_kinds_of_the_settings_are_refused_and_hidden(
    allowed: tuple[str, ...], denied: tuple[str, ...], api_version: str, kind: str, is_denied: bool
) -> None:
    context = given.context(vc={"allowed_kinds": allowed, "denied_kinds": denied})
    gvk = parse_api_version(api_version, kind)
    hidden = kind_policy.hidden_from_api_enablements(gvk, namespaced=True, vc=context.vc)
    assert hidden is is_denied
    if is_denied:
        refusal = given.refusal(manifest(api_version, kind), context)
        assert refusal.code is Code.KIND_FORBIDDEN
        assert refusal.detail == f"kind {kind} is not allowed in this virtual cluster"
    else:
        given.host_object(manifest(api_version, kind), context)


def test_namespaces_are_never_denied() -> None:
    context = given.context(vc={"allowed_kinds": ("ConfigMap",), "denied_kinds": ("*/*",)})
    obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "edge"}}
    assert (
        given.host_object(obj, context, namespaced=False)["metadata"]["name"] == "edge-v-branch-a"
    )


@pytest.mark.parametrize(
    ("group", "is_hosts"),
    [
        ("virtualcluster.kubeedge.io", True),
        ("apps.kubeedge.io", True),
        ("cluster.karmada.io", True),
        ("snapshot.storage.k8s.io", True),
        ("kubernetes.io", True),
        ("notkarmada.io", False),
        ("karmada.io.example.com", False),
    ],
)
def test_kinds_of_systems_are_the_hosts_to_define(group: str, is_hosts: bool) -> None:
    manifest = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group},
    }
    result = translate(manifest, False, given.context())
    assert isinstance(result, Refusal) == is_hosts
    assert not is_hosts or getattr(result, "path", "") == "spec.group"
