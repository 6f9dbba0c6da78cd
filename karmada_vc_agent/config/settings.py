"""AgentConfig: every setting with its range, default and reason; where it may be set.

Settings come from the file, then the environment, then flags; the last one wins. Names in
the file are those of the flags in camelCase, and Karmada's where Karmada has the flag. What is
one value is a flag and an environment variable too; lists, maps and structs only the file has.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from karmada_vc_agent.config.declared import settings_of
from karmada_vc_agent.model.bounds import Bounds
from karmada_vc_agent.model.durations import Duration
from karmada_vc_agent.model.setting import Help, Range, Unit
from karmada_vc_agent.model.tenancy import SHARED, Tenancy
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_INITIALISMS = {"api": "API", "qps": "QPS", "cidrs": "CIDRs", "dns": "DNS"}

_Positive = Annotated[Duration, Range(is_open=True)]
_Fraction = Annotated[float, Range(below=1, is_open=True), Unit("fraction")]
_Rate = Annotated[float, Range(zero="no limit"), Unit("per second")]
_Burst = Annotated[int, Range()]
_Count = Annotated[int, Range(1)]


def camel(name: str) -> str:
    """Return the file's name of a setting: `kube_api_qps` -> `kubeAPIQPS`."""
    first, *rest = name.split("_")
    return first + "".join(_INITIALISMS.get(word, word.capitalize()) for word in rest)


