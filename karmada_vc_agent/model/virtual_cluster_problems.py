"""Validation of a virtual cluster in the settings."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from karmada_vc_agent.model import quantity
from karmada_vc_agent.model.adoption_problems import adoption_problems
from karmada_vc_agent.model.dns_label import DNS_LABEL, DNS_LABEL_RULE
from karmada_vc_agent.model.json_problems import json_problems
from karmada_vc_agent.model.karmada import CLUSTER_NAME_MAX_LENGTH
from karmada_vc_agent.model.kind_patterns import pattern_problem
from karmada_vc_agent.model.selectors import label_key_problem, label_value_problem
from karmada_vc_agent.model.taint_problems import taint_problems, toleration_problems
from karmada_vc_agent.model.tenancy import allowance_problem
from karmada_vc_agent.model.texts import either
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.windows import parse_windows

_DNS_PART = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_DNS_NAME_MAX_LENGTH = 253
_LIMIT_TYPES = ("Container", "Pod", "PersistentVolumeClaim")
_LIMIT_FIELDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def problems_of(vc: VirtualCluster) -> Iterator[tuple[str, str | None]]:
    """Yield (path, problem or None) for every validated setting."""
    yield "name", cluster_name_problem(vc.name)
    for key, objects in (  # which the code does not decode
        ("taints", vc.taints),
        ("resourceModels", vc.resource_models),
        ("tolerations", vc.tolerations),
        ("limits", vc.limits),
    ):
        yield from json_problems(list(objects), key)
    yield from _selector_problems(vc)
    yield from _label_problems(vc)
    yield from _node_name_problems(vc)
    yield from taint_problems(vc.taints)
    yield from toleration_problems(vc.tolerations)
    yield from _model_problems(vc)
    yield from _tenancy_problems(vc)
    yield from adoption_problems(vc)
    yield "window", _window_problem(vc.window)


def cluster_name_problem(name: str) -> str | None:
    """Return what is wrong with the name of a virtual cluster, or None."""
    if len(name) <= CLUSTER_NAME_MAX_LENGTH and DNS_LABEL.fullmatch(name):
        return None
    most = f"at most {CLUSTER_NAME_MAX_LENGTH} characters"
    return f'"{name}" is not a valid Cluster name: {most}, {DNS_LABEL_RULE}'


def dns_label_problem(name: str) -> str | None:
    """Return what is wrong with the name of an agent or a namespace, or None."""
    if DNS_LABEL.fullmatch(name):
        return None
    return f'"{name}" is not a valid DNS label: {DNS_LABEL_RULE}'


def _selector_problems(vc: VirtualCluster) -> Iterator[tuple[str, str | None]]:
    """Yield a selector that selects nothing, and invalid combinations of operators and values."""
    if not vc.node_selector and not vc.node_names:
        advice = "give matchLabels, matchExpressions or nodeNames"
        yield "nodeSelector", f"selects no nodes; {advice}"
    for index, requirement in enumerate(vc.node_selector.match_expressions):
        needs_values = requirement.operator in ("In", "NotIn")
        if needs_values != bool(requirement.values):
            problem = "must not be empty" if needs_values else "must be empty"
            where = f"nodeSelector.matchExpressions[{index}].values"
            yield where, f"{problem} with {requirement.operator}"


def _label_problems(vc: VirtualCluster) -> Iterator[tuple[str, str | None]]:
    """Yield (path, problem or None) of label keys and values."""
    for where, labels in (
        ("nodeSelector.matchLabels", vc.node_selector.match_labels),
        ("clusterLabels", vc.cluster_labels),
    ):
        for key, value in labels.items():
            yield where, label_key_problem(key)
            yield f"{where}[{key}]", label_value_problem(value)
    for requirement in vc.node_selector.match_expressions:
        yield "nodeSelector.matchExpressions", label_key_problem(requirement.key)
    yield "provider", label_value_problem(vc.provider)
    yield "region", label_value_problem(vc.region)
    for zone in vc.zones:
        yield "zones", label_value_problem(zone)


def _node_name_problems(vc: VirtualCluster) -> Iterator[tuple[str, str | None]]:
    """Yield invalid node names, and duplicates."""
    for index, name in enumerate(vc.node_names):
        where = f"nodeNames[{index}]"
        yield where, _node_name_problem(name)
        if name in vc.node_names[:index]:
            yield where, f'"{name}" is listed twice'


def is_dns_name(name: str) -> bool:
    """Return True for a name of nodes, ServiceAccounts and the like (RFC 1123 subdomain)."""
    parts = name.split(".")
    return len(name) <= _DNS_NAME_MAX_LENGTH and all(_DNS_PART.fullmatch(part) for part in parts)


def _node_name_problem(name: str) -> str | None:
    if is_dns_name(name):
        return None
    return (
        f'"{name}" is not a valid node name: at most {_DNS_NAME_MAX_LENGTH} characters; '
        'lower-case letters, digits, "-" and ".", each part beginning and ending with a letter or '
        "digit"
    )


def _model_problems(vc: VirtualCluster) -> Iterator[tuple[str, str | None]]:
    """Yield invalid quantities; the hub validates the rest of resourceModels."""
    last = len(vc.resource_models) - 1
    for index, model in enumerate(vc.resource_models):
        if not isinstance(model.get("grade", 0), int):
            yield f"resourceModels[{index}].grade", "must be an integer"
        ranges = model.get("ranges") or []
        if not isinstance(ranges, list):
            yield f"resourceModels[{index}].ranges", "must be a list of name, min and max"
            continue
        if not ranges:
            yield (
                f"resourceModels[{index}].ranges",
                "is empty; give name, min and max of a resource",
            )
        for number, bounds in enumerate(ranges):
            where = f"resourceModels[{index}].ranges[{number}]"
            if not isinstance(bounds, dict):
                yield f"{where}", "must have name, min and max"
                continue
            if not bounds.get("name"):
                yield f"{where}.name", "is not set; write for example cpu"
            # The hub defaults the first minimum and the last maximum.
            yield f"{where}.min", _quantity_problem(bounds.get("min", 0 if index == 0 else None))
            yield f"{where}.max", _quantity_problem(bounds.get("max", 0 if index == last else None))


def _tenancy_problems(vc: VirtualCluster) -> Iterator[tuple[str, str | None]]:
    """Yield (path, problem or None) of the limits of a tenant."""
    for name, amount in vc.quota.items():
        # The host validates names: extended resources and counts of any kind are allowed.
        yield f"quota[{name}]", _quantity_problem(amount) or _negative_problem(amount)
    for index, limit in enumerate(vc.limits):
        yield from _limit_problems(limit, f"limits[{index}]")
    for where, entries, problem_with in (
        ("allowedKinds", vc.allowed_kinds, pattern_problem),
        ("deniedKinds", vc.denied_kinds, pattern_problem),
        ("allow", vc.allow, allowance_problem),
        ("windowPasses", vc.window_passes, pattern_problem),
    ):
        for index, entry in enumerate(entries):
            yield f"{where}[{index}]", problem_with(entry)
    if vc.apply_as is not None:
        for where, value in (("namespace", vc.apply_as.namespace), ("name", vc.apply_as.name)):
            if not all(DNS_LABEL.fullmatch(part) for part in value.split(".")):
                yield f"applyAs.{where}", f'"{value}" is not a valid DNS name'


def _limit_problems(limit: Mapping[str, Any], where: str) -> Iterator[tuple[str, str | None]]:
    if limit.get("type") not in _LIMIT_TYPES:
        given = f'is "{limit["type"]}"' if limit.get("type") else "is not set"
        yield f"{where}.type", f"{given}, must be {either(_LIMIT_TYPES)}"
    for key, amounts in limit.items():
        if key == "type":
            continue
        if key not in _LIMIT_FIELDS or not isinstance(amounts, dict):
            yield f"{where}.{key}", f"must be a map, one of {', '.join(_LIMIT_FIELDS)}"
            continue
        for name, amount in amounts.items():
            yield f"{where}.{key}[{name}]", _quantity_problem(amount)


def _negative_problem(amount: str) -> str | None:
    return "must not be negative" if quantity.parse(amount).nano < 0 else None


def _quantity_problem(value: Any) -> str | None:
    if value is None:
        return "is not set"
    try:
        quantity.parse(value)
    except (TypeError, ValueError) as error:
        return str(error)
    return None


def _window_problem(text: str) -> str | None:
    if not text:
        return None
    try:
        parse_windows(text)
    except ValueError as error:
        return str(error)
    return None
