"""AgentConfig: every setting with its range, default and help text."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec
from msgspec.structs import FieldInfo
from msgspec.structs import fields as fields_of

from karmada_vc_agent.config.decoding import Setting, camel, settings_of, struct_of
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.model.user_text import is_host, listen_problem
from karmada_vc_agent.model.virtual_cluster import (
    SHARED,
    Bounds,
    Range,
    Tenancy,
    VirtualCluster,
    VirtualClusterSettings,
)
from karmada_vc_agent.model.vocabulary import DEFAULT_CLUSTER_DOMAIN

_PROXY = re.compile(r"(https?|socks5)://(?P<host>\[[^]]*\]|[^]@:/?#[]+)(:(?P<port>[0-9]{1,5}))?/?")
_PORT_BELOW = 65536
_LISTENS = ("bind_address", "health_probe_bind_address", "metrics_bind_address")


class GatewaySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename=camel):
    """How the hub reaches virtual clusters: for kubectl-karmada, search, metrics."""

    enabled: bool = False
    """Publish an endpoint and credentials in each Cluster, so that the hub reaches the virtual
    cluster through the gateway ([gateway](gateway.md)). Run `karmada-vc-agent join` after changing
    it. Not with `objects.anyName`, nor without `installPolicies`."""
    host: str = ""
    """DNS name or IP address of the gateway, as the hub or the agent of its proxy resolves it; its
    certificate has this name. Each host needs a name of its own."""
    port: Annotated[int, Range(1, _PORT_BELOW)] = 8443
    """Port of the gateway."""
    proxy_url: str = ""
    """URL of the proxy through which the hub connects to the gateway, such as the frontend of
    apiserver-network-proxy; empty = directly. http, https or socks5; no user."""
    ca_file: str = "/etc/karmada-vc-agent-gateway/ca.crt"
    """PEM file with the certificate authorities of the gateway and of an https proxy; read again
    when it changes."""
    bind_address: str = ":8443"
    """Address that the gateway listens on."""
    cert_file: str = "/etc/karmada-vc-agent-gateway/tls.crt"
    """PEM file with the certificate of the gateway; read again when it changes."""
    private_key_file: str = "/etc/karmada-vc-agent-gateway/tls.key"
    """PEM file with the key of that certificate; read again when it changes."""
    health_probe_bind_address: str = ":10358"
    """Address of the gateway's /healthz and /readyz; 0 disables them."""
    metrics_bind_address: str = ":10359"
    """Address of the gateway's /metrics, over TLS with its certificate, and only to tokens that the
    host authorizes ([metrics](metrics.md#who-may-read-them)); 0 disables it."""
    max_requests: Annotated[int, Range(1)] = 200
    """Requests of all virtual clusters at once. One may have as many as are left; more get 429."""
    max_long_requests: Annotated[int, Range(1)] = 800
    """Watches, followed logs and upgrades of all virtual clusters at once, shared likewise."""
    audit: bool = True
    """Write a line of JSON to standard output for each request, without bodies."""

    def problem(self) -> tuple[str, str] | None:
        """Return the name of the first invalid setting in the file and what is wrong, or None."""
        for name in _LISTENS:
            if problem := listen_problem(getattr(self, name), may_be_off=name != "bind_address"):
                return camel(name), problem
        if self.proxy_url and (problem := _proxy_problem(self.proxy_url)):
            return "proxyURL", problem
        if self.host and not is_host(_in_url(self.host)):
            return "host", f'"{self.host}" is not a valid DNS name or IP address'
        if not self.enabled:
            return None
        needed = ("host", "ca_file", "bind_address")
        missing = next((name for name in needed if getattr(self, name) in ("", "0")), None)
        return (camel(missing), "is not set; the gateway needs it") if missing else None

    def endpoint(self, cluster: str) -> str:
        """Return `spec.apiEndpoint` of a virtual cluster.

        With a slash at the end: without it the hub's `clusters/*` drops the last segment.
        """
        return f"https://{_in_url(self.host)}:{self.port}/virtualclusters/{cluster}/"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _proxy_problem(url: str) -> str | None:
    """Return what is wrong with the URL of a proxy, or None; it is not shown, for its password.

    A user in it makes the hub's dialer of upgrades panic, so that exec and attach end.
    """
    match = _PROXY.fullmatch(url)
    if match and is_host(match["host"]) and 0 < int(match["port"] or 1) < _PORT_BELOW:
        return None
    return (
        "is not http://host:port, https://host:port or socks5://host:port, without a user, with "
        "which the hub's exec and attach would fail, and without a path"
    )


