"""AgentConfig: every setting with its range, default and help text, and where it can be set.

Settings come from the file, then the environment, then flags; the last one wins. Names in the file
are those of the flags in camelCase, and Karmada's where Karmada has the flag. Single-valued
settings are also flags and environment variables; lists, maps and structs can be set in the file
only. What one feature alone reads is declared in its folder, as `Fields`.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec
from msgspec.structs import FieldInfo
from msgspec.structs import fields as fields_of

from karmada_vc_agent.config.declared import Setting, camel, settings_of, struct_of
from karmada_vc_agent.config.gateway_settings import GatewaySettings
from karmada_vc_agent.model.kinds import DEFAULT_CLUSTER_DOMAIN
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.model.setting import Help, Range, Unit
from karmada_vc_agent.model.virtual_cluster import (
    SHARED,
    Bounds,
    Tenancy,
    VirtualCluster,
    VirtualClusterSettings,
)

_Positive = Annotated[Duration, Range(is_open=True)]
_Fraction = Annotated[float, Range(below=1, is_open=True), Unit("fraction")]
_Rate = Annotated[float, Range(zero="no limit"), Unit("per second")]
_Burst = Annotated[int, Range()]
_Count = Annotated[int, Range(1)]


class KindPaths(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Paths in objects of one kind; items of `podTemplates` and `namespaceReferences`."""

    group: Annotated[str, Help("API group of the kind; empty for the core group.")]
    kind: Annotated[str, Help("The kind.")]
    paths: Annotated[tuple[str, ...], Help("Paths in the object, such as `spec.tasks[].template`.")]
    selector_only: Annotated[
        bool,
        Help(
            "For `podTemplates` only: the kind has `nodeSelector` and `tolerations` at these paths."
        ),
    ] = False


class ObjectSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """VirtualCluster objects as a source of virtual clusters."""

    enabled: Annotated[
        bool,
        Help(
            "Serve VirtualCluster objects of the host, too (manifests/base/crd.yaml, "
            "[ADR 31](adr/0031-objects.md)). Run `karmada-vc-agent join` after changing it."
        ),
    ] = False
    any_name: Annotated[
        bool,
        Help(
            "Let objects, NodeGroups and values of `discover` have any name: `join` then gives the "
            "agent its rights over all Clusters and Works of the hub. Otherwise name them in "
            "`join --name`. Not with `tenancy: Strict`."
        ),
    ] = False


class SourceSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """What virtual clusters that are discovered on the host have in common.

    They are taken without a restart.
    """

    grace_period: Annotated[
        Duration,
        Range(),
        Help(
            "How long a virtual cluster stays unchanged once its NodeGroup or label value is gone."
        ),
    ] = Duration(600)
    drain: Annotated[
        bool,
        Help(
            "After that remove it: its Cluster from the hub, then what its Works made. Otherwise "
            "it stays registered, and condition `GroupPresent` of its Cluster says so. Run "
            "`karmada-vc-agent join` after changing it."
        ),
    ] = False
    settings: Annotated[
        VirtualClusterSettings, Help("Settings of each of these virtual clusters.")
    ] = VirtualClusterSettings()

    @property
    def is_used(self) -> bool:
        """Return whether there are such virtual clusters."""
        return False

    @property
    def group_labels(self) -> tuple[str, ...]:
        """Return keys of labels of nodes that `join` protects: they select the nodes."""
        return ()

    @property
    def node_labels(self) -> tuple[str, ...]:
        """Return keys of labels that all these nodes have."""
        return self.group_labels

    def problem(self) -> tuple[str, str] | None:
        """Return the name of the first invalid setting in the file and what is wrong, or None."""


class Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename=camel):
    """Settings that a feature adds: its fields are fields of AgentConfig, too."""


