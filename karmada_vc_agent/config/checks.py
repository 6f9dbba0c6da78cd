"""Validation beyond types: ranges, names, and settings that depend on each other."""

import ipaddress
from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from karmada_vc_agent.config.declared import camel, settings_of
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.config.virtual_cluster_problems import (
    dns_label_problem,
    is_dns_name,
    problems_of,
)
from karmada_vc_agent.model.kinds import parse_kind
from karmada_vc_agent.model.quantity import format_duration
from karmada_vc_agent.model.setting import (
    LabelSelector,
    Requirement,
    enabled_controllers,
    feature_gates,
    label_value_problem,
)
from karmada_vc_agent.model.texts import listen_problem
from karmada_vc_agent.model.virtual_cluster import (
    SERVICE_NAMES_FIRST,
    STRICT,
    VirtualCluster,
    virtual_cluster_of,
)

_DNS_LABELS = ("agent_name", "agent_namespace", "karmada_kubeconfig_namespace", "dns_namespace")
_MAY_BE_OPEN = ("agent_namespace", "karmada_kubeconfig_namespace")
"""Settings that have another default where they are empty."""
_ADDRESSES = ("metrics_bind_address", "health_probe_bind_address")
_DESCRIPTIONS = ("cluster_provider", "cluster_region", "cluster_zones", "cluster_host")
_ORDERED = (
    ("leader_elect_renew_deadline", "leader_elect_lease_duration"),
    ("leader_elect_retry_period", "leader_elect_renew_deadline"),
)
"""(lesser, greater): the first must be less than the second."""


Problems = Iterator[tuple[str, str | None]]
"""Paths, and what is wrong there or None."""


def check(config: AgentConfig, source: str) -> None:
    """Raise ConfigError for the first invalid setting. source: the settings file or "flags"."""
    for path, problem, other_path in _conflicts(config):
        raise ConfigError(source, path, problem, other_path)
    _raise_first(_problems(config), source)


def check_alone(config: AgentConfig, source: str) -> None:
    """Check the only virtual cluster of settings that are right otherwise. Raises ConfigError."""
    (vc,) = config.virtual_clusters
    _raise_first(_range_problems(vc, "virtualClusters[0]."), source)
    _raise_first(_virtual_cluster_problems(config), source)


def _raise_first(problems: Problems, source: str) -> None:
    for path, problem in problems:
        if problem:
            raise ConfigError(source, path, problem)


def _conflicts(config: AgentConfig) -> Iterator[tuple[str, str, str]]:
    """Yield settings that exclude each other: path, problem, path of the other one."""
    if config.objects.any_name and config.tenancy == STRICT:
        problem = f"is true, must be false with tenancy {STRICT}; use join --name instead"
        yield "objects.anyName", problem, "tenancy"
    if config.gateway.enabled and config.objects.any_name:
        problem = (
            "is true, must be false with objects.anyName: the agent would need the Secrets of all "
            "Clusters of the hub; give names by join --name"
        )
        yield "gateway.enabled", problem, "objects.anyName"
    if config.gateway.enabled and not config.install_policies:
        problem = (
            "is true, must be false without installPolicies: they confine what the gateway may"
        )
        yield "gateway.enabled", problem, "installPolicies"
    for less, more in _ORDERED:
        is_less, is_more = getattr(config, less), getattr(config, more)
        if is_less >= is_more:
            limit = f"{camel(more)} ({format_duration(is_more)})"
            problem = f"is {format_duration(is_less)}, must be less than {limit}"
            yield camel(less), problem, camel(more)


def _problems(config: AgentConfig) -> Problems:
    if not config.virtual_clusters and not config.has_other_sources:
        yield "virtualClusters", "is empty; name at least one virtual cluster"
    yield from _range_problems(config)
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
    for name in _DESCRIPTIONS:
        value = getattr(config, name)
        for part in value.split(",") if name == "cluster_zones" else (value,):
            yield camel(name), label_value_problem(part.strip())
    yield from _virtual_cluster_problems(config)
    yield from _discovered_problems(config)
    yield from _address_problems(config)
    yield from _shared_nodes(config.virtual_clusters)
    yield from _switch_problems(config)


