"""Checks that hub and host let the agent serve a virtual cluster that is newer than `join`."""

from karmada_vc_agent.cluster.agent_node import check_apart_from_tenants
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.model.tenancy import STRICT
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.common import Common
from karmada_vc_agent.runner.joined import has_rights


async def check_permitted(common: Common, vc: VirtualCluster) -> None:
    """Refuse what hub or host forbid. Raises ConfigError, KubeError."""
    if common.config.tenancy == STRICT:
        await check_apart_from_tenants(common.clients.host_urgent, common.node, [vc])
    if not await has_rights(common.clients.hub, vc.name):
        command = f"karmada-vc-agent join --name {vc.name}"
        problem = f"the agent has no rights for Cluster {vc.name} on the hub; run {command}"
        raise ConfigError("hub", "", problem)