_Added = TypeVar("_Added", bound=Fields)


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
            "Name of the agent: of its leader Lease and its state, and the label on its "
            "namespaces. Two agents on one host need different names."
        ),
    ] = "karmada-vc-agent"
    agent_namespace: Annotated[
        str,
        Help(
            "Namespace on the host for the leader Lease and the state; created if it does not "
            "exist. Default: that of the agent's Pod, else the agent's name."
        ),
    ] = ""
    namespace_template: Annotated[
        str,
        Help("Template for the names of host namespaces. Cannot be changed after its first use."),
    ] = "{namespace}-v-{cluster}"
    controllers: Annotated[
        str,
        Help(
            "Controllers to enable: * enables those on by default, foo enables foo, -foo "
            "disables foo; the first match wins. clusterStatus: status and Lease of the "
            "Clusters. execution: Works. workStatus: manifestStatuses and repair of drift; needs "
            "execution. serviceExport and endpointsliceCollect (gate MultiClusterService): "
            "report EndpointSlices. certRotation (on by default only with "
            "the certificate that join got for the agent): renews the hub credential. "
            "hostEvents: warnings of the host about objects of Works, as events on the hub. "
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
    karmada_kubeconfig_namespace: Annotated[
        str,
        Help(
            "Namespace on the host of the Secret karmada-kubeconfig, which certRotation renews. "
            "Default: the agent's namespace."
        ),
    ] = ""
    cluster_domain: Annotated[
        str, Help("DNS domain of the host, to recognise the names of its Services.")
    ] = DEFAULT_CLUSTER_DOMAIN
    cluster_provider: Annotated[
        str, Help("Provider of Clusters whose virtual cluster sets none.")
    ] = ""
    cluster_region: Annotated[str, Help("Region of Clusters whose virtual cluster sets none.")] = ""
    cluster_zones: Annotated[
        str, Help("Zones of Clusters whose virtual cluster sets none, separated by commas.")
    ] = ""
    cluster_host: Annotated[
        str,
        Help(
            "Label virtualcluster.kubeedge.io/host of the Clusters, which tells the hub that they "
            "share this host. Default: an id derived from the UID of its namespace kube-system."
        ),
    ] = ""
    link: Annotated[
        Literal["normal", "thin"],
        Help(
            "The uplink to the hub. `thin`, for 64 kbit/s and round trips of seconds: other "
            "defaults for `clusterLeaseRenewIntervalFraction`, `clusterStatusUpdateFrequency`, "
            "`hubEvents` and `clustersByName`, few requests at a time, more patience "
            "([thin links](thin-links.md))."
        ),
    ] = "normal"
    hub_events: Annotated[
        Literal["All", "Warnings"],
        Help("Which events the agent writes on the hub: all that karmada-agent does, or warnings."),
    ] = "All"
    clusters_by_name: Annotated[
        bool,
        Help(
            "Watch each Cluster by its name, not all Clusters of the hub: a watch more for each "
            "virtual cluster, and nothing of what the rest of a federation changes."
        ),
    ] = False
    cluster_status_update_frequency: Annotated[
        _Positive,
        Help("How often the status of each Cluster is computed; it is written only if it changed."),
    ] = Duration(10)
    cluster_lease_duration: Annotated[
        Duration, Range(1), Help("Lease duration of each Cluster.")
    ] = Duration(40)
    cluster_lease_renew_interval_fraction: Annotated[
        _Fraction, Help("Fraction of the Lease duration after which the Lease is renewed.")
    ] = 0.25
    cluster_success_threshold: Annotated[
        Duration,
        Range(),
        Help("How long the host must be healthy before a Cluster becomes Ready again."),
    ] = Duration(30)
    cluster_failure_threshold: Annotated[
        Duration,
        Range(),
        Help("How long the host must be unhealthy before a Cluster becomes not Ready."),
    ] = Duration(30)
    enable_cluster_resource_modeling: Annotated[
        bool, Help("Report resource sums, and modelings for Clusters with resourceModels.")
    ] = True
    install_policies: Annotated[
        bool,
        Help(
            "Whether karmada-vc-agent join installs the admission policies on the host. The "
            "agent itself only reads them."
        ),
    ] = True
    tenancy: Annotated[
        Tenancy,
        Help(
            "Shared: the virtual clusters belong to one organisation; what its Karmada users "
            "propagate is applied. Strict: they do not trust each other; whatever may affect "
            "another virtual cluster is refused unless `allow` of the virtual cluster permits it."
        ),
    ] = SHARED
    refuse_shared_hosts: Annotated[
        bool,
        Help(
            "Refuse host names of Ingresses and routes that another virtual cluster already uses."
        ),
    ] = False
    cluster_api_qps: Annotated[
        _Rate, Help("QPS to the API server of the host, all virtual clusters together.")
    ] = 400.0
    cluster_api_burst: Annotated[
        _Burst, Help("Burst to the API server of the host, above its QPS.")
    ] = 800
    kube_api_qps: Annotated[
        _Rate, Help("QPS to the API server of the hub, all virtual clusters together.")
    ] = 400.0
    kube_api_burst: Annotated[
        _Burst, Help("Burst to the API server of the hub, above its QPS.")
    ] = 800
    cluster_cache_sync_timeout: Annotated[
        _Positive,
        Help("How long the first lists may take before the agent logs which ones are missing."),
    ] = Duration(120)
    resync_period: Annotated[
        Duration,
        Range(zero="never"),
        Help("How often every Work is reconciled even if nothing changed."),
    ] = Duration(0)
    concurrent_cluster_syncs: Annotated[
        _Count,
        Help(
            "Number of Clusters whose status is computed concurrently, all virtual clusters "
            "together."
        ),
    ] = 8
    concurrent_work_syncs: Annotated[
        _Count, Help("Number of Works reconciled concurrently, all virtual clusters together.")
    ] = 32
    works_cluster_wide: Annotated[
        bool,
        Help(
            "Watch the Works of all Clusters with a single watch; needs the right to read them all."
        ),
    ] = False
    leader_elect: Annotated[
        bool, Help("Elect a leader among the replicas with a Lease on the host.")
    ] = True
    leader_elect_lease_duration: Annotated[
        _Positive, Help("Leader election lease duration: another replica may take over after it.")
    ] = Duration(15)
    leader_elect_renew_deadline: Annotated[
        _Positive,
        Help("Leader election renew deadline: how long the leader keeps writing without renewing."),
    ] = Duration(10)
    leader_elect_retry_period: Annotated[
        _Positive,
        Help("Leader election retry period between attempts to acquire or renew the Lease."),
    ] = Duration(2)
    rate_limiter_base_delay: Annotated[
        _Positive,
        Help("Initial backoff of a Work or other task that failed; it doubles each time."),
    ] = Duration(0.005)
    rate_limiter_max_delay: Annotated[
        _Positive, Help("Maximum backoff of a Work that keeps failing.")
    ] = Duration(1000)
    rate_limiter_qps: Annotated[_Rate, Help("Retries of Works, for each virtual cluster.")] = 10.0
    rate_limiter_bucket_size: Annotated[
        _Count, Help("Burst of retries above that rate, for each virtual cluster.")
    ] = 100
    metrics_bind_address: Annotated[str, Help("Address of /metrics; 0 disables it.")] = (
        "127.0.0.1:8080"
    )
    metrics_secure: Annotated[
        bool,
        Help("Serve /metrics over TLS, and only to tokens that the host authorizes."),
    ] = False
    metrics_cert_dir: Annotated[
        str,
        Help(
            "Directory with tls.crt and tls.key for /metrics with metricsSecure. Without these "
            "files its certificate is self-signed and new at each start."
        ),
    ] = ""
    health_probe_bind_address: Annotated[
        str, Help("Address of /healthz and /readyz; 0 disables them.")
    ] = ":10357"
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Help("Log level.")] = "info"
    log_format: Annotated[Literal["text", "json"], Help("Log format.")] = "text"
    dns_namespace: Annotated[
        str,
        Help(
            "Namespace of the host's CoreDNS, where the rewrite rules for serviceNames are stored."
        ),
    ] = "kube-system"
    forbidden_namespaces: Annotated[
        tuple[str, ...],
        Help(
            "Patterns of namespaces that virtual clusters may neither have nor refer to. "
            "`kube-system`, `karmada-system`, `karmada-cluster`, `karmada-es-*` and `vc-system` "
            "are always reserved."
        ),
    ] = ("kube-*",)
    namespace_keys: Annotated[
        tuple[str, ...],
        Help(
            "Patterns (`*`, `?`) of labels and annotations that Works may set on Namespaces, in "
            "addition to the known ones ([isolation](isolation.md)). Run `join` after a change."
        ),
    ] = ()
    cluster_scoped_kinds: Annotated[
        Mapping[str, str],
        Help(
            "`group/Kind` -> `share`, `rename` or `refuse`, for kinds that the agent refuses or "
            "treats differently ([ADR 12](adr/0012-cluster-scoped-kinds.md))."
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
            "Host namespaces whose pods may reach namespaces with `networkPolicy: isolate`; the "
            "agent's own namespace always may."
        ),
    ] = ("kube-system", "kubeedge")
    pod_cidrs: Annotated[
        tuple[str, ...],
        Help(
            "All CIDRs of the host's pods: in `Strict` nodes may report no other addresses for "
            "pods, once `join` has run. Without them isolated pods are not reachable through node "
            "ports."
        ),
    ] = ()
    cluster_dns: Annotated[
        tuple[str, ...],
        Help("IP addresses of the host's DNS; required by `serviceNames: VirtualFirst`."),
    ] = ()
    bounds: Annotated[Bounds, Help("Bounds of each virtual cluster that sets none of its own.")] = (
        Bounds()
    )
    objects: Annotated[ObjectSettings, Help("VirtualCluster objects.")] = ObjectSettings()
    gateway: Annotated[
        GatewaySettings, Help("How the hub reaches virtual clusters; off by default.")
    ] = GatewaySettings()
    virtual_clusters: Annotated[
        tuple[VirtualCluster, ...],
        Help("The virtual clusters; at least one, unless there is another source of them."),
    ] = ()

    def of(self, added: type[_Added]) -> _Added:
        """Return the settings that a feature adds, the defaults where there are none of it."""
        here = (name for name in added.__struct_fields__ if name in self.__struct_fields__)
        return added(**{name: getattr(self, name) for name in here})

    @property
    def sources(self) -> dict[str, SourceSettings]:
        """Return what is discovered on the host, by the names in the file."""
        return {each.key: getattr(self, each.name) for each in sources_of(type(self))}

    @property
    def has_other_sources(self) -> bool:
        """Return whether there are other sources of virtual clusters than the settings."""
        return self.objects.enabled or any(each.is_used for each in self.sources.values())

    @property
    def has_open_names(self) -> bool:
        """Return whether `join --name` gives names that no generated manifest can list (ADR 62)."""
        return self.has_other_sources and not self.objects.any_name

    @property
    def removes_clusters(self) -> bool:
        """Return whether the agent removes Clusters that are no longer desired from the hub."""
        drains = (each.is_used and each.drain for each in self.sources.values())
        return self.objects.enabled or any(drains)


def sources_of(struct: type[AgentConfig]) -> tuple[Setting, ...]:
    """Return the settings of virtual clusters that are discovered on the host."""
    settings = ((each, struct_of(each.kind)) for each in settings_of(struct))
    return tuple(each for each, kind in settings if kind and issubclass(kind, SourceSettings))


def with_features(added: Iterable[type[Fields]]) -> type[AgentConfig]:
    """Return the settings of an agent with those that its features add."""
    fields = [
        (each.name, each.type, _default(each)) for struct in added for each in fields_of(struct)
    ]
    names = [*AgentConfig.__struct_fields__, *(name for name, _, _ in fields)]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"declared more than once: {', '.join(sorted(twice))}")
    made = msgspec.defstruct(
        "AgentConfig",
        fields,
        bases=(AgentConfig,),
        module=__name__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
        rename=camel,
    )
    return cast(type[AgentConfig], made)


def _default(field: FieldInfo) -> Any:
    if field.default_factory is msgspec.NODEFAULT:
        return field.default
    return msgspec.field(default_factory=field.default_factory)
