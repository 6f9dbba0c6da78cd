"""Makes the input of translations from the current state of the host."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Protocol

from karmada_vc_agent.cluster.claims import Claims
from karmada_vc_agent.cluster.host_nodes import HostAddresses
from karmada_vc_agent.cluster.virtual_clusters import Membership, former_names
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.kube.discovery import Discovery, ServedApis
from karmada_vc_agent.model.kinds import gateway_account, gateway_accounts_role
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.model.virtual_cluster import (
    ClaimedNamespaces,
    HostNamespace,
    VirtualCluster,
    VirtualNamespace,
)
from karmada_vc_agent.translation.context import (
    GatewayBinding,
    TranslationContext,
    TranslationSettings,
)
from karmada_vc_agent.translation.kind_paths import NamespaceReferences, PodTemplates
from karmada_vc_agent.translation.kind_policy import configured_kinds
from karmada_vc_agent.translation.names import NamespaceTemplate
from karmada_vc_agent.translation.rbac_rules import admin_rules


def translation_settings(config: AgentConfig) -> TranslationSettings:
    """Return those settings of the agent that translation knows. Raises ValueError: template."""
    return TranslationSettings(
        namespace_template=NamespaceTemplate.parse(config.namespace_template),
        forbidden_namespaces=config.forbidden_namespaces,
        pod_templates=tuple(
            PodTemplates(row.group, row.kind, row.paths, row.selector_only)
            for row in config.pod_templates
        ),
        namespace_references=tuple(
            NamespaceReferences(row.group, row.kind, row.paths)
            for row in config.namespace_references
        ),
        cluster_scoped_kinds=configured_kinds(config.cluster_scoped_kinds),
        cluster_domain=config.cluster_domain,
        cluster_dns=config.cluster_dns,
        infrastructure=(*config.infrastructure_namespaces, config.agent_namespace),
        pod_cidrs=config.pod_cidrs,
        agent_name=config.agent_name,
        tenancy=config.tenancy,
        namespace_keys=config.namespace_keys,
        gateway=_gateway(config),
    )


class _HostViews(Protocol):
    """Views of the host; in the agent these are Stores, in the gateway its HostState."""

    membership: Membership
    claims: Claims
    addresses: HostAddresses


def _gateway(config: AgentConfig) -> GatewayBinding | None:
    if not config.gateway.enabled:
        return None
    account = config.agent_namespace, gateway_account(config.agent_name)
    return GatewayBinding(account, gateway_accounts_role(config.agent_name))


class TranslationContexts:
    """Gathers the TranslationContext of a virtual cluster, or of one of its Works.

    is_of_cluster: whether a Work, by its id, was made for the Cluster itself.
    bound_to: namespace of the binding of a Work, by its id.
    """

    def __init__(
        self,
        settings: TranslationSettings,
        stores: _HostViews,
        is_of_cluster: Callable[[str, str], bool],
        bound_to: Callable[[str], str | None],
        host_discovery: Discovery,
        nodes_of_group: Callable[[str], Collection[str] | None],
        on_new_kinds: Callable[[], object],
        virtual_clusters: Mapping[str, VirtualCluster],
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._on_new_kinds = on_new_kinds
        self._settings = settings
        self._stores = stores
        self._is_of_cluster = is_of_cluster
        self._bound_to = bound_to
        self._discovery = host_discovery
        self._nodes_of_group = nodes_of_group
        self._admin_rules: tuple[ServedApis | None, tuple[Object, ...]] = (None, ())

    def context_for(self, vc: VirtualCluster, work: str) -> TranslationContext:
        """Return the facts about a virtual cluster; work: `<execution namespace>/<name>` or ""."""
        membership = self._stores.membership
        return TranslationContext(
            vc=vc,
            settings=self._settings,
            claims=self._claims(vc.name),
            owns_node=lambda node: membership.owner_of(node) == vc.name,
            work=work,
            bound_to=self._bound_to(work),
            is_of_cluster=self._is_of_cluster(vc.name, work),
            admin_rules=self._most_rules(),
            nodes_of_group=self._nodes_of_group,
            node_taints=membership.taints_of(vc.name),
            is_of_host=partial(self._is_of_host, vc.name),
            is_namespaced=self._is_namespaced,
        )

    def _claims(self, cluster: str) -> Mapping[VirtualNamespace, HostNamespace]:
        """Return the claims of a virtual cluster, and those that it is about to take over."""
        own = self._stores.claims.of(cluster)
        former = former_names(self._virtual_clusters, cluster)
        if not former:
            return own
        return ClaimedNamespaces({**self._stores.claims.left_by(former), **own})

    def _is_of_host(self, cluster: str, address: str) -> bool:
        foreign = self._stores.addresses.is_foreign(address, cluster)
        return foreign or self._settings.is_of_host(address)

    def _is_namespaced(self, gvk: GroupVersionKind) -> bool | None:
        resource = self._discovery.served.by_kind.get(gvk)
        return resource.namespaced if resource is not None else None

    def _most_rules(self) -> tuple[Object, ...]:
        """Return what RBAC rules may grant at most; computed again when the host serves others."""
        served = self._discovery.served
        if self._admin_rules[0] is not served:
            self._admin_rules = (
                served,
                admin_rules(served.namespaced, is_strict=self._settings.is_strict),
            )
            self._on_new_kinds()
        return self._admin_rules[1]