class KindPaths(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Paths in objects of one kind, as `podTemplates` and `namespaceReferences` list them."""

    group: Annotated[str, Help("API group of the kind; empty for the core group.")]
    kind: Annotated[str, Help("The kind.")]
    paths: Annotated[
        tuple[str, ...], Help("Paths in its objects, such as `spec.tasks[].template`.")
    ]
    selector_only: Annotated[
        bool,
        Help("Only for `podTemplates`: the kind has `nodeSelector` and `tolerations` there."),
    ] = False


class AgentConfig(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=camel
):
    """All settings of one agent."""

    karmada_kubeconfig: Annotated[
        str,
        Help(
            "Kubeconfig of the Karmada control plane (the hub). "
            "Default: $KUBECONFIG, then ~/.kube/config, then the Pod's ServiceAccount."
        ),
    ] = ""
    karmada_context: Annotated[
        str, Help("Context of that kubeconfig. Default: its current context.")
    ] = ""
    kubeconfig: Annotated[
        str,
        Help(
            "Kubeconfig of the host cluster. "
            "Default: the Pod's ServiceAccount, then $KUBECONFIG, then ~/.kube/config."
        ),
    ] = ""
    agent_name: Annotated[
        str,
        Help(
            "Name of this agent, for its Lease, its state and the label on its namespaces. "
            "Two agents on one host need two names."
        ),
    ] = "karmada-vc-agent"
    agent_namespace: Annotated[
        str,
        Help(
            "Namespace on the host for Lease and state; created if it does not exist. "
            "Default: that of the agent's Pod, else the agent's name."
        ),
    ] = ""
    namespace_template: Annotated[
        str,
        Help("Template for the names of host namespaces. Cannot be changed after the first use."),
    ] = "{namespace}-v-{cluster}"
    controllers: Annotated[
        str,
        Help(
            "Which controllers run: * = those on by default, name = this one, -name = not this "
            "one; the first mention wins. clusterStatus: status and Lease of the Clusters. "
            "execution: Works. workStatus: manifestStatuses and repair of drift; only with "
            "execution. serviceExport and endpointsliceCollect (gate MultiClusterService): report "
            "EndpointSlices. certRotation (off by default): renews the hub credential. "
            "Registration, namespaces and node membership always run."
        ),
    ] = "*"
    feature_gates: Annotated[
        str,
        Help(
            "Feature gates as Name=true,Other=false. MultiClusterService (default false), "
            "CustomizedClusterResourceModeling (default true): modelings of resourceModels."
        ),
    ] = ""
    cert_rotation_checking_interval: Annotated[
        _Positive, Help("How often certRotation checks whether to renew the hub credential.")
    ] = Duration(300)
    cert_rotation_remaining_time_threshold: Annotated[
        _Fraction,
        Help("Remaining part of the hub credential's lifetime at which certRotation renews it."),
    ] = 0.2
    karmada_kubeconfig_namespace: Annotated[
        str,
        Help(
            "Namespace on the host with the Secret karmada-kubeconfig, which certRotation renews. "
            "Default: that of the agent."
        ),
    ] = ""
    cluster_domain: Annotated[
        str, Help("DNS domain of the host; it tells which names are those of its Services.")
    ] = "cluster.local"
    cluster_provider: Annotated[
        str, Help("Provider of the Clusters whose virtual cluster sets none.")
    ] = ""
    cluster_region: Annotated[
        str, Help("Region of the Clusters whose virtual cluster sets none.")
    ] = ""
    cluster_zones: Annotated[
        str, Help("Zones of the Clusters whose virtual cluster sets none, separated by commas.")
    ] = ""
    cluster_status_update_frequency: Annotated[
        _Positive,
        Help("How often the status of each Cluster is computed and, if changed, updated."),
    ] = Duration(10)
    cluster_lease_duration: Annotated[
        Duration, Range(1), Help("Duration of the Lease of each Cluster.")
    ] = Duration(40)
    cluster_lease_renew_interval_fraction: Annotated[
        _Fraction, Help("Part of the Lease duration after which the Lease is renewed.")
    ] = 0.25
    cluster_success_threshold: Annotated[
        Duration,
        Range(),
        Help("How long the host must be healthy before a Cluster turns Ready again."),
    ] = Duration(30)
    cluster_failure_threshold: Annotated[
        Duration,
        Range(),
        Help("How long the host must be unhealthy before a Cluster turns not Ready."),
    ] = Duration(30)
    enable_cluster_resource_modeling: Annotated[
        bool, Help("Report resource sums, and modelings where a Cluster has resourceModels.")
    ] = True
    install_policies: Annotated[
        bool,
        Help(
            "Whether karmada-vc-agent join installs the admission policies on the host; "
            "the agent only reads them."
        ),
    ] = True
    tenancy: Annotated[
        Tenancy,
        Help(
            "Shared: the virtual clusters belong to one organisation, and what its Karmada users "
            "propagate works. Strict: they do not trust each other, and what may reach another is "
            "refused unless `allow` of a virtual cluster names it."
        ),
    ] = SHARED
    refuse_shared_hosts: Annotated[
        bool,
        Help("Refuse host names of Ingresses and routes that another virtual cluster uses."),
    ] = False
    cluster_api_qps: Annotated[
        _Rate, Help("QPS to the API server of the host, all virtual clusters together.")
    ] = 400.0
    cluster_api_burst: Annotated[
        _Burst, Help("Burst to the API server of the host, above that rate.")
    ] = 800
    kube_api_qps: Annotated[
        _Rate, Help("QPS to the API server of the hub, all virtual clusters together.")
    ] = 400.0
    kube_api_burst: Annotated[
        _Burst, Help("Burst to the API server of the hub, above that rate.")
    ] = 800
    cluster_cache_sync_timeout: Annotated[
        _Positive,
        Help("How long the first lists may take before the agent logs which are missing."),
    ] = Duration(120)
    resync_period: Annotated[
        Duration,
        Range(zero="never"),
        Help("How often every Work is reconciled though nothing changed."),
    ] = Duration(0)
    concurrent_cluster_syncs: Annotated[
        _Count, Help("Clusters whose status is computed at once, all virtual clusters together.")
    ] = 8
    concurrent_work_syncs: Annotated[
        _Count, Help("Works reconciled at once, all virtual clusters together.")
    ] = 32
    works_cluster_wide: Annotated[
        bool,
        Help("Watch the Works of all Clusters with one watch; needs the right to read them all."),
    ] = False
    leader_elect: Annotated[
        bool, Help("Leader election between replicas, by a Lease on the host.")
    ] = True
    leader_elect_lease_duration: Annotated[
        _Positive, Help("Leader election lease duration: after it another replica may lead.")
    ] = Duration(15)
    leader_elect_renew_deadline: Annotated[
        _Positive,
        Help("Leader election renew deadline: how long the leader writes without renewing."),
    ] = Duration(10)
    leader_elect_retry_period: Annotated[
        _Positive,
        Help("Leader election retry period: between attempts to acquire or renew the Lease."),
    ] = Duration(2)
    rate_limiter_base_delay: Annotated[
        _Positive, Help("First backoff of a Work that failed; each failure doubles it.")
    ] = Duration(0.005)
    rate_limiter_max_delay: Annotated[
        _Positive, Help("Longest backoff of a Work that keeps failing.")
    ] = Duration(1000)
    rate_limiter_qps: Annotated[_Rate, Help("Retries of Works, for each virtual cluster.")] = 10.0
    rate_limiter_bucket_size: Annotated[
        _Count, Help("Retries at once above that rate, for each virtual cluster.")
    ] = 100
    metrics_bind_address: Annotated[str, Help("Address of /metrics; 0 = none.")] = "127.0.0.1:8080"
    metrics_secure: Annotated[
        bool,
        Help("Serve /metrics with TLS, and only to bearers of tokens whom the host allows it."),
    ] = False
    health_probe_bind_address: Annotated[
        str, Help("Address of /healthz and /readyz; 0 = none.")
    ] = ":10357"
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Help("Log level.")] = "info"
    log_format: Annotated[Literal["text", "json"], Help("Log format.")] = "text"
    dns_namespace: Annotated[
        str, Help("Namespace of the host's CoreDNS, where the rules for serviceNames are kept.")
    ] = "kube-system"
    forbidden_namespaces: Annotated[
        tuple[str, ...],
        Help(
            "Patterns of namespaces that no virtual cluster may have or name. `kube-system`, "
            "`karmada-system`, `karmada-cluster`, `karmada-es-*` and `vc-system` always are."
        ),
    ] = ("kube-*",)
    namespace_keys: Annotated[
        tuple[str, ...],
        Help(
            "Patterns of labels and annotations that Works may set on Namespaces besides the "
            "known ones ([isolation](isolation.md))."
        ),
    ] = ()
    cluster_scoped_kinds: Annotated[
        Mapping[str, str],
        Help(
            "`group/Kind` -> `share`, `rename` or `refuse`, for kinds that the agent refuses or "
            "treats otherwise ([ADR 12](adr/0012-cluster-scoped-kinds.md))."
        ),
    ] = {}
    pod_templates: Annotated[
        tuple[KindPaths, ...], Help("Pod templates in custom kinds that the agent does not know.")
    ] = ()
    namespace_references: Annotated[
        tuple[KindPaths, ...],
        Help("Names of namespaces in custom kinds that the agent does not know."),
    ] = ()
    infrastructure_namespaces: Annotated[
        tuple[str, ...],
        Help(
            "Host namespaces whose pods may reach those of `networkPolicy: isolate`; "
            "those of the agent's own namespace always may."
        ),
    ] = ("kube-system", "kubeedge")
    pod_cidrs: Annotated[
        tuple[str, ...],
        Help(
            "CIDRs of the host's pods; without them isolated pods are not reached through node "
            "ports."
        ),
    ] = ()
    cluster_dns: Annotated[
        tuple[str, ...],
        Help("IP addresses of the host's DNS; `serviceNames: VirtualFirst` needs them."),
    ] = ()
    bounds: Annotated[Bounds, Help("Bounds of each virtual cluster, unless it sets its own.")] = (
        Bounds()
    )
    virtual_clusters: Annotated[
        tuple[VirtualCluster, ...], Help("The virtual clusters; at least one.")
    ] = ()


SETTINGS = settings_of(AgentConfig)
FLAGS = tuple(setting for setting in SETTINGS if setting.is_flag)
