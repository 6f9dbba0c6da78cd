"""What an API server makes of an object that is PUT, for kinds whose changes it does not count.

Kinds with a `metadata.generation` have a mark instead (written_mark.py). A field that no row knows
costs a PUT that changes nothing, once a start; a row that is wrong could hide a change, so a row is
only what the server documents.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    dig,
    drop,
    gvk_of,
    maps_at,
    put,
)
from karmada_vc_agent.model.quantity import read
from karmada_vc_agent.model.well_known import NAMESPACE_NAME_LABEL, RBAC_GROUP

Rule = Callable[[Object, Object], Object]
"""(desired, live) -> desired with what the server adds, or takes from the live object."""

_WITH_PORTS_OF_NODES = ("NodePort", "LoadBalancer")
_CLIENT_IP_TIMEOUT_S = 10_800
_CPU_PERCENT = 80
_SUBJECTS_OF_RBAC = ("User", "Group")


def completed(desired: Object, live: Object) -> Object:
    """Return the object as the server would store it in place of the live one."""
    rule = RULES.get(gvk_of(desired))
    is_readable = isinstance(desired.get("spec") or {}, dict)
    return rule(desired, live) if rule and is_readable else desired


def _namespace(desired: Object, live: Object) -> Object:
    """Only a subresource changes `spec.finalizers`; the server labels it with its name."""
    name = dig(desired, "metadata", "name")
    desired = put(desired, name, "metadata", "labels", NAMESPACE_NAME_LABEL)
    return _carried(desired, live, "spec")


def _service(desired: Object, live: Object) -> Object:
    spec = dict(desired.get("spec") or {})
    exposed = spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if spec["sessionAffinity"] == "ClientIP":
        config = {"clientIP": {"timeoutSeconds": _CLIENT_IP_TIMEOUT_S}}
        spec.setdefault("sessionAffinityConfig", config)
    if exposed != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if exposed in _WITH_PORTS_OF_NODES:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if exposed == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if exposed == dig(live, "spec", "type") != "ExternalName":
        # Chosen when it was created; a PUT without them leaves them.
        for field in ("ipFamilies", "ipFamilyPolicy", "clusterIPs"):
            value = dig(live, "spec", field)
            if value is not None:
                spec.setdefault(field, value)
    if isinstance(spec.get("ports"), list):
        spec["ports"] = _service_ports(spec["ports"], exposed, live)
    return {**desired, "spec": spec}


def _service_ports(ports: list[Any], exposed: str, live: Object) -> list[Any]:
    before = maps_at(live, "spec", "ports")
    if exposed not in _WITH_PORTS_OF_NODES or dig(live, "spec", "type") not in _WITH_PORTS_OF_NODES:
        before = []
    node_ports = {_port_key(port): port.get("nodePort") for port in before}
    done = []
    for port in ports:
        if isinstance(port, dict):
            port = {"protocol": "TCP", "targetPort": port.get("port"), **port}  # noqa: PLW2901
            if not port.get("nodePort") and node_ports.get(_port_key(port)):
                port["nodePort"] = node_ports[_port_key(port)]
        done.append(port)
    return done


def _port_key(port: Object) -> tuple[str, str]:
    return str(port.get("protocol", "TCP")), str(port.get("port"))


def _volume_claim(desired: Object, live: Object) -> Object:
    """Its class is chosen when it is created, and does not change."""
    spec = {"volumeMode": "Filesystem", **(desired.get("spec") or {})}
    chosen = dig(live, "spec", "storageClassName")
    if chosen is not None:
        spec.setdefault("storageClassName", chosen)
    return _canonical({**desired, "spec": spec}, "spec", "resources", "requests")


def _volume(desired: Object, _live: Object) -> Object:
    defaults = {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"}
    spec = {**defaults, **(desired.get("spec") or {})}
    if isinstance(spec.get("hostPath"), dict):
        spec["hostPath"] = {"type": "", **spec["hostPath"]}
    return _canonical({**desired, "spec": spec}, "spec", "capacity")


def _autoscaler(desired: Object, _live: Object) -> Object:
    spec = {"minReplicas": 1, **(desired.get("spec") or {})}
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": _CPU_PERCENT}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    return {**desired, "spec": spec}


def _secret(desired: Object, _live: Object) -> Object:
    """`stringData` is written only, over `data`."""
    desired = {"type": "Opaque", **desired}
    texts = desired.get("stringData")
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        return desired
    data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    before = desired.get("data")
    whole = {**(before if isinstance(before, dict) else {}), **data}
    desired = drop(desired, "stringData")
    return put(desired, whole, "data") if whole else desired


def _role_binding(desired: Object, _live: Object) -> Object:
    subjects = desired.get("subjects")
    if isinstance(subjects, list):
        desired = {**desired, "subjects": [_subject(each) for each in subjects]}
    return desired


def _subject(subject: Any) -> Any:
    named = dig(subject, "kind")
    is_of_rbac = isinstance(named, str) and named in _SUBJECTS_OF_RBAC
    return {"apiGroup": RBAC_GROUP, **subject} if is_of_rbac else subject


def _limit_range(desired: Object, _live: Object) -> Object:
    limits = dig(desired, "spec", "limits")
    if not isinstance(limits, list):
        return desired
    return put(desired, [_limit(each) for each in limits], "spec", "limits")


def _limit(limit: Any) -> Any:
    """Give a container its maximum by default, and that for what it requests."""
    fields = ("max", "default", "defaultRequest", "min")
    if dig(limit, "type") != "Container":
        return limit
    amounts = [limit.get(field) or {} for field in fields]
    if not all(isinstance(each, dict) for each in amounts):
        return limit
    most, default, request, least = amounts
    default = {**most, **default}
    request = {**least, **default, **request}
    return {**limit, **{k: v for k, v in (("default", default), ("defaultRequest", request)) if v}}


def _quota(desired: Object, _live: Object) -> Object:
    return _canonical(desired, "spec", "hard")


def _canonical(obj: Object, *path: str) -> Object:
    """Return an object with the amounts of a map as servers write them: `1` for `1000m`."""
    amounts = dig(obj, *path)
    if not isinstance(amounts, dict):
        return obj
    return put(obj, {name: _amount(raw) for name, raw in amounts.items()}, *path)


def _amount(raw: Any) -> Any:
    quantity = read(raw) if isinstance(raw, str | int | float) else None
    return raw if quantity is None else str(quantity)


def _carried(desired: Object, live: Object, field: str) -> Object:
    value = live.get(field)
    return drop(desired, field) if value is None else {**desired, field: value}


RULES: Mapping[GroupVersionKind, Rule] = {
    GroupVersionKind("", "v1", "Namespace"): _namespace,
    GroupVersionKind("", "v1", "LimitRange"): _limit_range,
    GroupVersionKind("", "v1", "Service"): _service,
    GroupVersionKind("", "v1", "PersistentVolumeClaim"): _volume_claim,
    GroupVersionKind("", "v1", "PersistentVolume"): _volume,
    GroupVersionKind("", "v1", "ResourceQuota"): _quota,
    GroupVersionKind("", "v1", "Secret"): _secret,
    GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler"): _autoscaler,
    GroupVersionKind("rbac.authorization.k8s.io", "v1", "RoleBinding"): _role_binding,
}
"""Kinds without a generation to which the server adds something."""
