"""AgentConfig: every setting with its unit, default and reason; where it may be set.

Settings come from the file, then the environment, then flags; the last one wins. Names in
the file are those of the flags in camelCase, and Karmada's where Karmada has the flag.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import msgspec

from karmada_vc_agent.model.tenancy import SHARED
from karmada_vc_agent.model.virtual_cluster import VirtualCluster


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
        "",
        "Kubeconfig of the Karmada control plane (the hub). "
        "Default: KUBECONFIG, then ~/.kube/config, then the Pod's account.",
    )
    karmada_context: str = _setting("", "Context in it. Default: its current context.")
    kubeconfig: str = _setting(
        "",
        "Kubeconfig of the host cluster. "
        "Default: the Pod's account, then KUBECONFIG, then ~/.kube/config.",
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
        300.0, "How often certRotation looks whether it must renew the hub credential."
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
        10.0, "How often the agent computes the status of each Cluster and, if changed, writes it."
    )
    cluster_lease_duration: float = _setting(40.0, "How long the Lease of a Cluster holds.")
    cluster_lease_renew_interval_fraction: float = _setting(
        0.25, "Part of the Lease duration after which the agent renews the Lease."
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
        "Have karmada-vc-agent join install admission policies on the host; the agent reads them.",
    )
    tenancy: str = _setting(
        SHARED,
        "Shared: the virtual clusters belong to one organisation, and what its Karmada users "
        "propagate works. Strict: they do not trust each other, and what may reach another is "
        "refused unless `allow` of a virtual cluster names it.",
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
        0.0, "How often the agent looks at every Work though nothing changed; 0 = never."
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
    leader_elect_lease_duration: float = _setting(
        15.0, "How long the leader's Lease holds without renewal."
    )
    leader_elect_renew_deadline: float = _setting(
        10.0, "How long the leader writes without having renewed its Lease."
    )
    leader_elect_retry_period: float = _setting(
        2.0, "Pause between tries to take or renew that Lease."
    )
    rate_limiter_base_delay: float = _setting(
        0.005, "First pause of a Work that failed; each failure doubles it."
    )
    rate_limiter_max_delay: float = _setting(1000.0, "Longest pause of a Work that keeps failing.")
    rate_limiter_qps: float = _setting(
        10.0, "Retries of Works a second, for each virtual cluster; 0 = no limit."
    )
    rate_limiter_bucket_size: int = _setting(
        100, "Retries at once above that rate, for each virtual cluster."
    )
    metrics_bind_address: str = _setting("127.0.0.1:8080", "Address of /metrics; 0 = none.")
    metrics_secure: bool = _setting(
        False,
        "Answer /metrics by TLS, and only bearers of tokens whom the host allows to get it.",
    )
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
    namespace_keys: tuple[str, ...] = ()
    """Patterns of labels and annotations that a Work may give to Namespaces besides the known."""
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


def camel(name: str) -> str:
    """Return the file's name of a setting: `agent_name` -> `agentName`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest).replace("Qps", "QPS")