_Positive = Annotated[Duration, Range(is_open=True)]
_Fraction = Annotated[float, Range(below=1, is_open=True, unit="fraction")]
_Rate = Annotated[float, Range(zero="no limit", unit="per second")]
_Burst = Annotated[int, Range()]
_Count = Annotated[int, Range(1)]


class KindPaths(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Paths in objects of one kind; items of `podTemplates` and `namespaceReferences`."""

    group: str
    """API group of the kind; empty for the core group."""
    kind: str
    """The kind."""
    paths: tuple[str, ...]
    """Paths in the object, such as `spec.tasks[].template`."""
    selector_only: bool = False
    """For `podTemplates` only: the kind has `nodeSelector` and `tolerations` at these paths."""


class ObjectSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """VirtualCluster objects as a source of virtual clusters."""

    enabled: bool = False
    """Serve VirtualCluster objects of the host, too (manifests/base/crd.yaml, [ADR
    31](adr/0031-objects.md)). Run `karmada-vc-agent join` after changing it."""
    any_name: bool = False
    """Let objects, NodeGroups and values of `discover` have any name: `join` then gives the agent
    its rights over all Clusters and Works of the hub. Otherwise name them in `join --name`. Not
    with `tenancy: Strict`."""


class SourceSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """What virtual clusters that are discovered on the host have in common.

    They are taken without a restart.
    """

    grace_period: Annotated[Duration, Range()] = Duration(600)
    """How long a virtual cluster stays unchanged once its NodeGroup or label value is gone."""
    drain: bool = False
    """After that remove it: its Cluster from the hub, then what its Works made. Otherwise it stays
    registered, and condition `GroupPresent` of its Cluster says so. Run `karmada-vc-agent join`
    after changing it."""
    settings: VirtualClusterSettings = VirtualClusterSettings()
    """Settings of each of these virtual clusters."""

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

    def problem(self, config: "AgentConfig") -> tuple[str, str] | None:  # noqa: ARG002
        """Return the name of a setting that does not fit the others, and what is wrong, or None."""
        return None


_Added = TypeVar("_Added", bound=Fields)


class AgentConfig(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=camel
):
    """All settings of one agent."""

    karmada_kubeconfig: str = ""
    """Kubeconfig of the Karmada control plane (the hub). Default: $KUBECONFIG, then ~/.kube/config,
    then the Pod's ServiceAccount."""
    karmada_context: str = ""
    """Context of that kubeconfig. Default: its current context."""
    kubeconfig: str = ""
    """Kubeconfig of the host cluster. Default: the Pod's ServiceAccount, then $KUBECONFIG, then
    ~/.kube/config."""
    agent_name: str = "karmada-vc-agent"
    """Name of the agent: of its leader Lease and its state, and the label on its namespaces. Two
    agents on one host need different names."""
    agent_namespace: str = ""
    """Namespace on the host for the leader Lease and the state; created if it does not exist.
    Default: that of the agent's Pod, else the agent's name."""
    namespace_template: str = "{namespace}-v-{cluster}"
    """Template for the names of host namespaces. Cannot be changed after its first use."""
    controllers: str = "*"
    """Controllers to enable: * enables those on by default, foo enables foo, -foo disables foo; the
    first match wins. clusterStatus: status and Lease of the Clusters. execution: Works. workStatus:
    manifestStatuses and repair of drift; needs execution. serviceExport and endpointsliceCollect
    (gate MultiClusterService): report EndpointSlices. certRotation (on by default only with the
    certificate that join got for the agent): renews the hub credential. hostEvents: warnings of the
    host about objects of Works, as events on the hub. Registration, namespaces and node membership
    always run."""
    feature_gates: str = ""
    """Feature gates as Name=true,Other=false. MultiClusterService (default false),
    CustomizedClusterResourceModeling (default true): modelings of resourceModels."""
    karmada_kubeconfig_namespace: str = ""
    """Namespace on the host of the Secret karmada-kubeconfig, which certRotation renews. Default:
    the agent's namespace."""
    cluster_domain: str = DEFAULT_CLUSTER_DOMAIN
    """DNS domain of the host, to recognise the names of its Services."""
    cluster_provider: str = ""
    """Provider of Clusters whose virtual cluster sets none."""
    cluster_region: str = ""
    """Region of Clusters whose virtual cluster sets none."""
    cluster_zones: str = ""
    """Zones of Clusters whose virtual cluster sets none, separated by commas."""
    cluster_host: str = ""
    """Label virtualcluster.kubeedge.io/host of the Clusters, by which the hub sees that they share
    this host. Default: an id derived from the UID of its namespace kube-system."""
    link: Literal["normal", "thin"] = "normal"
    """The uplink to the hub. `thin`, for 64 kbit/s and round trips of seconds: other defaults for
    `clusterLeaseRenewIntervalFraction`, `clusterStatusUpdateFrequency`, `hubEvents` and
    `clustersByName`, few requests at a time, more patience ([thin links](thin-links.md))."""
    hub_events: Literal["All", "Warnings"] = "All"
    """Which events the agent writes on the hub: all that karmada-agent does, or warnings."""
    clusters_by_name: bool = False
    """Watch each Cluster by its name, not all Clusters of the hub: a watch more for each virtual
    cluster, and nothing of what the rest of a federation changes."""
    cluster_status_update_frequency: _Positive = Duration(10)
    """How often the status of each Cluster is computed; it is written only if it changed. Changes
    of nodes are reported at once, those of pods after a second, once in six such periods."""
    cluster_lease_duration: Annotated[Duration, Range(1)] = Duration(40)
    """Lease duration of each Cluster."""
    cluster_lease_renew_interval_fraction: _Fraction = 0.25
    """Fraction of the Lease duration after which the Lease is renewed."""
    cluster_success_threshold: Annotated[Duration, Range()] = Duration(30)
    """How long the host must be healthy before a Cluster becomes Ready again."""
    cluster_failure_threshold: Annotated[Duration, Range()] = Duration(30)
    """How long the host must be unhealthy before a Cluster becomes not Ready."""
    enable_cluster_resource_modeling: bool = True
    """Report resource sums, and modelings for virtual clusters with resourceModels."""
    install_policies: bool = True
    """Whether karmada-vc-agent join installs the admission policies on the host. The agent itself
    only reads them."""
    tenancy: Tenancy = SHARED
    """Shared: the virtual clusters belong to one organisation; what its Karmada users propagate is
    applied. Strict: they do not trust each other; whatever may affect another virtual cluster is
    refused unless `allow` of the virtual cluster permits it."""
    refuse_shared_hosts: bool = False
    """Refuse host names of Ingresses and routes that another virtual cluster already uses."""
    cluster_api_qps: _Rate = 400.0
    """QPS to the API server of the host, all virtual clusters together."""
    cluster_api_burst: _Burst = 800
    """Burst to the API server of the host, above its QPS."""
    kube_api_qps: _Rate = 400.0
    """QPS to the API server of the hub, all virtual clusters together."""
    kube_api_burst: _Burst = 800
    """Burst to the API server of the hub, above its QPS."""
    cluster_cache_sync_timeout: _Positive = Duration(120)
    """How long the first lists may take before the agent logs which ones are missing."""
    resync_period: Annotated[Duration, Range(zero="never")] = Duration(0)
    """How often every Work is reconciled even if nothing changed."""
    concurrent_cluster_syncs: _Count = 8
    """Number of Clusters whose status is computed concurrently, all virtual clusters together."""
    concurrent_work_syncs: _Count = 32
    """Number of Works reconciled concurrently, all virtual clusters together."""
    works_cluster_wide: bool = False
    """Watch the Works of all Clusters with a single watch; needs the right to read them all."""
    leader_elect: bool = True
    """Elect a leader among the replicas with a Lease on the host."""
    leader_elect_lease_duration: _Positive = Duration(15)
    """Leader election lease duration: another replica may take over after it."""
    leader_elect_renew_deadline: _Positive = Duration(10)
    """Leader election renew deadline: how long the leader keeps writing without renewing."""
    leader_elect_retry_period: _Positive = Duration(2)
    """Leader election retry period between attempts to acquire or renew the Lease."""
    rate_limiter_base_delay: _Positive = Duration(0.005)
    """Initial backoff of a Work or other task that failed; it doubles each time."""
    rate_limiter_max_delay: _Positive = Duration(1000)
    """Maximum backoff of a Work that keeps failing."""
    rate_limiter_qps: _Rate = 10.0
    """Retries of Works, for each virtual cluster."""
    rate_limiter_bucket_size: _Count = 100
    """Burst of retries above that rate, for each virtual cluster."""
    metrics_bind_address: str = "127.0.0.1:8080"
    """Address of /metrics; 0 disables it."""
    metrics_secure: bool = False
    """Serve /metrics over TLS, and only to tokens that the host authorizes."""
    metrics_cert_dir: str = ""
    """Directory with tls.crt and tls.key for /metrics with metricsSecure. Without these files its
    certificate is self-signed and new at each start."""
    health_probe_bind_address: str = ":10357"
    """Address of /healthz and /readyz; 0 disables them."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Log level."""
    log_format: Literal["text", "json"] = "text"
    """Log format."""
    dns_namespace: str = "kube-system"
    """Namespace of the host's CoreDNS, where the rewrite rules for serviceNames are stored."""
    forbidden_namespaces: tuple[str, ...] = ("kube-*",)
    """Patterns of namespaces that virtual clusters may neither have nor refer to. `kube-system`,
    `karmada-system`, `karmada-cluster`, `karmada-es-*` and `vc-system` are always reserved."""
    namespace_keys: tuple[str, ...] = ()
    """Patterns (`*`, `?`) of labels and annotations that Works may set on Namespaces, in addition
    to the known ones ([isolation](isolation.md)). Run `join` after a change."""
    cluster_scoped_kinds: Mapping[str, str] = {}
    """`group/Kind` -> `share`, `rename` or `refuse`, for kinds that the agent refuses or treats
    differently ([ADR 12](adr/0012-cluster-scoped-kinds.md))."""
    pod_templates: tuple[KindPaths, ...] = ()
    """Pod templates in custom kinds that the agent does not know."""
    namespace_references: tuple[KindPaths, ...] = ()
    """Names of namespaces in custom kinds that the agent does not know."""
    infrastructure_namespaces: tuple[str, ...] = ("kube-system", "kubeedge")
    """Host namespaces whose pods may reach namespaces with `networkPolicy: isolate`; the agent's
    own namespace always may."""
    pod_cidrs: tuple[str, ...] = ()
    """All CIDRs of the host's pods: in `Strict` nodes may report no other addresses for pods, once
    `join` has run. Without them isolated pods are not reachable through node ports."""
    cluster_dns: tuple[str, ...] = ()
    """IP addresses of the host's DNS; required by `serviceNames: VirtualFirst`."""
    bounds: Bounds = Bounds()
    """Bounds of each virtual cluster that sets none of its own."""
    objects: ObjectSettings = ObjectSettings()
    """VirtualCluster objects."""
    gateway: GatewaySettings = GatewaySettings()
    """How the hub reaches virtual clusters; off by default."""
    virtual_clusters: tuple[VirtualCluster, ...] = ()
    """The virtual clusters; at least one, unless there is another source of them."""

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
    added = tuple(added)
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
        namespace={"added": added},
    )
    return cast(type[AgentConfig], made)


def _default(field: FieldInfo) -> Any:
    if field.default_factory is msgspec.NODEFAULT:
        return field.default
    return msgspec.field(default_factory=field.default_factory)
