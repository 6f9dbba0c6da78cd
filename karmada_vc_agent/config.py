"""AgentConfig: every setting with its unit, default and reason; where it may be set.

Settings come from the file, then the environment, then flags; the last one wins. Names in
the file are those of the flags in camelCase, and Karmada's where Karmada has the flag.
"""

import ipaddress
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from karmada_vc_agent.model.domain import CONFIG_API_VERSION
from karmada_vc_agent.model.karmada import CLUSTER_NAME_MAX_LENGTH
from karmada_vc_agent.model.selectors import LabelSelector, Requirement
from karmada_vc_agent.model.switches import enabled_controllers, feature_gates
from karmada_vc_agent.model.virtual_cluster import (
    NAMESPACES_ALWAYS,
    NAMESPACES_ON_DEMAND,
    SERVICE_NAMES_FIRST,
    SERVICE_NAMES_NONE,
    ApplyAs,
    VirtualCluster,
)
from karmada_vc_agent.model.virtual_cluster_problems import overlap_for_certain, problems_of

DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class ConfigError(Exception):
    """A setting that cannot be used: where it stands, its path, and what is wrong."""

    def __init__(self, source: str, path: str, problem: str) -> None:
        super().__init__(f"{source}: {path}: {problem}" if path else f"{source}: {problem}")
        self.path = path
        self.problem = problem


def _setting(default: Any, text: str) -> Any:
    """Declare a setting that is a flag too; text is its help."""
    return field(default=default, metadata={"help": text})


