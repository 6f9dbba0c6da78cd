"""Validation of a virtual cluster in the settings, beyond the types of its fields."""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

import msgspec

from karmada_vc_agent.config.decoding import ConfigError, decode
from karmada_vc_agent.model import quantity
from karmada_vc_agent.model.karmada import CLUSTER_NAME_MAX_LENGTH
from karmada_vc_agent.model.kinds import pattern_problem
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.quantity import INT64_MAX, QuantityText
from karmada_vc_agent.model.setting import label_key_problem, label_value_problem
from karmada_vc_agent.model.virtual_cluster import VirtualCluster, allowance_problem
from karmada_vc_agent.model.windows import parse_windows

DNS_LABEL_RULE = 'lower-case letters, digits and "-", beginning and ending with a letter or digit'
DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_DNS_PART = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_DNS_NAME_MAX_LENGTH = 253

SYSTEM_NAMESPACES = ("kube-*", "karmada-*", "kubeedge", "default")
"""Patterns of namespaces that run the host, or through which all its pods reach it."""
SYSTEM_TEXT = (
    "belongs to the host itself: no virtual cluster may adopt kube-*, karmada-*, kubeedge or "
    "default"
)
DNS_LABEL_TEXT = f"is not a valid namespace: at most 63 {DNS_LABEL_RULE}"
FORMER_NAME_TEXT = (
    f"is not a valid Cluster name: at most {CLUSTER_NAME_MAX_LENGTH} {DNS_LABEL_RULE}"
)

Problems = Iterator[tuple[str, str | None]]
"""Paths, and what is wrong there or None."""

_Int64 = Annotated[int, msgspec.Meta(ge=-INT64_MAX, le=INT64_MAX)]


