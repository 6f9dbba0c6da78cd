"""The input of a translation besides the manifest: settings, and facts about the world."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network

from karmada_vc_agent.model import virtual_cluster
from karmada_vc_agent.model.core import Taint
from karmada_vc_agent.model.kinds import DEFAULT_CLUSTER_DOMAIN
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.model.texts import plain_address
from karmada_vc_agent.model.virtual_cluster import (
    Guard,
    HostNamespace,
    VirtualCluster,
    VirtualNamespace,
)
from karmada_vc_agent.translation import kind_policy, names
from karmada_vc_agent.translation.kind_paths import NamespaceReferences, PodTemplates
from karmada_vc_agent.translation.kind_policy import ClusterScopedKinds
from karmada_vc_agent.translation.names import Names, NamespaceTemplate


@dataclass(frozen=True, slots=True)
class GatewayBinding:
    """Whom to bind while the gateway of an agent is on.

    account: (namespace, name) of the gateway's ServiceAccount. role: the ClusterRole that lets it
    impersonate the ServiceAccounts of a namespace.
    """

    account: tuple[str, str]
    role: str


@dataclass(frozen=True, slots=True)
class TranslationSettings:
    """The agent's settings that translation depends on (rewriting-rules 10)."""

    namespace_template: NamespaceTemplate = field(
        default_factory=lambda: NamespaceTemplate.parse(names.DEFAULT_NAMESPACE_TEMPLATE)
    )
    forbidden_namespaces: tuple[str, ...] = names.DEFAULT_FORBIDDEN_NAMESPACES
    pod_templates: tuple[PodTemplates, ...] = ()
    namespace_references: tuple[NamespaceReferences, ...] = ()
    cluster_scoped_kinds: ClusterScopedKinds = field(default_factory=dict)
    cluster_domain: str = DEFAULT_CLUSTER_DOMAIN
    cluster_dns: tuple[str, ...] = ()
    infrastructure: tuple[str, ...] = ()
    pod_cidrs: tuple[str, ...] = ()
    agent_name: str = "karmada-vc-agent"
    tenancy: str = virtual_cluster.SHARED
    namespace_keys: tuple[str, ...] = ()
    gateway: GatewayBinding | None = None

    @property
    def is_strict(self) -> bool:
        """Return whether the profile is Strict: tenants do not trust each other."""
        return self.tenancy == virtual_cluster.STRICT

    def is_of_host(self, address: str) -> bool:
        """Return whether an address is the host's: of a pod, of its DNS, or node-local."""
        ip = plain_address(address)
        if ip is None:
            return False
        if ip.is_loopback or ip.is_link_local or ip.is_unspecified:
            return True
        return str(ip) in self.cluster_dns or any(ip in ip_network(cidr) for cidr in self.pod_cidrs)


@dataclass(frozen=True, slots=True)
class TranslationContext:
    """Facts about the world that a translation depends on, passed in by the caller.

    claims: host namespaces of this virtual cluster, by virtual name.
    owns_node: whether a node, by its name, belongs to this virtual cluster.
    work: `<execution namespace>/<work>` of the manifest; "" = none.
    bound_to: namespace of the Work's binding, "" = cluster-scoped, None = no binding.
    is_of_cluster: whether Karmada created that Work for the Cluster itself, not for a template.
    admin_rules: the most a Role may grant, see rbac_rules.admin_rules().
    nodes_of_group: names of the nodes in a KubeEdge NodeGroup; None = no such group.
    node_taints: taints of the nodes of this virtual cluster, which its pods tolerate.
    is_of_host: whether an address belongs to a node, a pod or a Service of others.
    is_namespaced: the scope of a kind; None = the host does not serve it.
    names_only: only find which object an earlier manifest created; skip checks of its content.
    """

    vc: VirtualCluster
    settings: TranslationSettings
    claims: Mapping[VirtualNamespace, HostNamespace]
    owns_node: Callable[[str], bool]
    work: str = ""
    bound_to: str | None = None
    is_of_cluster: bool = False
    admin_rules: tuple[Object, ...] = ()
    nodes_of_group: Callable[[str], Collection[str] | None] = lambda _name: None
    node_taints: tuple[Taint, ...] = ()
    is_of_host: Callable[[str], bool] = lambda _address: False
    is_namespaced: Callable[[GroupVersionKind], bool | None] = lambda gvk: (
        not kind_policy.is_cluster_scoped(gvk)
    )
    names_only: bool = False

    def refuses(self, guard: Guard, kind: str = "") -> bool:
        """Return whether profile and `allow` of the virtual cluster refuse what a guard covers."""
        return virtual_cluster.refuses(self.settings.tenancy, self.vc.allow, guard, kind)

    @property
    def allow_in_strict(self) -> Collection[str] | None:
        """Return `allow` of the virtual cluster; None in Shared, where rights need none."""
        return self.vc.allow if self.settings.is_strict else None

    def names(self, noted: Mapping[str, str] | None = None) -> Names:
        """Return the mapping of names under these facts. noted: names recorded on the object."""
        return Names(
            cluster=self.vc.name_on_host,
            template=self.settings.namespace_template,
            claims=self.claims,
            forbidden=self.settings.forbidden_namespaces,
            noted=noted or {},
            adopted=self.vc.adopt_namespaces,
        )
