"""Withdraws what departed virtual clusters left on the host: their votes on shared objects.

A departed virtual cluster is one that this agent registered, whose Cluster is no longer on the hub,
and that is not in the settings or stays unregistered by its record. If an agent was running when
the Cluster was deleted, that agent withdrew the votes; here it was not. Its objects stay, even one
without other votes: deleting them is up to `karmada-vc-agent leave`. The label of its nodes stays
as long as it has namespaces.
"""

import logging
from collections.abc import Callable, Mapping

from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.claims import Claims
from karmada_vc_agent.cluster.hub_clusters import HubClusters, find_cluster
from karmada_vc_agent.cluster.node_labels import unlabel_nodes
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import NotReadyError
from karmada_vc_agent.kube.discovery import Discovery, Resource
from karmada_vc_agent.kube.history import doubt_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.kind_policy import ClusterScopedKinds, Policy, policy_for
from karmada_vc_agent.work.shared_objects import SharedObjects

_log = logging.getLogger(__name__)

FRESH_S = 60.0


class DeparturesController:
    """Withdraws the votes of departed virtual clusters, then forgets those not in the settings.

    virtual_clusters: those in the settings. is_served: whether one is among them and does not stay
    unregistered.
    """

    def __init__(
        self,
        hub: ApiClient,
        host: ApiClient,
        discovery: Discovery,
        clusters: HubClusters,
        state: AgentState,
        shared_objects: SharedObjects,
        cluster_scoped_kinds: ClusterScopedKinds,
        claims: Claims,
        virtual_clusters: Mapping[str, VirtualCluster],
        is_served: Callable[[str], bool],
    ) -> None:
        self._hub = hub
        self._host = host
        self._discovery = discovery
        self._clusters = clusters
        self._state = state
        self._shared_objects = shared_objects
        self._cluster_scoped_kinds = cluster_scoped_kinds
        self._is_served = is_served
        self._claims = claims
        self._virtual_clusters = virtual_clusters

    async def reconcile(self, name: str) -> None:
        """Withdraw the votes of one virtual cluster if it departed."""
        if self._state.cluster(name) is None or self._is_served(name):
            return
        if await self._is_on_hub(name):
            return  # merely not served now
        served = await self._discovery.refresh(FRESH_S)
        left = await self._shared_objects.leave_all(
            served, name, preserve=True, selects=self._is_shared
        )
        for resource, shared in left:
            _log.info(
                "Removed a virtual cluster that left from the owners of a shared object",
                extra={"virtual_cluster": name, "kind": resource.gvk.kind, "object": shared},
            )
        if name not in self._virtual_clusters:
            if not self._claims.of(name):
                await self._unlabel(name)
            await self._state.forget(name)

    async def _unlabel(self, name: str) -> None:
        """Remove the label from the nodes that it had; what others have its name for stays."""
        former = {value for value, of in self._state.labels().items() if of == name}
        served = {vc.name_on_host for vc in self._virtual_clusters.values()}
        for value in {name, *former} - served:
            await unlabel_nodes(self._host, value)

    async def _is_on_hub(self, name: str) -> bool:
        """Return whether a Cluster of this name exists, of any owner; requests it if not cached.

        Raises NotReadyError while hub or host may have gone back in time.
        """
        if self._clusters.store.get("", name) is not None:
            return True
        if doubt := doubt_of(self._hub.history, self._host.history):
            raise NotReadyError(doubt)
        return await find_cluster(self._hub, name) is not None

    def _is_shared(self, resource: Resource) -> bool:
        """Return True for shared kinds: others have no votes, and may not all be read."""
        policy = policy_for(
            resource.gvk, namespaced=resource.namespaced, configured=self._cluster_scoped_kinds
        )
        return policy is Policy.SHARE
