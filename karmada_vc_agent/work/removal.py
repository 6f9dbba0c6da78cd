"""Removes virtual clusters from hub and host, and votes of those that departed.

The steps of `karmada-vc-agent leave`, taken by the agent that serves it. Each can be repeated; what
is waited for is said.

A departed virtual cluster is one that this agent registered, whose Cluster is no longer on the hub,
and that is not in the settings or stays unregistered by its record. If an agent was running when
the Cluster was deleted, that agent withdrew the votes; here it was not. Its objects stay, even one
without other votes: deleting them is up to `karmada-vc-agent leave`. The label of its nodes stays
as long as it has namespaces.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from karmada_vc_agent.cluster.host_objects import unlabel_nodes
from karmada_vc_agent.cluster.hub_clusters import (
    CLUSTERS_PATH,
    AgentState,
    HubClusters,
    find_cluster,
)
from karmada_vc_agent.cluster.registration import VirtualClusterSource
from karmada_vc_agent.cluster.virtual_clusters import Claims
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import NotReadyError
from karmada_vc_agent.kube.discovery import Discovery, Resource
from karmada_vc_agent.kube.errors import (
    ConflictError,
    ForbiddenError,
    KubeError,
    NotFoundError,
)
from karmada_vc_agent.kube.flows import for_each
from karmada_vc_agent.kube.store import doubt_of
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.user_text import listed
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.translation.kind_policy import ClusterScopedKinds, Policy, policy_for
from karmada_vc_agent.work.namespace_writer import NamespaceWriter
from karmada_vc_agent.work.shared_objects import SharedObjects
from karmada_vc_agent.work.work_finalizer import WorkFinalizer
from karmada_vc_agent.work.works import Works, is_preserved, work_path

_log = logging.getLogger(__name__)

_SHOWN = 3


@dataclass(eq=False)
class Removal:
    """Takes virtual clusters away, step by step."""

    hub: ApiClient
    host: ApiClient
    clusters: HubClusters
    works: Works
    claims: Claims
    namespaces: NamespaceWriter
    finalizer: WorkFinalizer
    state: AgentState

    async def step(
        self, vc: VirtualCluster, source: VirtualClusterSource, *, keeps: bool = False
    ) -> str:
        """Do what can be done now; return what it waits for, "" once nothing is left of it.

        source: loses it after that. keeps: whether what its Works made stays. Raises KubeError.
        """
        name = vc.name
        if doubt := doubt_of(self.hub.history, self.host.history):
            return f"waiting: {doubt}"
        self.finalizer.preserve(name, is_on=keeps)
        if cluster := await self._cluster(name):
            return await self._end_cluster(cluster, keeps=keeps)
        release = partial(self.namespaces.release, vc, preserve=keeps)
        await for_each(tuple(self.claims.of(name)), release)
        if left := sorted(self.claims.of(name).values()):
            return f"waiting for host namespaces: {listed(left, _SHOWN)}"
        source.remove(name)  # before its nodes lose their label: who serves it restores that
        try:
            if vc.needs_membership_label:
                await unlabel_nodes(self.host, vc.name_on_host)
            await self.state.forget(name)
        except KubeError:
            source.put(vc)  # the next step ends it
            raise
        return ""

    def has_begun(self, name: str) -> bool:
        """Return whether it is too late to keep everything: the Cluster is being deleted."""
        return self.clusters.ours(name) is None or self.clusters.is_deleting(name)

    def is_anywhere(self, name: str) -> bool:
        """Return whether a virtual cluster has anything on hub or host, by the caches."""
        return self.clusters.ours(name) is not None or bool(self.claims.of(name))

    async def _cluster(self, name: str) -> Object | None:
        """Return our Cluster, read once more if it is not cached; None if there is none."""
        cached = self.clusters.ours(name)
        if cached is not None or self.clusters.other_agent(name) is not None:
            return cached
        live = await find_cluster(self.hub, name)
        return live if live is not None and self.clusters.is_ours(live) else None

    async def _end_cluster(self, cluster: Object, *, keeps: bool) -> str:
        name = cluster["metadata"]["name"]
        works = self.works.of(name)
        unmarked = [work for work in works if _is_to_be_marked(work)] if keeps else []
        for work in unmarked:
            await preserve_work(self.hub, work)
        if unmarked and not cluster["metadata"].get("deletionTimestamp"):
            # The finalizer goes by the watch, which is to show the mark first.
            return f"waiting for Works to be marked as preserved ({len(unmarked)} left)"
        if not cluster["metadata"].get("deletionTimestamp"):
            _log.info("Deleting the Cluster on the hub", extra={"virtual_cluster": name})
            try:
                await self.hub.delete_same(f"{CLUSTERS_PATH}/{name}", cluster)
            except ForbiddenError as error:
                return (
                    f"the agent may not delete Cluster {name} on the hub: run karmada-vc-agent "
                    f"join again, or delete the Cluster yourself ({error})"
                )
            except (NotFoundError, ConflictError):
                pass  # the next step sees what became of it
        if works:
            return f"waiting for Works of Cluster {name} to be finalised ({len(works)} left)"
        return f"waiting for the hub to remove Cluster {name}"


async def preserve_work(hub: ApiClient, work: Object) -> None:
    """Mark a Work, so that what it created stays once it is deleted. Raises KubeError."""
    path = work_path(work["metadata"]["namespace"], work["metadata"]["name"])
    with suppress(NotFoundError):
        await hub.merge_patch(path, {"spec": {"preserveResourcesOnDeletion": True}})


def _is_to_be_marked(work: Object) -> bool:
    return not is_preserved(work) and not work["metadata"].get("deletionTimestamp")


FRESH_S = 60.0


@dataclass(eq=False)
class DeparturesController:
    """Withdraws the votes of departed virtual clusters, then forgets those not in the settings.

    is_served: whether one is in the settings and does not stay unregistered.
    """

    hub: ApiClient
    host: ApiClient
    discovery: Discovery
    clusters: HubClusters
    state: AgentState
    shared_objects: SharedObjects
    cluster_scoped_kinds: ClusterScopedKinds
    claims: Claims
    virtual_clusters: Mapping[str, VirtualCluster]
    is_served: Callable[[str], bool]

    async def reconcile(self, name: str) -> None:
        """Withdraw the votes of one virtual cluster if it departed."""
        if self.state.cluster(name) is None or self.is_served(name):
            return
        if await self._is_on_hub(name):
            return  # merely not served now
        served = await self.discovery.refresh(FRESH_S)
        left = await self.shared_objects.leave_all(
            served, name, preserve=True, selects=self._is_shared
        )
        for resource, shared in left:
            _log.info(
                "Removed a virtual cluster that left from the owners of a shared object",
                extra={"virtual_cluster": name, "kind": resource.gvk.kind, "object": shared},
            )
        if name not in self.virtual_clusters:
            if not self.claims.of(name):
                await self._unlabel(name)
            await self.state.forget(name)

    async def _unlabel(self, name: str) -> None:
        """Remove the label from the nodes that it had; what others have its name for stays."""
        former = {value for value, of in self.state.labels().items() if of == name}
        served = {vc.name_on_host for vc in self.virtual_clusters.values()}
        for value in {name, *former} - served:
            await unlabel_nodes(self.host, value)

    async def _is_on_hub(self, name: str) -> bool:
        """Return whether a Cluster of this name exists, of any owner; requests it if not cached.

        Raises NotReadyError while hub or host may have gone back in time.
        """
        if self.clusters.store.get("", name) is not None:
            return True
        if doubt := doubt_of(self.hub.history, self.host.history):
            raise NotReadyError(doubt)
        return await find_cluster(self.hub, name) is not None

    def _is_shared(self, resource: Resource) -> bool:
        """Return True for shared kinds: others have no votes, and may not all be read."""
        policy = policy_for(
            resource.gvk, namespaced=resource.namespaced, configured=self.cluster_scoped_kinds
        )
        return policy is Policy.SHARE
