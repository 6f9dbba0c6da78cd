"""Objects and labels that every claimed namespace gets (rewriting-rules 6).

They are written as the server stores them, with its defaults, so that a restart writes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_network
from typing import Any

from karmada_vc_agent.model import quantity, vocabulary
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    labels_of,
    metadata_map,
)
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualCluster, VirtualNamespace
from karmada_vc_agent.model.vocabulary import CLUSTER_LABEL, RBAC_API, RBAC_GROUP
from karmada_vc_agent.translation.context import ANCHOR_NAMESPACE, GatewayBinding
from karmada_vc_agent.translation.rbac import admin_groups

QUOTA_NAME = "vc-quota"
LIMITS_NAME = "vc-limits"
ISOLATION_NAME = "vc-isolation"
APPLY_AS_NAME = "vc:apply-as"
ADMIN_NAME = "vc:admin"
READER_NAME = "vc:reader"
GATEWAY_NAME = "vc:gateway"
"""Names that manifests may not use (kind_policy)."""

BINDING_NAMES = (APPLY_AS_NAME, ADMIN_NAME, READER_NAME, GATEWAY_NAME)
"""RoleBindings that only the agent writes."""

POD_SECURITY_LABEL = "pod-security.kubernetes.io/enforce"

_EVERYWHERE = {4: "0.0.0.0/0", 6: "::/0"}

DEFAULT_KINDS: Mapping[GroupVersionKind, tuple[str, ...]] = {
    GroupVersionKind("", "v1", "ResourceQuota"): (QUOTA_NAME,),
    GroupVersionKind("", "v1", "LimitRange"): (LIMITS_NAME,),
    GroupVersionKind("networking.k8s.io", "v1", "NetworkPolicy"): (ISOLATION_NAME,),
    GroupVersionKind(RBAC_GROUP, "v1", "RoleBinding"): BINDING_NAMES,
}
"""Kind -> names of the default objects of that kind."""


def namespace_defaults(
    vc: VirtualCluster,
    virtual: VirtualNamespace,
    host: HostNamespace,
    infrastructure: Iterable[str],
    pod_cidrs: Iterable[str],
    gateway: GatewayBinding | None = None,
) -> list[Object]:
    """Return the default objects of one namespace that do not depend on other namespaces.

    infrastructure: host namespaces that may reach isolated pods. pod_cidrs: of the host's pods; ()
    = unknown. gateway: None = off. The quota depends on the other namespaces: see empty_quota().
    """
    objects = []
    if vc.limits:
        limits = {"spec": {"limits": list(map(_with_server_defaults, vc.limits))}}
        objects.append(_object("v1", "LimitRange", LIMITS_NAME, limits))
    if vc.network_policy == "isolate":
        spec = {"spec": _isolation(vc.name, infrastructure, pod_cidrs)}
        objects.append(_object("networking.k8s.io/v1", "NetworkPolicy", ISOLATION_NAME, spec))
    if vc.apply_as is not None and vc.apply_as.cluster_role:
        account = _account(vc.apply_as.namespace, vc.apply_as.name)
        objects.append(_binding(APPLY_AS_NAME, vc.apply_as.cluster_role, account))
    if gateway is not None:
        objects += _bindings_of_gateway(vc, virtual, gateway)
    return [_claimed(obj, vc, virtual, host) for obj in objects]


def _bindings_of_gateway(
    vc: VirtualCluster, virtual: VirtualNamespace, gateway: GatewayBinding
) -> Iterator[Object]:
    """Yield what callers of the gateway may do; in the anchor without a namespace (G-22)."""
    admins = [
        {"apiGroup": RBAC_GROUP, "kind": "Group", "name": group} for group in admin_groups(vc.name)
    ]
    yield _binding(ADMIN_NAME, vocabulary.NAMESPACE_ADMIN, *admins)
    if virtual == ANCHOR_NAMESPACE:
        yield _binding(READER_NAME, vocabulary.CLUSTER_READER, *admins)
    else:
        yield _binding(GATEWAY_NAME, gateway.role, _account(*gateway.account))


def _binding(name: str, cluster_role: str, *subjects: Object) -> Object:
    role = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": cluster_role}
    return _object(RBAC_API, "RoleBinding", name, {"roleRef": role, "subjects": list(subjects)})


def _account(namespace: str, name: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def empty_quota(vc: VirtualCluster, virtual: VirtualNamespace, host: HostNamespace) -> Object:
    """Return the initial quota of a namespace: zero, until it gets its share."""
    spec = {"spec": {"hard": dict.fromkeys(sorted(vc.quota), "0")}}
    return _claimed(_object("v1", "ResourceQuota", QUOTA_NAME, spec), vc, virtual, host)


def put_pod_security(namespace: Object, vc: VirtualCluster) -> None:
    """Label a Namespace on its way to the host with the Pod Security level of the settings."""
    if not vc.pod_security:
        return
    metadata_map(namespace, "labels")[POD_SECURITY_LABEL] = vc.pod_security
    metadata_map(namespace, "annotations")[vocabulary.POD_SECURITY_ANNOTATION] = vc.pod_security


def pod_security_changes(live: Object, vc: VirtualCluster) -> Object:
    """Return the merge patch of metadata that sets the level, or removes ours; {} = no change."""
    label = labels_of(live).get(POD_SECURITY_LABEL)
    changes: Object = {}
    level = vc.pod_security or None
    if (level or has_our_pod_security(live)) and label != level:
        changes["labels"] = {POD_SECURITY_LABEL: level}
    if annotations_of(live).get(vocabulary.POD_SECURITY_ANNOTATION) != level:
        changes["annotations"] = {vocabulary.POD_SECURITY_ANNOTATION: level}
    return changes


def has_our_pod_security(live: Object) -> bool:
    """Return whether the agent set the level on a Namespace, and not its Work."""
    marks = annotations_of(live)
    managed = marks.get(vocabulary.MANAGED_LABELS_ANNOTATION, "").split(",")
    level = marks.get(vocabulary.POD_SECURITY_ANNOTATION)
    return POD_SECURITY_LABEL not in managed and labels_of(live).get(POD_SECURITY_LABEL) == level


def _object(api_version: str, kind: str, name: str, body: Object) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **body}


def _claimed(
    obj: Object, vc: VirtualCluster, virtual: VirtualNamespace, host: HostNamespace
) -> Object:
    labels = {CLUSTER_LABEL: vc.name, vocabulary.NAMESPACE_LABEL: virtual}
    obj["metadata"] |= {"namespace": host, "labels": labels}
    return obj


def _with_server_defaults(limit: Object) -> Object:
    """Return one item of a LimitRange with defaults of kubernetes pkg/apis/core/v1/defaults.go."""
    amounts: dict[str, dict[str, str]] = {
        key: {name: str(quantity.parse(amount)) for name, amount in value.items()}
        for key, value in limit.items()
        if key != "type"
    }
    if limit.get("type") == "Container":
        default = {**amounts.get("max", {}), **amounts.get("default", {})}
        requests = {**amounts.get("min", {}), **default, **amounts.get("defaultRequest", {})}
        amounts |= {"default": default, "defaultRequest": requests}
    return {"type": limit["type"], **{key: value for key, value in amounts.items() if value}}


def _isolation(
    cluster: str, infrastructure: Iterable[str], pod_cidrs: Iterable[str]
) -> dict[str, Any]:
    values = sorted(set(infrastructure))
    named = {"key": vocabulary.NAMESPACE_NAME_LABEL, "operator": "In", "values": values}
    ingress: list[Object] = [
        {"from": [{"namespaceSelector": {"matchLabels": {CLUSTER_LABEL: cluster}}}]},
        {"from": [{"namespaceSelector": {"matchExpressions": [named]}}]},
    ]
    networks = [ip_network(cidr) for cidr in pod_cidrs]
    outside = [
        {"ipBlock": {"cidr": everywhere, "except": [str(n) for n in networks if n.version == v]}}
        for v, everywhere in _EVERYWHERE.items()
        if any(network.version == v for network in networks)
    ]
    if outside:
        # Traffic to node ports has external addresses.
        ingress.append({"from": outside})
    return {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": ingress}


def is_made_by_agent(host_namespace: Object) -> bool:
    """Return whether an agent created a namespace, so that it is deleted on release."""
    marks = annotations_of(host_namespace)
    is_created = marks.get(vocabulary.CREATED_BY_AGENT_ANNOTATION) == "true"
    return is_created and vocabulary.ADOPTED_ANNOTATION not in marks
