"""Validation of a virtual cluster in the settings."""

import math
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from karmada_vc_agent.model import quantity
from karmada_vc_agent.model.karmada import CLUSTER_NAME_MAX_LENGTH
from karmada_vc_agent.model.kinds import pattern_problem
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.setting import label_key_problem, label_value_problem
from karmada_vc_agent.model.texts import did_you_mean, either, shown, text_problem
from karmada_vc_agent.model.virtual_cluster import VirtualCluster, allowance_problem
from karmada_vc_agent.model.windows import parse_windows

DNS_LABEL_RULE = 'lower-case letters, digits and "-", beginning and ending with a letter or digit'
DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


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


def adoption_problems(vc: VirtualCluster) -> Iterator[tuple[str, str | None]]:
    """Yield (path, problem or None) of what a virtual cluster takes over."""
    for index, namespace in enumerate(vc.adopt_namespaces):
        where = f"adoptNamespaces[{index}]"
        yield where, _namespace_problem(namespace)
        if namespace in vc.adopt_namespaces[:index]:
            yield where, f'"{namespace}" is listed twice'
    for index, name in enumerate(vc.former_names):
        where = f"formerNames[{index}]"
        if len(name) > CLUSTER_NAME_MAX_LENGTH or not DNS_LABEL.fullmatch(name):
            yield where, f'"{name}" {FORMER_NAME_TEXT}'
        if name == vc.name and index:
            yield where, f'"{name}" is the name it has now; list it first, or not at all'
        if name in vc.former_names[:index]:
            yield where, f'"{name}" is listed twice'


def _namespace_problem(namespace: str) -> str | None:
    if any(fnmatchcase(namespace, pattern) for pattern in SYSTEM_NAMESPACES):
        return f'"{namespace}" {SYSTEM_TEXT}'
    if not DNS_LABEL.fullmatch(namespace):
        return f'"{namespace}" {DNS_LABEL_TEXT}'
    return None


_TAINT_EFFECTS = ("NoSchedule", "NoExecute")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("Exists", "Equal")
_TAINT_FIELDS = ("key", "value", "effect")
_FIELDS = ("key", "operator", "value", "effect", "tolerationSeconds")

Problems = Iterator[tuple[str, str | None]]


def taint_problems(taints: tuple[Object, ...]) -> Problems:
    """Yield (path, problem or None) of taints (contract 1.1)."""
    seen = set()
    for index, taint in enumerate(taints):
        where = f"taints[{index}]"
        yield from _field_problems(taint, _TAINT_FIELDS, where)
        key, effect = taint.get("key"), taint.get("effect")
        yield f"{where}.key", label_key_problem(str(key or ""))
        yield f"{where}.value", label_value_problem(str(taint.get("value") or ""))
        yield f"{where}.effect", _choice_problem(effect, _TAINT_EFFECTS)
        if (key, effect) in seen:
            yield where, f"key and effect are used twice: {key}:{effect}"
        seen.add((key, effect))


def toleration_problems(tolerations: tuple[Object, ...]) -> Problems:
    """Yield (path, problem or None) of tolerations, as validation of a pod would report."""
    for index, toleration in enumerate(tolerations):
        where = f"tolerations[{index}]"
        yield from _field_problems(toleration, _FIELDS, where)
        key, value = toleration.get("key") or "", toleration.get("value") or ""
        operator = toleration.get("operator") or "Equal"
        yield f"{where}.operator", _choice_problem(operator, _OPERATORS)
        if key:
            yield f"{where}.key", label_key_problem(key)
        elif operator != "Exists":
            yield f"{where}.key", "is not set; only operator Exists tolerates every key"
        yield f"{where}.value", label_value_problem(value)
        if value and operator == "Exists":
            yield f"{where}.value", "must not be set with operator Exists"
        effect, seconds = toleration.get("effect"), toleration.get("tolerationSeconds")
        if effect:
            yield f"{where}.effect", _choice_problem(effect, _EFFECTS)
        if seconds is None:
            continue
        if isinstance(seconds, bool) or not isinstance(seconds, int):
            shown = f'"{seconds}"'
            yield f"{where}.tolerationSeconds", f"is {shown}, must be an integer"
        elif effect != "NoExecute":
            yield f"{where}.tolerationSeconds", "needs effect NoExecute"


def _field_problems(obj: Object, allowed: tuple[str, ...], where: str) -> Problems:
    """Yield unknown fields, and fields that are not strings."""
    for field, value in obj.items():
        if field not in allowed:
            hint = did_you_mean(field, allowed)
            yield f"{where}.{field}", f"is unknown{hint or f', must be {either(allowed)}'}"
        elif field != "tolerationSeconds":
            yield f"{where}.{field}", text_problem(value)


def _choice_problem(value: Any, choices: tuple[str, ...]) -> str | None:
    if value in choices:
        return None
    given = f'is "{value}"' if value else "is not set"
    return f"{given}, must be {either(choices)}"


_INT64_MAX = 2**63 - 1
_MOST_LEVELS = 64
"""More than objects have; less than Python recurses. An alias in what it names has no end."""

_JsonProblems = Iterator[tuple[str, str]]


def json_problems(value: Any, where: str, levels: int = _MOST_LEVELS) -> _JsonProblems:
    """Yield the path of each value that cannot be written, and what is wrong with it.

    where: path of the value.
    """
    if isinstance(value, dict | list):
        if not levels:
            yield where, "is nested too deeply"
        elif isinstance(value, dict):
            yield from _map_problems(value, where, levels - 1)
        else:
            for index, inner in enumerate(value):
                yield from json_problems(inner, f"{where}[{index}]", levels - 1)
    elif problem := _problem(value):
        yield where, problem


def _map_problems(value: dict[Any, Any], where: str, levels: int) -> _JsonProblems:
    for key, inner in value.items():
        if not isinstance(key, str):
            yield where, f"has key {shown(key)}, must be a string"
        elif problem := _problem(key):
            yield where, f"has a key that {problem}"
        else:
            yield from json_problems(inner, f"{where}.{key}", levels)


def _problem(value: Any) -> str | None:
    """Return what is wrong with a value that has no others in it, or None."""
    if isinstance(value, int) and abs(value) > _INT64_MAX:
        return f"is {_short(value)}, too large for an integer"
    if isinstance(value, float) and not math.isfinite(value):
        return f"is {value:g}, must be a finite number"
    if isinstance(value, str):
        return None if _is_unicode(value) else "is not valid Unicode"
    if value is None or isinstance(value, int | float):
        return None
    return f"is {value}, must be a string; write it in quotes"


def _short(number: int) -> str:
    text = shown(number)
    return text if len(text) <= len(str(_INT64_MAX)) * 2 else f"{text[:20]}..."


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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


def name_from(template: str, placeholder: str, text: str) -> str:
    """Return the name for a text; no two texts have the same. It may be no name of a Cluster."""
    return template.replace(placeholder, text)
