"""Validation beyond types: ranges, names, and settings that depend on each other."""

import ipaddress

import msgspec

from karmada_vc_agent.config.declared import camel, settings_of
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.model.kinds import parse_kind
from karmada_vc_agent.model.quantity import format_duration
from karmada_vc_agent.model.setting import (
    LabelSelector,
    Requirement,
    enabled_controllers,
    feature_gates,
    implies,
    label_value_problem,
)
from karmada_vc_agent.model.texts import listen_problem
from karmada_vc_agent.model.virtual_cluster import (
    SERVICE_NAMES_FIRST,
    STRICT,
    VirtualCluster,
    virtual_cluster_of,
)
from karmada_vc_agent.model.virtual_cluster_problems import (
    dns_label_problem,
    is_dns_name,
    problems_of,
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


def check(config: AgentConfig, source: str) -> None:
    """Raise ConfigError for the first invalid setting. source: the settings file or "flags"."""
    if not config.virtual_clusters and not config.has_other_sources:
        raise ConfigError(source, "virtualClusters", "is empty; name at least one virtual cluster")
    if config.objects.any_name and config.tenancy == STRICT:
        problem = f"is true, must be false with tenancy {STRICT}; use join --name instead"
        raise ConfigError(source, "objects.anyName", problem, other_path="tenancy")
    _check_ranges(config, source)
    _check_gateway(config, source)
    _check_order(config, source)
    for name in _DNS_LABELS:
        label = getattr(config, name)
        is_left_open = name in _MAY_BE_OPEN and not label
        if not is_left_open and (wrong := dns_label_problem(label)):
            raise ConfigError(source, camel(name), wrong)
    if not is_dns_name(config.cluster_domain):
        problem = f'"{config.cluster_domain}" is not a valid DNS name, such as cluster.local'
        raise ConfigError(source, "clusterDomain", problem)
    _check_patterns(config, source)
    _check_descriptions(config, source)
    _check_virtual_clusters(config, source)
    _check_taken_over(config, source)
    _check_discovered(config, source)
    _check_addresses(config, source)
    _check_disjoint(config.virtual_clusters, source)
    _check_switches(config, source)


def _check_patterns(config: AgentConfig, source: str) -> None:
    for index, pattern in enumerate(config.namespace_keys):
        if "[" in pattern:  # sets of characters mean something else in admission policies
            problem = f'"{pattern}" has a "["; use * and ? only'
            raise ConfigError(source, f"namespaceKeys[{index}]", problem)


def _check_gateway(config: AgentConfig, source: str) -> None:
    if (invalid := config.gateway.problem()) is not None:
        raise ConfigError(source, f"gateway.{invalid[0]}", invalid[1])
    if not config.gateway.enabled:
        return
    path = "gateway.enabled"
    if config.objects.any_name:
        problem = (
            "is true, must be false with objects.anyName: the agent would need the Secrets of all "
            "Clusters of the hub; give names by join --name"
        )
        raise ConfigError(source, path, problem, other_path="objects.anyName")
    if not config.install_policies:
        problem = (
            "is true, must be false without installPolicies: they confine what the gateway may"
        )
        raise ConfigError(source, path, problem, other_path="installPolicies")


def check_alone(config: AgentConfig, source: str) -> None:
    """Check the only virtual cluster of settings that are right otherwise. Raises ConfigError."""
    (vc,) = config.virtual_clusters
    _check_ranges(vc, source, "virtualClusters[0].")
    _check_virtual_clusters(config, source)
    _check_taken_over(config, source)


def _check_ranges(struct: msgspec.Struct, source: str, path: str = "") -> None:
    """Raise ConfigError for the first number out of its range, nested structs included."""
    for setting in settings_of(type(struct)):
        value, where = getattr(struct, setting.name), f"{path}{setting.key}"
        if setting.range is not None and (problem := setting.range.problem(value)):
            raise ConfigError(source, where, problem)
        if isinstance(value, msgspec.Struct):
            _check_ranges(value, source, f"{where}.")
        elif isinstance(value, tuple):
            for index, inner in enumerate(value):
                if isinstance(inner, msgspec.Struct):
                    _check_ranges(inner, source, f"{where}[{index}].")


def _check_descriptions(config: AgentConfig, source: str) -> None:
    """Check what describes Clusters of virtual clusters that say nothing themselves."""
    for name in _DESCRIPTIONS:
        value = getattr(config, name)
        for part in value.split(",") if name == "cluster_zones" else (value,):
            if problem := label_value_problem(part.strip()):
                raise ConfigError(source, camel(name), problem)


def _check_order(config: AgentConfig, source: str) -> None:
    for less, more in _ORDERED:
        is_less, is_more = getattr(config, less), getattr(config, more)
        if is_less >= is_more:
            limit = f"{camel(more)} ({format_duration(is_more)})"
            problem = f"is {format_duration(is_less)}, must be less than {limit}"
            raise ConfigError(source, camel(less), problem, other_path=camel(more))


def _check_virtual_clusters(config: AgentConfig, source: str) -> None:
    seen: dict[str, int] = {}
    for index, vc in enumerate(config.virtual_clusters):
        path = f"virtualClusters[{index}]"
        for where, problem in problems_of(vc):
            if problem:
                raise ConfigError(source, f"{path}.{where}", problem)
        if vc.name in seen:
            problem = f'"{vc.name}" is used by virtualClusters[{seen[vc.name]}]'
            raise ConfigError(source, f"{path}.name", problem)
        seen[vc.name] = index
        _check_service_names(vc, config, source, path)


def _check_service_names(vc: VirtualCluster, config: AgentConfig, source: str, path: str) -> None:
    if vc.service_names == SERVICE_NAMES_FIRST and not config.cluster_dns:
        problem = f"{SERVICE_NAMES_FIRST} needs clusterDNS to be set"
        raise ConfigError(source, f"{path}.serviceNames", problem)


def _check_taken_over(config: AgentConfig, source: str) -> None:
    """Raise ConfigError for a namespace or a former name that another virtual cluster has, too."""
    names = {vc.name: f"virtualClusters[{i}]" for i, vc in enumerate(config.virtual_clusters)}
    former: dict[str, str] = {}
    adopted: dict[str, str] = {}
    for index, vc in enumerate(config.virtual_clusters):
        for number, name in enumerate(vc.former_names):
            path = f"virtualClusters[{index}].formerNames[{number}]"
            served = names.get(name) if name != vc.name else None
            if (other := served or former.get(name)) is not None:
                raise ConfigError(source, path, f'"{name}" is used by {other}')
            former[name] = path
        for number, namespace in enumerate(vc.adopt_namespaces):
            path = f"virtualClusters[{index}].adoptNamespaces[{number}]"
            if namespace in adopted:
                problem = f'"{namespace}" is listed in {adopted[namespace]}, too'
                raise ConfigError(source, path, problem)
            if namespace == config.agent_namespace:
                problem = f'"{namespace}" is the agent\'s own namespace (agentNamespace)'
                raise ConfigError(source, path, problem)
            adopted[namespace] = path


def _check_discovered(config: AgentConfig, source: str) -> None:
    """Check what discovered virtual clusters have in common."""
    for path, discovery in config.sources.items():
        if (invalid := discovery.problem()) is not None:
            raise ConfigError(source, f"{path}.{invalid[0]}", invalid[1])
        sample = virtual_cluster_of(discovery.settings, "sample", LabelSelector({"sample": ""}))
        for where, wrong in problems_of(sample):
            if wrong:
                raise ConfigError(source, f"{path}.settings.{where}", wrong)
        for name in ("former_names", "adopt_namespaces"):
            if getattr(sample, name):
                problem = "is for a single virtual cluster; define that one in virtualClusters"
                raise ConfigError(source, f"{path}.settings.{camel(name)}", problem)
        _check_service_names(sample, config, source, f"{path}.settings")


def _check_switches(config: AgentConfig, source: str) -> None:
    for name, parse in (("controllers", enabled_controllers), ("feature_gates", feature_gates)):
        try:
            parse(getattr(config, name))
        except ValueError as error:
            raise ConfigError(source, camel(name), str(error)) from error
    for kind in config.cluster_scoped_kinds:
        try:
            parse_kind(kind)
        except ValueError as error:
            raise ConfigError(source, f'clusterScopedKinds["{kind}"]', str(error)) from error


def _check_addresses(config: AgentConfig, source: str) -> None:
    for name in _ADDRESSES:
        if problem := listen_problem(getattr(config, name)):
            raise ConfigError(source, camel(name), problem)
    for index, cidr in enumerate(config.pod_cidrs):
        if problem := _cidr_problem(cidr):
            raise ConfigError(source, f"podCIDRs[{index}]", problem)
    for index, address in enumerate(config.cluster_dns):
        try:
            ipaddress.ip_address(address)
        except ValueError as error:
            problem = f'"{address}" is not a valid IP address; write for example 10.96.0.10'
            raise ConfigError(source, f"clusterDNS[{index}]", problem) from error


def _cidr_problem(cidr: str) -> str | None:
    try:
        network = ipaddress.ip_network(cidr, strict=False)
    except ValueError:
        return f'"{cidr}" is not a valid CIDR; write for example 10.244.0.0/16'
    if "/" in cidr and ipaddress.ip_interface(cidr).ip != network.network_address:
        return f'"{cidr}" has bits set beyond its prefix; write {network}'
    return None


def _check_disjoint(clusters: tuple[VirtualCluster, ...], source: str) -> None:
    """Raise ConfigError for nodes that two certainly share, whatever nodes there are."""
    owners: dict[str, int] = {}
    selecting: list[tuple[int, tuple[Requirement, ...]]] = []
    for index, vc in enumerate(clusters):
        for name in vc.node_names:
            earlier = owners.setdefault(name, index)
            if earlier != index:
                raise ConfigError(
                    source,
                    f"virtualClusters[{index}].nodeNames",
                    f'"{name}" is also a node of "{clusters[earlier].name}" '
                    f"(virtualClusters[{earlier}]); remove it from one of them",
                )
        if not vc.node_selector:
            continue
        ours = vc.node_selector.requirements()
        for earlier, theirs in selecting:
            if implies(ours, theirs) or implies(theirs, ours):
                raise ConfigError(
                    source,
                    f"virtualClusters[{index}].nodeSelector",
                    f'"{vc.name}" and "{clusters[earlier].name}" (virtualClusters[{earlier}]) '
                    "select the same nodes: one selector implies the other",
                )
        selecting.append((index, ours))
