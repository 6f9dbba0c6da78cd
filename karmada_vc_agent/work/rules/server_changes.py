"""What an API server makes of objects: pruned, completed, node ports reassigned.

Defaults: Kinds with a `metadata.generation` have a mark instead (apply_plan.py). A field that no
row knows costs a PUT that changes nothing, once a start; a row that is wrong could hide a change,
so a row is only what the server documents.

Node ports belong to the host: of two virtual clusters with the same template, the second gets
another port, which it keeps for as long as it requests the one recorded (rewriting-rules 4.3).
"""

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    drop,
    gvk_of,
    maps_at,
    put,
    recorded_in,
)
from karmada_vc_agent.model.quantity import read

_SERVER_METADATA = frozenset(
    (
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
        "ownerReferences",
        "finalizers",
    )
)
_JOB_SELECTOR_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_JOB_TEMPLATE_LABELS = (*_JOB_SELECTOR_LABELS, "job-name", "batch.kubernetes.io/job-name")


def prune(obj: Object) -> Object:
    """Return the object as Karmada stores it (contract 5.2; its default/native/prune)."""
    pruned = {key: value for key, value in obj.items() if key != "status"}
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        pruned["metadata"] = {k: v for k, v in metadata.items() if k not in _SERVER_METADATA}
    rule = PRUNE_RULES.get(obj.get("kind", ""))
    return rule(pruned) if rule else pruned


def _prune_deployment(obj: Object) -> Object:
    """Leave out the annotations that count revisions."""
    obj = drop(obj, "metadata", "annotations", "deployment.kubernetes.io/revision")
    return drop(obj, "metadata", "annotations", "deployment.kubernetes.io/revision-history")


def _prune_job(obj: Object) -> Object:
    """Leave out `spec.ttlSecondsAfterFinished`, and labels that the controller generates."""
    obj = drop(obj, "spec", "ttlSecondsAfterFinished")
    if dig(obj, "spec", "manualSelector") is True:
        return obj
    for label in _JOB_SELECTOR_LABELS:
        obj = drop(obj, "spec", "selector", "matchLabels", label)
    for label in _JOB_TEMPLATE_LABELS:
        obj = drop(obj, "spec", "template", "metadata", "labels", label)
    return obj


def _prune_secret(obj: Object) -> Object:
    """Leave out the data of a ServiceAccount's token."""
    if obj.get("type") != vocabulary.SERVICE_ACCOUNT_TOKEN:
        return obj
    obj = drop(obj, "metadata", "annotations", "kubernetes.io/service-account.uid")
    return put(obj, None, "data")


def _prune_service_account(obj: Object) -> Object:
    """Leave out the Secrets `<name>-token-*`."""
    secrets = obj.get("secrets")
    if not isinstance(secrets, list):
        return obj
    prefix = f"{dig(obj, 'metadata', 'name') or ''}-token-"
    kept = [secret for secret in secrets if not str(dig(secret, "name") or "").startswith(prefix)]
    return obj if len(kept) == len(secrets) else put(obj, kept, "secrets")


def _prune_service(obj: Object) -> Object:
    """Leave out `spec.clusterIP` and `spec.clusterIPs`, unless the first is None."""
    if dig(obj, "spec", "clusterIP") in (None, "None"):
        return obj
    return drop(drop(obj, "spec", "clusterIP"), "spec", "clusterIPs")


def _prune_volume_claim(obj: Object) -> Object:
    """Leave out the annotation `volume.kubernetes.io/selected-node`."""
    return drop(obj, "metadata", "annotations", vocabulary.SELECTED_NODE_ANNOTATION)


PRUNE_RULES: Mapping[str, Callable[[Object], Object]] = {
    "Deployment": _prune_deployment,
    "Job": _prune_job,
    "Secret": _prune_secret,
    "ServiceAccount": _prune_service_account,
    "Service": _prune_service,
    "PersistentVolumeClaim": _prune_volume_claim,
}
"""By the name of the kind only, whatever the API group (contract 5.2)."""


Rule = Callable[[Object, Object], Object]
"""(desired, live) -> desired with what the server adds, or takes from the live object."""

_WITH_PORTS_OF_NODES = ("NodePort", "LoadBalancer")
_CLIENT_IP_TIMEOUT_S = 10_800
_CPU_PERCENT = 80
_SUBJECTS_OF_RBAC = ("User", "Group")


def completed(desired: Object, live: Object) -> Object:
    """Return the object as the server would store it in place of the live one."""
    rule = DEFAULT_RULES.get(gvk_of(desired))
    is_readable = isinstance(desired.get("spec") or {}, dict)
    return rule(desired, live) if rule and is_readable else desired