class _ShapeSetting(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What is written to hub or host as the settings have it; null as if it were not set."""


class _TaintSetting(_ShapeSetting):
    key: str
    effect: Literal["NoSchedule", "NoExecute"]
    value: str | None = None


class _TolerationSetting(_ShapeSetting):
    key: str | None = None
    operator: Literal["", "Exists", "Equal"] | None = None
    value: str | None = None
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: _Int64 | None = None


class _ModelRangeSetting(_ShapeSetting):
    name: str
    min: QuantityText | None = None
    max: QuantityText | None = None


class _ModelSetting(_ShapeSetting):
    ranges: list[_ModelRangeSetting]
    grade: _Int64 = 0


class _LimitSetting(_ShapeSetting):
    type: Literal["Container", "Pod", "PersistentVolumeClaim"]
    max: Mapping[str, QuantityText] = {}
    min: Mapping[str, QuantityText] = {}
    default: Mapping[str, QuantityText] = {}
    default_request: Mapping[str, QuantityText] = {}
    max_limit_request_ratio: Mapping[str, QuantityText] = {}


def problems_of(vc: VirtualCluster) -> Problems:
    """Yield every validated setting, and what is wrong with it."""
    yield "name", cluster_name_problem(vc.name)
    for key, objects, shape in (
        ("taints", vc.taints, _TaintSetting),
        ("tolerations", vc.tolerations, _TolerationSetting),
        ("resourceModels", vc.resource_models, _ModelSetting),
        ("limits", vc.limits, _LimitSetting),
    ):
        yield _misshapen(key, objects, shape)
    yield from _node_problems(vc)
    yield from _label_problems(vc)
    yield from _taint_problems(vc.taints)
    yield from _toleration_problems(vc.tolerations)
    yield from _model_problems(vc.resource_models)
    yield from _tenancy_problems(vc)
    yield from _adoption_problems(vc)
    yield "window", _window_problem(vc.window)


def _misshapen(key: str, objects: tuple[Object, ...], shape: Any) -> tuple[str, str | None]:
    """Return the path of a value that is not as hub or host take it, and what is wrong with it."""
    try:
        decode(list(objects), tuple[shape, ...], "")
    except ConfigError as error:
        return f"{key}{error.path}", error.problem
    return key, None


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


def is_dns_name(name: str) -> bool:
    """Return True for a name of nodes, ServiceAccounts and the like (RFC 1123 subdomain)."""
    parts = name.split(".")
    return len(name) <= _DNS_NAME_MAX_LENGTH and all(_DNS_PART.fullmatch(part) for part in parts)


def _node_problems(vc: VirtualCluster) -> Problems:
    """Yield what selects no nodes, and names that no node has."""
    if not vc.node_selector and not vc.node_names:
        yield "nodeSelector", "selects no nodes; give matchLabels, matchExpressions or nodeNames"
    for index, requirement in enumerate(vc.node_selector.match_expressions):
        needs_values = requirement.operator in ("In", "NotIn")
        if needs_values != bool(requirement.values):
            problem = "must not be empty" if needs_values else "must be empty"
            where = f"nodeSelector.matchExpressions[{index}].values"
            yield where, f"{problem} with {requirement.operator}"
    for index, name in enumerate(vc.node_names):
        where = f"nodeNames[{index}]"
        if not is_dns_name(name):
            problem = (
                f'"{name}" is not a valid node name: at most {_DNS_NAME_MAX_LENGTH} characters; '
                'lower-case letters, digits, "-" and ".", each part beginning and ending with a '
                "letter or digit"
            )
            yield where, problem
        yield where, _twice(name, vc.node_names[:index])


def _twice(name: str, before: tuple[str, ...]) -> str | None:
    return f'"{name}" is listed twice' if name in before else None


def _label_problems(vc: VirtualCluster) -> Problems:
    """Yield label keys and values."""
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


def _taint_problems(taints: tuple[Object, ...]) -> Problems:
    seen = set()
    for index, taint in enumerate(taints):
        where, identity = f"taints[{index}]", (taint["key"], taint["effect"])
        yield f"{where}.key", label_key_problem(taint["key"])
        yield f"{where}.value", label_value_problem(taint.get("value") or "")
        if identity in seen:
            yield where, f"key and effect are used twice: {':'.join(identity)}"
        seen.add(identity)


def _toleration_problems(tolerations: tuple[Object, ...]) -> Problems:
    """Yield tolerations as the validation of a pod would report them."""
    for index, toleration in enumerate(tolerations):
        where = f"tolerations[{index}]"
        key, value = toleration.get("key") or "", toleration.get("value") or ""
        tolerates_all = toleration.get("operator") == "Exists"
        if key:
            yield f"{where}.key", label_key_problem(key)
        elif not tolerates_all:
            yield f"{where}.key", "is not set; only operator Exists tolerates every key"
        yield f"{where}.value", label_value_problem(value)
        if value and tolerates_all:
            yield f"{where}.value", "must not be set with operator Exists"
        is_timed = toleration.get("tolerationSeconds") is not None
        if is_timed and toleration.get("effect") != "NoExecute":
            yield f"{where}.tolerationSeconds", "needs effect NoExecute"


def _model_problems(models: tuple[Object, ...]) -> Problems:
    """Yield what lacks an amount; the hub defaults the first minimum and the last maximum."""
    for index, model in enumerate(models):
        where = f"resourceModels[{index}].ranges"
        if not model["ranges"]:
            yield where, "is empty; give name, min and max of a resource"
        needed = ["min"] * (index > 0) + ["max"] * (index < len(models) - 1)
        for number, bounds in enumerate(model["ranges"]):
            for name in needed:
                is_set = bounds.get(name) is not None
                yield f"{where}[{number}].{name}", None if is_set else "is not set"


def _tenancy_problems(vc: VirtualCluster) -> Problems:
    """Yield the limits of a tenant."""
    for name, amount in vc.quota.items():
        # The host validates names: extended resources and counts of any kind are allowed.
        is_negative = quantity.parse(amount).nano < 0
        yield f"quota[{name}]", "must not be negative" if is_negative else None
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


def _adoption_problems(vc: VirtualCluster) -> Problems:
    """Yield what a virtual cluster takes over."""
    for index, namespace in enumerate(vc.adopt_namespaces):
        where = f"adoptNamespaces[{index}]"
        if any(fnmatchcase(namespace, pattern) for pattern in SYSTEM_NAMESPACES):
            yield where, f'"{namespace}" {SYSTEM_TEXT}'
        if not DNS_LABEL.fullmatch(namespace):
            yield where, f'"{namespace}" {DNS_LABEL_TEXT}'
        yield where, _twice(namespace, vc.adopt_namespaces[:index])
    for index, name in enumerate(vc.former_names):
        where = f"formerNames[{index}]"
        if len(name) > CLUSTER_NAME_MAX_LENGTH or not DNS_LABEL.fullmatch(name):
            yield where, f'"{name}" {FORMER_NAME_TEXT}'
        if name == vc.name and index:
            yield where, f'"{name}" is the name it has now; list it first, or not at all'
        yield where, _twice(name, vc.former_names[:index])


def _window_problem(text: str) -> str | None:
    try:
        parse_windows(text) if text else ()
    except ValueError as error:
        return str(error)
    return None


NAME_PLACEHOLDER = "{name}"
"""Placeholder of the name of a NodeGroup."""
VALUE_PLACEHOLDER = "{value}"
"""Placeholder of the value of a label of nodes."""
_LITERAL = re.compile(r"[a-z0-9-]*")


def template_problem(template: str, placeholder: str) -> str | None:
    """Return what is wrong with a template, or None; each name is checked once it is made."""
    if template.count(placeholder) != 1:
        return f'"{template}" must contain {placeholder} once'
    literal = template.replace(placeholder, "")
    if not _LITERAL.fullmatch(literal):
        return f'"{template}" may contain lower-case letters, digits and "-" around {placeholder}'
    if len(literal) >= CLUSTER_NAME_MAX_LENGTH:
        return f'"{template}" is too long: a name has at most {CLUSTER_NAME_MAX_LENGTH} letters'
    return None
