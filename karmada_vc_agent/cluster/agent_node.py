"""The node that the agent runs on, which must not be a tenant's (ADR 22)."""

import logging
from collections.abc import Iterable

from karmada_vc_agent.cluster.membership import Membership
from karmada_vc_agent.cluster.rules.agent_apart import AGENT_APART, agent_apart
from karmada_vc_agent.cluster.rules.conditions import Condition, find_condition
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.log_once import LogOnce
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.core import Node
from karmada_vc_agent.model.objects import Object, labels_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.well_known import NAME_FIELD

_log = logging.getLogger(__name__)

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
    found = await host.get("/api/v1/nodes", {"fieldSelector": f"{NAME_FIELD}={node}"})
    for live in found.get("items") or ():
        if live["metadata"]["name"] != node:
            continue
        labels = labels_of(live)
        owner = next((vc.name for vc in virtual_clusters if vc.selects(node, labels)), None)
        condition = agent_apart(node, labels, owner)
        if condition["status"] != "True":
            problem = f"{condition['message']}. With tenancy Strict the agent does not start there"
            raise ConfigError("environment", VARIABLE, problem)


class AgentNode:
    """Watches the agent's node: groups and labels change."""

    def __init__(self, name: str, nodes: Store[Node], membership: Membership) -> None:
        self._name = name
        self._nodes = nodes
        self._membership = membership
        self._once = LogOnce(_log)

    def condition(self, _vc: VirtualCluster, live: Object) -> list[Condition]:
        """Return the condition AgentApart while the agent is not apart, or was not."""
        node = self._nodes.get("", self._name) if self._name else None
        if node is None:
            return []
        owner = self._membership.owner_of(self._name)
        condition = agent_apart(self._name, node.metadata.labels, owner)
        is_apart = condition["status"] == "True"
        if is_apart:
            self._once.ended()
        else:
            text = "Running on a node that tenants may control"
            self._once.warning(text, reason=condition["message"])
        if is_apart and find_condition(live.get("conditions"), AGENT_APART) is None:
            return []
        return [condition]