class KindPaths(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Paths in objects of one kind, as `podTemplates` and `namespaceReferences` list them.

    selector_only: of podTemplates; only nodeSelector and tolerations are understood there.
    """

    group: str
    kind: str
    paths: tuple[str, ...]
    selector_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """All settings of one agent. Durations are seconds here, `40s` or `2m` outside."""

    karmada_kubeconfig: str = _setting(
        "", "Kubeconfig of the Karmada control plane (the hub). Default: the usual rules."
    )
    karmada_context: str = _setting("", "Context in it. Default: its current context.")
    kubeconfig: str = _setting(
        "", "Kubeconfig of the host cluster. Default: the Pod's account, then the usual rules."
    )
    agent_name: str = _setting(
        "karmada-vc-agent",
        "Name of this agent: its Lease, its state, label on its namespaces. "
        "Two agents on one host need two names.",
    )
    agent_namespace: str = _setting(
        "",
        "Namespace on the host for Lease and state; created if absent. "
        "Default: that of the agent's Pod, else the agent's name.",
    )
    namespace_template: str = _setting(
        "{namespace}-v-{cluster}", "Host namespace of a virtual one. Fixed after the first use."
    )
    controllers: str = _setting(
        "*",
        "Which controllers run; * = those on by default, -name = not this one, the first mention "
        "wins. clusterStatus: status and Lease of the Clusters. execution: Works. workStatus: "
        "manifestStatuses and repair of drift; only with execution. serviceExport and "
        "endpointsliceCollect (gate MultiClusterService): report EndpointSlices. certRotation "
        "(off by default): renews the hub credential. Registration, namespaces and node "
        "membership always run.",
    )
    feature_gates: str = _setting(
        "",
        "Gates as Name=true,Other=false. MultiClusterService (default false), "
        "CustomizedClusterResourceModeling (default true): modelings of resourceModels.",
    )
    cert_rotation_checking_interval: float = _setting(
        300.0, "How often certRotation looks whether the hub credential must be renewed."
    )
    cert_rotation_remaining_time_threshold: float = _setting(
        0.2, "Part of the life of the hub credential at which certRotation renews it."
    )
    karmada_kubeconfig_namespace: str = _setting(
        "",
        "Namespace on the host with the Secret karmada-kubeconfig, which certRotation renews. "
        "Default: that of the agent.",
    )
    cluster_domain: str = _setting(
        "cluster.local", "DNS domain of the host; it tells which names are those of its Services."
    )
    cluster_provider: str = _setting("", "Provider of the Clusters that name none themselves.")
    cluster_region: str = _setting("", "Region of the Clusters that name none themselves.")
    cluster_zones: str = _setting(
        "", "Zones of the Clusters that name none themselves, separated by commas."
    )
    cluster_status_update_frequency: float = _setting(
        10.0, "How often the status of each Cluster is computed and, if changed, written."
    )
    cluster_lease_duration: float = _setting(40.0, "How long the Lease of a Cluster holds.")
    cluster_lease_renew_interval_fraction: float = _setting(
        0.25, "Part of the Lease duration after which the Lease is renewed."
    )
    cluster_success_threshold: float = _setting(
        30.0, "How long the host must be healthy before a Cluster turns Ready again."
    )
    cluster_failure_threshold: float = _setting(
        30.0, "How long the host must be unhealthy before a Cluster turns not Ready."
    )
    enable_cluster_resource_modeling: bool = _setting(
        True, "Report resource sums, and modelings where a Cluster has resourceModels."
    )
    install_policies: bool = _setting(
        True,
        "Keep admission policies on the host that hold pods on the nodes of their virtual cluster.",
    )
    refuse_shared_hosts: bool = _setting(
        False, "Refuse hosts of Ingresses and Gateway API that another virtual cluster uses."
    )
    cluster_api_qps: float = _setting(
        400.0, "Requests a second to the host, all virtual clusters together; 0 = no limit."
    )
    cluster_api_burst: int = _setting(800, "Requests to the host at once above that rate.")
    kube_api_qps: float = _setting(
        400.0, "Requests a second to the hub, all virtual clusters together; 0 = no limit."
    )
    kube_api_burst: int = _setting(800, "Requests to the hub at once above that rate.")
    cluster_cache_sync_timeout: float = _setting(
        120.0, "How long the first lists may take before the agent says which are missing."
    )
    resync_period: float = _setting(
        0.0, "How often every Work is looked at though nothing changed; 0 = never."
    )
    concurrent_cluster_syncs: int = _setting(
        8, "Clusters whose status is computed at once, all virtual clusters together."
    )
    concurrent_work_syncs: int = _setting(
        32, "Works reconciled at once, all virtual clusters together."
    )
    works_cluster_wide: bool = _setting(
        False, "Watch the Works of all Clusters with one watch; needs the right to read them all."
    )
    leader_elect: bool = _setting(True, "Let one of several replicas lead, by a Lease on the host.")
    leader_elect_lease_duration: float = _setting(15.0, "How long the lead holds unrenewed.")
    leader_elect_renew_deadline: float = _setting(
        10.0, "How long the leader writes without having renewed its lead."
    )
    leader_elect_retry_period: float = _setting(2.0, "Pause between tries to take or renew it.")
    rate_limiter_base_delay: float = _setting(0.005, "First pause of a Work that failed; doubles.")
    rate_limiter_max_delay: float = _setting(1000.0, "Longest pause of a Work that keeps failing.")
    rate_limiter_qps: float = _setting(
        0.0, "Retries of Works a second, all virtual clusters together; 0 = no limit."
    )
    rate_limiter_bucket_size: int = _setting(100, "Retries at once above that rate.")
    metrics_bind_address: str = _setting(":8080", "Address of /metrics; 0 = none.")
    health_probe_bind_address: str = _setting(
        ":10357", "Address of /healthz and /readyz; 0 = none."
    )
    log_level: str = _setting("info", "debug, info, warning or error.")
    log_format: str = _setting("text", "text or json.")
    dns_namespace: str = _setting(
        "kube-system",
        "Namespace of the host's CoreDNS, where the rules for serviceNames are kept.",
    )
    # Not flags: lists and what only the file can say.
    forbidden_namespaces: tuple[str, ...] = ("kube-*",)
    cluster_scoped_kinds: Mapping[tuple[str, str], str] = field(default_factory=dict)
    pod_templates: tuple[KindPaths, ...] = ()
    namespace_references: tuple[KindPaths, ...] = ()
    infrastructure_namespaces: tuple[str, ...] = ("kube-system", "kubeedge")
    """May reach the pods of isolated virtual clusters; the agent's own always may."""
    pod_cidrs: tuple[str, ...] = ()
    """Of the host's pods; without them isolated pods are not reached through node ports."""
    cluster_dns: tuple[str, ...] = ()
    """Addresses of the host's DNS, for serviceNames: VirtualFirst."""
    virtual_clusters: tuple[VirtualCluster, ...] = ()


FLAGS = tuple(f for f in fields(AgentConfig) if "help" in f.metadata)
_CHOICES = {
    "log_level": ("debug", "info", "warning", "error"),
    "log_format": ("text", "json"),
}
DURATIONS = frozenset(
    f.name
    for f in FLAGS
    if f.name.endswith(
        (
            *("_duration", "_threshold", "_frequency", "_deadline", "_period", "_delay"),
            *("_timeout", "_interval"),
        )
    )
    and f.name != "cert_rotation_remaining_time_threshold"
)
_MAY_BE_ZERO = frozenset(
    ("cluster_success_threshold", "cluster_failure_threshold", "resync_period")
)
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration_s(text: str) -> float:
    """Return the seconds of `40s`, `2m`, `1h30m` or `500ms`. Raises ValueError."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f'"{text}" is no duration; write for example 40s or 2m')
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def format_duration(seconds: float) -> str:
    """Write seconds as people do: 40s, 2m, 5ms."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    return f"{seconds / 60:g}m" if seconds >= 60 and seconds % 60 == 0 else f"{seconds:g}s"


# --- the file ---------------------------------------------------------------------------


class _Expression(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    operator: str
    values: list[str] = []


class _Selector(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    match_labels: dict[str, str] = {}
    match_expressions: list[_Expression] = []


class _ApplyAs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    namespace: str
    name: str
    cluster_role: str = ""


class _VirtualClusterEntry(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    name: str
    node_selector: _Selector | None = None
    node_names: list[str] = []
    cluster_labels: dict[str, str] = {}
    provider: str = ""
    region: str = ""
    zones: list[str] = []
    taints: list[dict[str, Any]] = []
    resource_models: list[dict[str, Any]] = []
    namespaces: str = NAMESPACES_ALWAYS
    adopt_namespaces: list[str] = []
    tolerations: list[dict[str, Any]] = []
    offline_tolerations: bool = False
    tolerate_node_taints: bool = True
    quota: dict[str, str | int | float] = {}
    limits: list[dict[str, Any]] = []
    network_policy: str = "none"
    pod_security: str = ""
    allowed_kinds: list[str] = []
    denied_kinds: list[str] = []
    apply_as: _ApplyAs | None = None
    service_names: str = SERVICE_NAMES_NONE


def camel(name: str) -> str:
    """Return the file's name of a setting: `agent_name` -> `agentName`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest).replace("Qps", "QPS")


_LISTS = {
    "forbiddenNamespaces": "forbidden_namespaces",
    "infrastructureNamespaces": "infrastructure_namespaces",
    "podCIDRs": "pod_cidrs",
    "clusterDNS": "cluster_dns",
}

_FileSchema: Any = msgspec.defstruct(
    "AgentConfig",
    [
        ("apiVersion", str, ""),
        ("kind", str, ""),
        ("virtualClusters", list[_VirtualClusterEntry], msgspec.field(default_factory=list)),
        *((name, list[str] | None, None) for name in _LISTS),
        ("clusterScopedKinds", dict[str, str], msgspec.field(default_factory=dict)),
        ("podTemplates", tuple[KindPaths, ...], ()),
        ("namespaceReferences", tuple[KindPaths, ...], ()),
        *((camel(f.name), str | int | float | bool | None, None) for f in FLAGS),
    ],
    forbid_unknown_fields=True,
)


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader, in C where the package has it."""


def load_config(
    path: Path | None, overrides: Mapping[str, Any], variables: Mapping[str, str] | None = None
) -> AgentConfig:
    """Read the file, lay `overrides` (flag name with underscores -> value) over it, check all.

    variables: the environment variable of each override that came from one.
    Raises ConfigError.
    """
    origins: dict[str, tuple[str, str]] = {}
    settings: dict[str, Any] = {}
    source = str(path) if path else "flags"
    if path:
        settings = _read_file(path)
    for setting in FLAGS:
        if overrides.get(setting.name) is not None:
            variable = (variables or {}).get(setting.name)
            flag = f"--{setting.name.replace('_', '-')}"
            origin = (f"environment {variable}", "") if variable else ("flags", flag)
            origins[camel(setting.name)] = origin
            settings[setting.name] = _value(setting, overrides[setting.name], *origin)
    config = AgentConfig(**settings)
    zones = tuple(zone.strip() for zone in config.cluster_zones.split(",") if zone.strip())
    described = tuple(
        replace(
            vc,
            provider=vc.provider or config.cluster_provider,
            region=vc.region or config.cluster_region,
            zones=vc.zones or zones,
        )
        for vc in config.virtual_clusters
    )
    config = replace(config, virtual_clusters=described)
    try:
        _check(config, source)
    except ConfigError as error:
        if error.path not in origins:
            raise
        raise ConfigError(*origins[error.path], error.problem) from None
    return config


def _read_file(path: Path) -> dict[str, Any]:
    try:
        raw = yaml.load(path.read_bytes(), Loader=_LOADER)  # noqa: S506 - a safe loader
    except OSError as error:
        raise ConfigError(str(path), "", error.strerror or str(error)) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(
            str(path), "", f"not valid YAML: {' '.join(str(error).split())}"
        ) from error
    if not isinstance(raw, dict):
        raise ConfigError(str(path), "", "empty, or not a mapping of settings")
    try:
        entry = msgspec.convert(raw, _FileSchema)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at ")
        raise ConfigError(str(path), where.strip("`").removeprefix("$."), problem) from error
    for name, expected in (("apiVersion", CONFIG_API_VERSION), ("kind", "AgentConfig")):
        found = getattr(entry, name)
        if found != expected:
            raise ConfigError(str(path), name, f'is "{found}", must be "{expected}"')
    settings = {
        f.name: _value(f, getattr(entry, camel(f.name)), str(path), camel(f.name))
        for f in FLAGS
        if getattr(entry, camel(f.name)) is not None
    }
    for name, setting in _LISTS.items():
        if getattr(entry, name) is not None:
            settings[setting] = tuple(getattr(entry, name))
    settings["cluster_scoped_kinds"] = {
        _group_and_kind(name, str(path)): policy
        for name, policy in entry.clusterScopedKinds.items()
    }
    settings["pod_templates"] = entry.podTemplates
    settings["namespace_references"] = entry.namespaceReferences
    settings["virtual_clusters"] = tuple(
        _virtual_cluster(cluster, str(path), f"virtualClusters[{index}]")
        for index, cluster in enumerate(entry.virtualClusters)
    )
    return settings


def _group_and_kind(name: str, source: str) -> tuple[str, str]:
    """Split `cert-manager.io/ClusterIssuer`; a core kind has nothing before the slash."""
    group, slash, kind = name.partition("/")
    if not slash or not kind or "/" in kind:
        problem = "is no group/Kind, as in cert-manager.io/ClusterIssuer"
        raise ConfigError(source, f'clusterScopedKinds["{name}"]', problem)
    return group, kind


def _value(setting: Any, given: Any, source: str, path: str) -> Any:
    """Turn what file or flag gave into the setting's type. Raises ConfigError."""
    choices = _CHOICES.get(setting.name)
    if choices and given not in choices:
        raise ConfigError(source, path, f'is "{given}", must be one of {", ".join(choices)}')
    if setting.name in DURATIONS and isinstance(given, str):
        try:
            return parse_duration_s(given)
        except ValueError as error:
            raise ConfigError(source, path, str(error)) from error
    wanted = type(setting.default)
    if wanted in (int, float) and source.startswith(("flags", "environment ")):
        with suppress(ValueError):
            given = wanted(given)
    if wanted is float and isinstance(given, int) and not isinstance(given, bool):
        given = float(given)
    if not isinstance(given, wanted) or (wanted is not bool and isinstance(given, bool)):
        raise ConfigError(source, path, f"is {given!r}, must be {_TYPE_NAMES[wanted]}")
    return given


_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def _virtual_cluster(entry: _VirtualClusterEntry, source: str, path: str) -> VirtualCluster:
    selector = entry.node_selector or _Selector()
    requirements = []
    for index, expression in enumerate(selector.match_expressions):
        where = f"{path}.nodeSelector.matchExpressions[{index}]"
        requirements.append(_requirement(expression, source, where))
    return VirtualCluster(
        name=entry.name,
        node_selector=LabelSelector(selector.match_labels, tuple(requirements)),
        node_names=tuple(entry.node_names),
        cluster_labels=entry.cluster_labels,
        provider=entry.provider,
        region=entry.region,
        zones=tuple(entry.zones),
        taints=tuple(entry.taints),
        resource_models=tuple(entry.resource_models),
        namespaces=entry.namespaces,
        adopt_namespaces=tuple(entry.adopt_namespaces),
        tolerations=tuple(entry.tolerations),
        offline_tolerations=entry.offline_tolerations,
        tolerate_node_taints=entry.tolerate_node_taints,
        quota={name: str(amount) for name, amount in entry.quota.items()},
        limits=tuple(entry.limits),
        network_policy=entry.network_policy,
        pod_security=entry.pod_security,
        allowed_kinds=tuple(entry.allowed_kinds),
        denied_kinds=tuple(entry.denied_kinds),
        apply_as=_apply_as(entry.apply_as),
        service_names=entry.service_names,
    )


def _apply_as(entry: _ApplyAs | None) -> ApplyAs | None:
    return ApplyAs(entry.namespace, entry.name, entry.cluster_role) if entry else None


def _requirement(expression: _Expression, source: str, path: str) -> Requirement:
    needs_values = expression.operator in ("In", "NotIn")
    if not needs_values and expression.operator not in ("Exists", "DoesNotExist"):
        raise ConfigError(
            source,
            f"{path}.operator",
            f'is "{expression.operator}", must be one of In, NotIn, Exists, DoesNotExist',
        )
    if needs_values != bool(expression.values):
        problem = "must not be empty" if needs_values else "must be empty"
        raise ConfigError(source, f"{path}.values", f"{problem} with {expression.operator}")
    return Requirement(expression.key, expression.operator, frozenset(expression.values))


# --- checks -----------------------------------------------------------------------------


def _check(config: AgentConfig, source: str) -> None:
    if not config.virtual_clusters:
        raise ConfigError(source, "virtualClusters", "is empty; name at least one virtual cluster")
    _check_numbers(config, source)
    for name in ("agent_name", "agent_namespace"):
        is_left_open = name == "agent_namespace" and not config.agent_namespace
        if not is_left_open and not DNS_LABEL.fullmatch(getattr(config, name)):
            raise ConfigError(
                source, camel(name), f'"{getattr(config, name)}" is no DNS label ({_DNS_LABEL})'
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


def _check_numbers(config: AgentConfig, source: str) -> None:
    for name in ("cluster_lease_renew_interval_fraction", "cert_rotation_remaining_time_threshold"):
        if not 0 < getattr(config, name) < 1:
            raise ConfigError(source, camel(name), "must be between 0 and 1")
    if config.leader_elect_renew_deadline >= config.leader_elect_lease_duration:
        raise ConfigError(
            source, camel("leader_elect_renew_deadline"), "must be less than the lease duration"
        )
    if config.leader_elect_retry_period >= config.leader_elect_renew_deadline:
        raise ConfigError(
            source, camel("leader_elect_retry_period"), "must be less than the renew deadline"
        )
    for name in sorted(DURATIONS - _MAY_BE_ZERO):
        if getattr(config, name) <= 0:
            raise ConfigError(source, camel(name), "must be more than 0")
    if config.cluster_lease_duration < 1:
        raise ConfigError(source, camel("cluster_lease_duration"), "must be at least 1s")
    for name in ("concurrent_work_syncs", "concurrent_cluster_syncs", "rate_limiter_bucket_size"):
        if getattr(config, name) < 1:
            raise ConfigError(source, camel(name), "must be at least 1")


def _check_addresses(config: AgentConfig, source: str) -> None:
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


_DNS_LABEL = 'lower-case letters, digits and "-", beginning and ending with a letter or digit'


def _check_virtual_cluster(vc: VirtualCluster, source: str, path: str) -> None:
    if len(vc.name) > CLUSTER_NAME_MAX_LENGTH or not DNS_LABEL.fullmatch(vc.name):
        raise ConfigError(
            source,
            f"{path}.name",
            f'"{vc.name}" is no Cluster name: at most {CLUSTER_NAME_MAX_LENGTH} characters, '
            f"{_DNS_LABEL}",
        )
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
            if not overlap_for_certain(vc, earlier):
                continue
            raise ConfigError(
                source,
                f"virtualClusters[{index}].nodeSelector",
                f'"{vc.name}" and "{earlier.name}" (virtualClusters[{earlier_index}]) select the '
                "same nodes: one selector implies the other",
            )