def _namespace(desired: Object, live: Object) -> Object:
    """Only a subresource changes `spec.finalizers`; the server labels it with its name."""
    name = dig(desired, "metadata", "name")
    desired = put(desired, name, "metadata", "labels", vocabulary.NAMESPACE_NAME_LABEL)
    spec = live.get("spec")
    return drop(desired, "spec") if spec is None else {**desired, "spec": spec}


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
    has_ports = all(each in _WITH_PORTS_OF_NODES for each in (exposed, dig(live, "spec", "type")))
    node_ports = {key: port.get("nodePort") for key, port in _ports(live) if has_ports}
    done = []
    for port in ports:
        if isinstance(port, dict):
            port = {"protocol": "TCP", "targetPort": port.get("port"), **port}  # noqa: PLW2901
            if not port.get("nodePort") and node_ports.get(_port_key(port)):
                port["nodePort"] = node_ports[_port_key(port)]
        done.append(port)
    return done


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
    if not isinstance(subjects, list):
        return desired
    completed_subjects = [
        {"apiGroup": vocabulary.RBAC_GROUP, **each}
        if dig(each, "kind") in _SUBJECTS_OF_RBAC
        else each
        for each in subjects
    ]
    return {**desired, "subjects": completed_subjects}


def _limit_range(desired: Object, _live: Object) -> Object:
    limits = dig(desired, "spec", "limits")
    if not isinstance(limits, list):
        return desired
    return put(desired, [_limit(each) for each in limits], "spec", "limits")


def _limit(limit: Any) -> Any:
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


def _canonical(obj: Object, *path: str) -> Object:
    """Return an object with the amounts of a map as servers write them: `1` for `1000m`."""
    amounts = dig(obj, *path)
    if not isinstance(amounts, dict):
        return obj
    read_amounts = {
        name: read(raw) if isinstance(raw, str | int | float) else None
        for name, raw in amounts.items()
    }
    written = {name: str(each) for name, each in read_amounts.items() if each is not None}
    return put(obj, amounts | written, *path)


DEFAULT_RULES: Mapping[GroupVersionKind, Rule] = {
    GroupVersionKind("", "v1", "Namespace"): _namespace,
    GroupVersionKind("", "v1", "LimitRange"): _limit_range,
    GroupVersionKind("", "v1", "Service"): _service,
    GroupVersionKind("", "v1", "PersistentVolumeClaim"): _volume_claim,
    GroupVersionKind("", "v1", "PersistentVolume"): _volume,
    GroupVersionKind("", "v1", "ResourceQuota"): lambda desired, _: _canonical(
        desired, "spec", "hard"
    ),
    GroupVersionKind("", "v1", "Secret"): _secret,
    GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler"): _autoscaler,
    GroupVersionKind("rbac.authorization.k8s.io", "v1", "RoleBinding"): _role_binding,
}
"""Kinds without a generation to which the server adds something."""


_TAKEN = re.compile(r"Invalid value: (\d+): provided port is already allocated")

RequestedPorts = dict[str, int]
"""`<port>/<protocol>` -> the node port that the manifest requests and did not get."""


def taken_ports(message: str) -> frozenset[int]:
    """Return the node ports that an answer of the API server reports as already allocated."""
    return frozenset(int(port) for port in _TAKEN.findall(message))


def without_ports(desired: Object, taken: frozenset[int]) -> Object:
    """Return a Service that lets the host choose the taken ports, and records the request."""
    recorded = requested_ports(desired)
    for key, port in _ports(desired):
        if port.get("nodePort") in taken:
            recorded[key] = port["nodePort"]
    return _with_requests(_with_ports(desired, dict.fromkeys(recorded)), recorded)


def keep_assigned(desired: Object, live: Object | None) -> Object:
    """Return a Service that keeps the assigned ports in place of those it still requests."""
    if live is None or vocabulary.NODE_PORTS_ANNOTATION not in annotations_of(live):
        return desired
    got = {key: port.get("nodePort") for key, port in _ports(live)}
    current = {key: port.get("nodePort") for key, port in _ports(desired)}
    recorded = {
        key: number
        for key, number in requested_ports(live).items()
        if current.get(key) == number and got.get(key)
    }
    # Recorded even if empty: a missing annotation would be taken from the live object.
    return _with_requests(_with_ports(desired, {key: got[key] for key in recorded}), recorded)


def reassigned_ports(live: Object) -> list[tuple[int, int]]:
    """Return (requested, assigned) of each port that the host assigned in place of a fixed one."""
    got = {key: port["nodePort"] for key, port in _ports(live) if port.get("nodePort")}
    return [(number, got[key]) for key, number in requested_ports(live).items() if key in got]


def requested_ports(obj: Object) -> RequestedPorts:
    """Return the requests recorded on a Service, without malformed ones."""
    return recorded_in(obj, vocabulary.NODE_PORTS_ANNOTATION, int)


def _port_key(port: Object) -> str:
    return f"{port.get('port')}/{port.get('protocol') or 'TCP'}"


def _ports(service: Object) -> list[tuple[str, Object]]:
    return [(_port_key(port), port) for port in maps_at(service, "spec", "ports")]


def _with_ports(service: Object, node_ports: Mapping[str, int | None]) -> Object:
    ports = []
    for key, port in _ports(service):
        rest = {name: value for name, value in port.items() if name != "nodePort"}
        number = node_ports.get(key)
        changed = rest | {"nodePort": number} if number else rest
        ports.append(changed if key in node_ports else port)
    return put(service, ports, "spec", "ports")


def _with_requests(service: Object, recorded: RequestedPorts) -> Object:
    text = json.dumps(recorded, sort_keys=True)
    return put(service, text, "metadata", "annotations", vocabulary.NODE_PORTS_ANNOTATION)
