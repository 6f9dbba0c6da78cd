"""Validation beyond types: ranges, names, settings that depend on each other."""

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Annotated, Literal

import msgspec

from karmada_vc_agent.config.decoding import ConfigError, camel, decode, settings_of
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.model import quantity
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.quantity import INT64_MAX, QuantityText, format_duration, parse_windows
from karmada_vc_agent.model.user_text import listen_problem
from karmada_vc_agent.model.virtual_cluster import (
    SERVICE_NAMES_FIRST,
    STRICT,
    LabelSelector,
    VirtualCluster,
    allowance_problem,
    enabled_controllers,
    feature_gates,
    label_key_problem,
    label_value_problem,
    virtual_cluster_of,
)
from karmada_vc_agent.model.vocabulary import CLUSTER_NAME_MAX_LENGTH, parse_kind, pattern_problem

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

_NODE_NAME_TEXT = (
    f"is not a valid node name: at most {_DNS_NAME_MAX_LENGTH} characters; lower-case letters, "
    'digits, "-" and ".", each part beginning and ending with a letter or digit'
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
        try:
            decode(list(objects), tuple[shape, ...], "")  # type: ignore[valid-type]
        except ConfigError as error:
            yield f"{key}{error.path}", error.problem
    yield from _node_problems(vc)
    yield from _label_problems(vc)
    yield from _taint_problems(vc)
    yield from _model_problems(vc.resource_models)
    yield from _tenancy_problems(vc)


def _is_cluster_name(name: str) -> bool:
    return len(name) <= CLUSTER_NAME_MAX_LENGTH and DNS_LABEL.fullmatch(name) is not None


def cluster_name_problem(name: str) -> str | None:
    """Return what is wrong with the name of a virtual cluster, or None."""
    if _is_cluster_name(name):
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
    if not vc.node_selector and not vc.node_names:
        yield "nodeSelector", "selects no nodes; give matchLabels, matchExpressions or nodeNames"
    for index, requirement in enumerate(vc.node_selector.match_expressions):
        needs_values = requirement.operator in ("In", "NotIn")
        if needs_values != bool(requirement.values):
            problem = "must not be empty" if needs_values else "must be empty"
            where = f"nodeSelector.matchExpressions[{index}].values"
            yield where, f"{problem} with {requirement.operator}"
    yield from _names("nodeNames", vc.node_names, is_dns_name, _NODE_NAME_TEXT)


def _names(
    where: str, names: tuple[str, ...], is_valid: Callable[[str], object], text: str
) -> Problems:
    for index, name in enumerate(names):
        yield f"{where}[{index}]", None if is_valid(name) else f'"{name}" {text}'
        is_twice = name in names[:index]
        yield f"{where}[{index}]", f'"{name}" is listed twice' if is_twice else None


def _label_problems(vc: VirtualCluster) -> Problems:
    for where, labels in (
        ("nodeSelector.matchLabels", vc.node_selector.match_labels),
        ("clusterLabels", vc.cluster_labels),
    ):
        for key, value in labels.items():
            yield where, label_key_problem(key)
            yield f"{where}[{key}]", label_value_problem(value)
    for requirement in vc.node_selector.match_expressions:
        yield "nodeSelector.matchExpressions", label_key_problem(requirement.key)
    for where, value in (
        ("provider", vc.provider),
        ("region", vc.region),
        *(("zones", zone) for zone in vc.zones),
    ):
        yield where, label_value_problem(value)


def _taint_problems(vc: VirtualCluster) -> Problems:
    """Yield taints and tolerations as the hub and the validation of a pod would report them."""
    seen = set()
    for index, taint in enumerate(vc.taints):
        where, identity = f"taints[{index}]", (taint["key"], taint["effect"])
        yield f"{where}.key", label_key_problem(taint["key"])
        yield f"{where}.value", label_value_problem(taint.get("value") or "")
        if identity in seen:
            yield where, f"key and effect are used twice: {':'.join(identity)}"
        seen.add(identity)
    for index, toleration in enumerate(vc.tolerations):
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
        needed = {"min": index > 0, "max": index < len(models) - 1}
        for number, bounds in enumerate(model["ranges"]):
            for name, is_needed in needed.items():
                lacks = is_needed and bounds.get(name) is None
                yield f"{where}[{number}].{name}", "is not set" if lacks else None


def _tenancy_problems(vc: VirtualCluster) -> Problems:
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
    for index, namespace in enumerate(vc.adopt_namespaces):
        if any(fnmatchcase(namespace, pattern) for pattern in SYSTEM_NAMESPACES):
            yield f"adoptNamespaces[{index}]", f'"{namespace}" {SYSTEM_TEXT}'
    yield from _names("adoptNamespaces", vc.adopt_namespaces, DNS_LABEL.fullmatch, DNS_LABEL_TEXT)
    yield from _names("formerNames", vc.former_names, _is_cluster_name, FORMER_NAME_TEXT)
    if vc.name in vc.former_names[1:]:
        where = f"formerNames[{vc.former_names.index(vc.name)}]"
        yield where, f'"{vc.name}" is the name it has now; list it first, or not at all'
    yield "window", raised(parse_windows, vc.window) if vc.window else None


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


_DNS_LABELS = ("agent_name", "agent_namespace", "karmada_kubeconfig_namespace", "dns_namespace")
_MAY_BE_OPEN = ("agent_namespace", "karmada_kubeconfig_namespace")
"""Settings that have another default where they are empty."""
_ADDRESSES = ("metrics_bind_address", "health_probe_bind_address")
DESCRIPTIONS = ("cluster_provider", "cluster_region", "cluster_zones", "cluster_host")
_ORDERED = (
    ("leader_elect_renew_deadline", "leader_elect_lease_duration"),
    ("leader_elect_retry_period", "leader_elect_renew_deadline"),
)
"""(lesser, greater): the first must be less than the second."""


def check_alone(config: AgentConfig, source: str) -> None:
    """Check the only virtual cluster of settings that are right otherwise. Raises ConfigError."""
    (vc,) = config.virtual_clusters
    raise_first(_range_problems(vc, "virtualClusters[0]."), source)
    raise_first(_virtual_cluster_problems(config), source)


def raise_first(given: Problems, source: str) -> None:
    """Raise ConfigError for the first invalid setting. source: the settings file or "flags"."""
    for path, problem in given:
        if problem:
            raise ConfigError(source, path, problem)


def _conflicts(config: AgentConfig) -> Problems:
    if config.objects.any_name and config.tenancy == STRICT:
        problem = f"is true, must be false with tenancy {STRICT}; use join --name instead"
        yield "objects.anyName", problem
    if config.gateway.enabled and config.objects.any_name:
        problem = (
            "is true, must be false with objects.anyName: the agent would need the Secrets of all "
            "Clusters of the hub; give names by join --name"
        )
        yield "gateway.enabled", problem
    if config.gateway.enabled and not config.install_policies:
        problem = "must be false without installPolicies: they confine what the gateway may"
        yield "gateway.enabled", f"is true, {problem}"
    for less, more in _ORDERED:
        is_less, is_more = getattr(config, less), getattr(config, more)
        if is_less >= is_more:
            limit = f"{camel(more)} ({format_duration(is_more)})"
            yield camel(less), f"is {format_duration(is_less)}, must be less than {limit}"


def problems(config: AgentConfig) -> Problems:
    """Yield every validated setting of the agent, and what is wrong with it."""
    yield from _conflicts(config)
    if not config.virtual_clusters and not config.has_other_sources:
        yield "virtualClusters", "is empty; name at least one virtual cluster"
    yield from _range_problems(config)
    yield from filter(None, (config.of(x).problem(config) for x in getattr(config, "added", ())))
    if (invalid := config.gateway.problem()) is not None:
        yield f"gateway.{invalid[0]}", invalid[1]
    for name in _DNS_LABELS:
        label = getattr(config, name)
        is_left_open = name in _MAY_BE_OPEN and not label
        yield camel(name), None if is_left_open else dns_label_problem(label)
    if not is_dns_name(config.cluster_domain):
        problem = f'"{config.cluster_domain}" is not a valid DNS name, such as cluster.local'
        yield "clusterDomain", problem
    for index, pattern in enumerate(config.namespace_keys):
        if "[" in pattern:  # sets of characters mean something else in admission policies
            yield f"namespaceKeys[{index}]", f'"{pattern}" has a "["; use * and ? only'
    for name in DESCRIPTIONS:
        value = getattr(config, name)
        for part in value.split(",") if name == "cluster_zones" else (value,):
            yield camel(name), label_value_problem(part.strip())
    yield from _virtual_cluster_problems(config)
    yield from _discovered_problems(config)
    yield from _address_problems(config)
    yield "controllers", raised(enabled_controllers, config.controllers)
    yield "featureGates", raised(feature_gates, config.feature_gates)
    for kind in config.cluster_scoped_kinds:
        yield f'clusterScopedKinds["{kind}"]', raised(parse_kind, kind)


def _range_problems(struct: msgspec.Struct, path: str = "") -> Problems:
    for setting in settings_of(type(struct)):
        value, where = getattr(struct, setting.name), f"{path}{setting.key}"
        if setting.range is not None:
            yield where, setting.range.problem(value)
        if isinstance(value, msgspec.Struct):
            yield from _range_problems(value, f"{where}.")
        elif isinstance(value, tuple):
            for index, inner in enumerate(value):
                if isinstance(inner, msgspec.Struct):
                    yield from _range_problems(inner, f"{where}[{index}].")


def _virtual_cluster_problems(config: AgentConfig) -> Problems:
    for index, vc in enumerate(config.virtual_clusters):
        path = f"virtualClusters[{index}]"
        for where, problem in problems_of(vc):
            yield f"{path}.{where}", problem
        yield f"{path}.serviceNames", _service_names_problem(vc, config)
    yield from _used_twice(config)


def _service_names_problem(vc: VirtualCluster, config: AgentConfig) -> str | None:
    if vc.service_names != SERVICE_NAMES_FIRST or config.cluster_dns:
        return None
    return f"{SERVICE_NAMES_FIRST} needs clusterDNS to be set"


def _used_twice(config: AgentConfig) -> Problems:
    users: dict[object, str] = {("adoptNamespaces", config.agent_namespace): "agentNamespace"}
    for index, vc in enumerate(config.virtual_clusters):
        former = [name for name in vc.former_names if name != vc.name]
        selected = frozenset(vc.node_selector.requirements())
        for setting, values in (
            ("name", [vc.name]),
            ("formerNames", former),
            ("adoptNamespaces", vc.adopt_namespaces),
            ("nodeNames", vc.node_names),
            ("nodeSelector", [selected] if selected else []),
        ):
            where = f"virtualClusters[{index}].{setting}"
            kind = "name" if setting == "formerNames" else setting
            for value in values:
                if (user := users.setdefault((kind, value), where)) != where:
                    is_text = isinstance(value, str)
                    what = f'"{value}" is used by' if is_text else "selects the same nodes as"
                    yield where, f"{what} {user}"


def _discovered_problems(config: AgentConfig) -> Problems:
    for path, discovery in config.sources.items():
        if (invalid := discovery.problem()) is not None:
            yield f"{path}.{invalid[0]}", invalid[1]
        sample = virtual_cluster_of(discovery.settings, "sample", LabelSelector({"sample": ""}))
        for where, problem in problems_of(sample):
            yield f"{path}.settings.{where}", problem
        for name in ("former_names", "adopt_namespaces"):
            if getattr(sample, name):
                problem = "is for a single virtual cluster; define that one in virtualClusters"
                yield f"{path}.settings.{camel(name)}", problem
        yield f"{path}.settings.serviceNames", _service_names_problem(sample, config)


def raised(parse: Callable[[str], object], text: str) -> str | None:
    """Return what a parser says is wrong with a text, or None."""
    try:
        parse(text)
    except ValueError as error:
        return str(error)
    return None


def _address_problems(config: AgentConfig) -> Problems:
    for name in _ADDRESSES:
        yield camel(name), listen_problem(getattr(config, name))
    for index, cidr in enumerate(config.pod_cidrs):
        problem = f'"{cidr}" is not a valid CIDR; write for example 10.244.0.0/16'
        if not raised(partial(ipaddress.ip_network, strict=False), cidr):
            network = ipaddress.ip_network(cidr, strict=False)
            problem = f'"{cidr}" has bits set beyond its prefix; write {network}'
        is_wrong = raised(ipaddress.ip_network, cidr)
        yield f"podCIDRs[{index}]", problem if is_wrong else None
    for index, address in enumerate(config.cluster_dns):
        if raised(ipaddress.ip_address, address):
            problem = f'"{address}" is not a valid IP address; write for example 10.96.0.10'
            yield f"clusterDNS[{index}]", problem
