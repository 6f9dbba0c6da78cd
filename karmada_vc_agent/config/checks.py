"""What the type of a setting does not say: ranges, names, and what goes together."""

import ipaddress
import math

from karmada_vc_agent.config.durations import format_duration
from karmada_vc_agent.config.errors import ConfigError
from karmada_vc_agent.config.settings import DURATIONS, FLAGS, AgentConfig, camel
from karmada_vc_agent.model.addresses import listen_problem
from karmada_vc_agent.model.switches import enabled_controllers, feature_gates
from karmada_vc_agent.model.virtual_cluster import (
    NAMESPACES_ALWAYS,
    NAMESPACES_ON_DEMAND,
    SERVICE_NAMES_FIRST,
    VirtualCluster,
)
from karmada_vc_agent.model.virtual_cluster_problems import (
    DNS_LABEL,
    DNS_LABEL_RULE,
    cluster_name_problem,
    overlap_for_certain,
    problems_of,
)

_MAY_BE_ZERO = frozenset(
    ("cluster_success_threshold", "cluster_failure_threshold", "resync_period")
)
_RATES = ("cluster_api_qps", "kube_api_qps", "rate_limiter_qps")
"""No limit where they are 0."""

_BURSTS = ("cluster_api_burst", "kube_api_burst")


def check(config: AgentConfig, source: str) -> None:
    """Raise ConfigError for the first setting that cannot be used; source: file or flags."""
    if not config.virtual_clusters:
        raise ConfigError(source, "virtualClusters", "is empty; name at least one virtual cluster")
    _check_numbers(config, source)
    for name in ("agent_name", "agent_namespace"):
        is_left_open = name == "agent_namespace" and not config.agent_namespace
        if not is_left_open and not DNS_LABEL.fullmatch(getattr(config, name)):
            raise ConfigError(
                source,
                camel(name),
                f'"{getattr(config, name)}" is no DNS label ({DNS_LABEL_RULE})',
            )
    seen: dict[str, int] = {}
    for index, vc in enumerate(config.virtual_clusters):
        path = f"virtualClusters[{index}]"
        _check_virtual_cluster(vc, source, path)
        if vc.name in seen:
            raise ConfigError(
                source, f"{path}.name", f'"{vc.name}" is used by virtualClusters[{seen[vc.name]}]'
            )
        seen[vc.name] = index
        if vc.service_names == SERVICE_NAMES_FIRST and not config.cluster_dns:
            raise ConfigError(
                source, f"{path}.serviceNames", f"{SERVICE_NAMES_FIRST} needs clusterDNS to be set"
            )
    _check_addresses(config, source)
    _check_disjoint(config.virtual_clusters, source)
    _check_switches(config, source)


def _check_switches(config: AgentConfig, source: str) -> None:
    for name, parse in (("controllers", enabled_controllers), ("feature_gates", feature_gates)):
        try:
            parse(getattr(config, name))
        except ValueError as error:
            raise ConfigError(source, camel(name), str(error)) from error


def _check_ranges(config: AgentConfig, source: str) -> None:
    for setting in FLAGS:
        value = getattr(config, setting.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(source, camel(setting.name), f"is {value}, must be a finite number")
    for name in (*_RATES, *_BURSTS, *sorted(_MAY_BE_ZERO)):
        value = getattr(config, name)
        if value < 0:
            least = "0 (no limit)" if name in _RATES else "0"
            raise ConfigError(source, camel(name), f"is {value:g}, must be {least} or more")


def _check_numbers(config: AgentConfig, source: str) -> None:
    _check_ranges(config, source)
    for name in ("cluster_lease_renew_interval_fraction", "cert_rotation_remaining_time_threshold"):
        if not 0 < getattr(config, name) < 1:
            raise ConfigError(source, camel(name), "must be between 0 and 1")
    if config.leader_elect_renew_deadline >= config.leader_elect_lease_duration:
        raise _order_error(
            config, source, "leader_elect_renew_deadline", "leader_elect_lease_duration"
        )
    if config.leader_elect_retry_period >= config.leader_elect_renew_deadline:
        raise _order_error(
            config, source, "leader_elect_retry_period", "leader_elect_renew_deadline"
        )
    for name in sorted(DURATIONS - _MAY_BE_ZERO):
        if getattr(config, name) <= 0:
            raise ConfigError(source, camel(name), "must be more than 0")
    if config.cluster_lease_duration < 1:
        raise ConfigError(source, camel("cluster_lease_duration"), "must be at least 1s")
    for name in ("concurrent_work_syncs", "concurrent_cluster_syncs", "rate_limiter_bucket_size"):
        if getattr(config, name) < 1:
            raise ConfigError(source, camel(name), "must be at least 1")


def _order_error(config: AgentConfig, source: str, less: str, more: str) -> ConfigError:
    """Return the error of a duration that must be less than another one."""
    is_less, is_more = (format_duration(getattr(config, name)) for name in (less, more))
    problem = f"is {is_less}, must be less than {camel(more)} ({is_more})"
    return ConfigError(source, camel(less), problem, other_path=camel(more))


def _check_addresses(config: AgentConfig, source: str) -> None:
    for name in ("metrics_bind_address", "health_probe_bind_address"):
        if problem := listen_problem(getattr(config, name)):
            raise ConfigError(source, camel(name), problem)
    for index, cidr in enumerate(config.pod_cidrs):
        try:
            ipaddress.ip_network(cidr)
        except ValueError as error:
            raise ConfigError(source, f"podCIDRs[{index}]", str(error)) from error
    for index, address in enumerate(config.cluster_dns):
        try:
            ipaddress.ip_address(address)
        except ValueError as error:
            raise ConfigError(source, f"clusterDNS[{index}]", str(error)) from error


def _check_virtual_cluster(vc: VirtualCluster, source: str, path: str) -> None:
    if problem := cluster_name_problem(vc.name):
        raise ConfigError(source, f"{path}.name", problem)
    if not vc.node_selector and not vc.node_names:
        raise ConfigError(
            source,
            f"{path}.nodeSelector",
            "selects no nodes; give matchLabels, matchExpressions or nodeNames",
        )
    for where, problem in problems_of(vc):
        if problem:
            raise ConfigError(source, f"{path}.{where}", problem)
    if vc.namespaces not in (NAMESPACES_ALWAYS, NAMESPACES_ON_DEMAND):
        raise ConfigError(
            source, f"{path}.namespaces", f'is "{vc.namespaces}", must be Always or OnDemand'
        )


def _check_disjoint(clusters: tuple[VirtualCluster, ...], source: str) -> None:
    for index, vc in enumerate(clusters):
        for earlier_index, earlier in enumerate(clusters[:index]):
            if shared := [name for name in vc.node_names if name in earlier.node_names]:
                raise ConfigError(
                    source,
                    f"virtualClusters[{index}].nodeNames",
                    f'"{shared[0]}" is a node of "{earlier.name}" '
                    f"(virtualClusters[{earlier_index}]), too; name it in one of them",
                )
            if not overlap_for_certain(vc, earlier):
                continue
            raise ConfigError(
                source,
                f"virtualClusters[{index}].nodeSelector",
                f'"{vc.name}" and "{earlier.name}" (virtualClusters[{earlier_index}]) select the '
                "same nodes: one selector implies the other",
            )