def _range_problems(struct: msgspec.Struct, path: str = "") -> Problems:
    """Yield numbers out of their range, nested structs included."""
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
    seen: dict[str, int] = {}
    for index, vc in enumerate(config.virtual_clusters):
        path = f"virtualClusters[{index}]"
        for where, problem in problems_of(vc):
            yield f"{path}.{where}", problem
        if vc.name in seen:
            yield f"{path}.name", f'"{vc.name}" is used by virtualClusters[{seen[vc.name]}]'
        seen[vc.name] = index
        yield f"{path}.serviceNames", _service_names_problem(vc, config)
    yield from _taken_over(config)


def _service_names_problem(vc: VirtualCluster, config: AgentConfig) -> str | None:
    if vc.service_names != SERVICE_NAMES_FIRST or config.cluster_dns:
        return None
    return f"{SERVICE_NAMES_FIRST} needs clusterDNS to be set"


def _taken_over(config: AgentConfig) -> Problems:
    """Yield namespaces and former names that another virtual cluster has, too."""
    names = {vc.name: f"virtualClusters[{i}]" for i, vc in enumerate(config.virtual_clusters)}
    former: dict[str, str] = {}
    adopted: dict[str, str] = {}
    for index, vc in enumerate(config.virtual_clusters):
        for number, name in enumerate(vc.former_names):
            path = f"virtualClusters[{index}].formerNames[{number}]"
            served = names.get(name) if name != vc.name else None
            if (other := served or former.get(name)) is not None:
                yield path, f'"{name}" is used by {other}'
            former[name] = path
        for number, namespace in enumerate(vc.adopt_namespaces):
            path = f"virtualClusters[{index}].adoptNamespaces[{number}]"
            if namespace in adopted:
                yield path, f'"{namespace}" is listed in {adopted[namespace]}, too'
            if namespace == config.agent_namespace:
                yield path, f'"{namespace}" is the agent\'s own namespace (agentNamespace)'
            adopted[namespace] = path


def _discovered_problems(config: AgentConfig) -> Problems:
    """Yield what discovered virtual clusters have in common."""
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


def _switch_problems(config: AgentConfig) -> Problems:
    yield "controllers", _raised(enabled_controllers, config.controllers)
    yield "featureGates", _raised(feature_gates, config.feature_gates)
    for kind in config.cluster_scoped_kinds:
        yield f'clusterScopedKinds["{kind}"]', _raised(parse_kind, kind)


def _raised(parse: Callable[[str], object], text: str) -> str | None:
    try:
        parse(text)
    except ValueError as error:
        return str(error)
    return None


def _address_problems(config: AgentConfig) -> Problems:
    for name in _ADDRESSES:
        yield camel(name), listen_problem(getattr(config, name))
    for index, cidr in enumerate(config.pod_cidrs):
        yield f"podCIDRs[{index}]", _cidr_problem(cidr)
    for index, address in enumerate(config.cluster_dns):
        if _raised(ipaddress.ip_address, address):
            problem = f'"{address}" is not a valid IP address; write for example 10.96.0.10'
            yield f"clusterDNS[{index}]", problem


def _cidr_problem(cidr: str) -> str | None:
    if _raised(partial(ipaddress.ip_network, strict=False), cidr):
        return f'"{cidr}" is not a valid CIDR; write for example 10.244.0.0/16'
    network = ipaddress.ip_network(cidr, strict=False)
    if "/" in cidr and ipaddress.ip_interface(cidr).ip != network.network_address:
        return f'"{cidr}" has bits set beyond its prefix; write {network}'
    return None


def _shared_nodes(clusters: tuple[VirtualCluster, ...]) -> Problems:
    """Yield nodes that two certainly share, whatever nodes there are."""
    owners: dict[str, int] = {}
    selecting: dict[frozenset[Requirement], int] = {}
    for index, vc in enumerate(clusters):
        path = f"virtualClusters[{index}]"
        for name in vc.node_names:
            earlier = owners.setdefault(name, index)
            if earlier != index:
                problem = (
                    f'"{name}" is also a node of "{clusters[earlier].name}" '
                    f"(virtualClusters[{earlier}]); remove it from one of them"
                )
                yield f"{path}.nodeNames", problem
        if not vc.node_selector:
            continue
        earlier = selecting.setdefault(frozenset(vc.node_selector.requirements()), index)
        if earlier != index:
            problem = (
                f'"{vc.name}" and "{clusters[earlier].name}" (virtualClusters[{earlier}]) '
                "select the same nodes"
            )
            yield f"{path}.nodeSelector", problem
