"""The node that the agent runs on, which must not be a tenant's (ADR 22)."""

from collections.abc import Iterable

from karmada_vc_agent.cluster.rules.agent_apart import agent_apart
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.model.objects import labels_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.well_known import NAME_FIELD

VARIABLE = "NODE_NAME"
"""Set by the manifest through the downward API; without it the node is unknown."""


async def check_apart_from_tenants(
    host: ApiClient, node: str, virtual_clusters: Iterable[VirtualCluster]
) -> None:
    """Reject a node of a group and an edge node. Raises ConfigError, KubeError.

    node: "" = unknown, nothing is rejected.
    """
    if not node:
        return
    listed = await host.get("/api/v1/nodes", {"fieldSelector": f"{NAME_FIELD}={node}"})
    for live in listed.get("items") or ():
        if live["metadata"]["name"] != node:
            continue
        labels = labels_of(live)
        owner = next((vc.name for vc in virtual_clusters if vc.selects(node, labels)), None)
        condition = agent_apart(node, labels, owner)
        if condition["status"] != "True":
            problem = f"{condition['message']}. With tenancy Strict the agent does not start there"
            raise ConfigError("environment", VARIABLE, problem)
