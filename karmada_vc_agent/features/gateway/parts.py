"""What makes virtual clusters reachable through the gateway."""

from karmada_vc_agent.features.gateway.cluster_access import ClusterAccess
from karmada_vc_agent.features.gateway.tokens import GatewayTokens, TokenOwner
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import GroupVersionKind, Object
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.well_known import RBAC_GROUP
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.work_parts import WorkParts
from karmada_vc_agent.translation.identities import Callers, absorbed_name
from karmada_vc_agent.translation.names import ANCHOR_NAMESPACE, Names
from karmada_vc_agent.work.live_objects import LiveObjects

ROLES = Resource(
    GroupVersionKind(RBAC_GROUP, "v1", "ClusterRole"),
    "clusterroles",
    namespaced=False,
    verbs=frozenset(("list", "watch")),
)


class GatewayParts:
    """access: prepares what the hub needs to reach a virtual cluster, and takes it away."""

    def __init__(self, common: Common, works: WorkParts) -> None:
        self._common = common
        self._works = works
        self._roles = LiveObjects(common.clients.host, works.store_of)
        config, clusters, clients = common.config, common.stores.clusters, common.clients
        owner = TokenOwner(config.agent_name, config.agent_namespace, clusters.agent, clusters.host)
        self.access = ClusterAccess(
            clients.host,
            config.gateway,
            GatewayTokens(clients.hub, clients.host, owner, common.clock.now),
            self._claim_anchor,
            self._release_anchor,
            self._identities,
        )

    def roles(self) -> Store[Object] | None:
        """Return what is known of the ClusterRoles of virtual clusters."""
        return self._works.store_of(ROLES)

    def has_rules_of_karmada(self, vc: VirtualCluster) -> bool:
        """Whether Karmada's rules for a virtual cluster are stored on the host."""
        roles = self.roles()
        return roles is not None and roles.get("", absorbed_name(vc.name_on_host)) is not None

    async def _claim_anchor(self, vc: VirtualCluster) -> None:
        await self._works.namespace_writer.claim(vc, ANCHOR_NAMESPACE)

    async def _release_anchor(self, vc: VirtualCluster) -> None:
        await self._works.namespace_writer.release(vc, ANCHOR_NAMESPACE, preserve=False)

    async def _identities(self, vc: VirtualCluster) -> Object:
        absorbed = await self._roles.known(ROLES, "", absorbed_name(vc.name_on_host))
        settings = self._common.settings
        names = Names(
            cluster=vc.name_on_host,
            template=settings.namespace_template,
            claims=self._common.stores.claims.of(vc.name),
            forbidden=settings.forbidden_namespaces,
            adopted=vc.adopt_namespaces,
        )
        return Callers(vc.name, names).role(settings.agent_name, absorbed)
