"""Takes a virtual cluster from hub and host: its Cluster, its host namespaces, its record.

The steps of `karmada-vc-agent leave`, taken by the agent that serves it. Each can be repeated; what
is waited for is said.
"""

import logging
from contextlib import suppress
from functools import partial

from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.claims import Claims
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH, HubClusters, find_cluster
from karmada_vc_agent.cluster.node_labels import unlabel_nodes
from karmada_vc_agent.cluster.virtual_cluster_sources import VirtualClusterSource
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import (
    ConflictError,
    ForbiddenError,
    KubeError,
    NotFoundError,
)
from karmada_vc_agent.kube.for_each import for_each
from karmada_vc_agent.kube.history import doubt_of
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.texts import listed
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.work.namespaces.namespace_writer import NamespaceWriter
from karmada_vc_agent.work.work_finalizer import WorkFinalizer
from karmada_vc_agent.work.works import Works, is_preserved, work_path

_log = logging.getLogger(__name__)

_SHOWN = 3


class Removal:
    """Takes virtual clusters away, step by step."""

    def __init__(
        self,
        hub: ApiClient,
        host: ApiClient,
        clusters: HubClusters,
        works: Works,
        claims: Claims,
        namespaces: NamespaceWriter,
        finalizer: WorkFinalizer,
        state: AgentState,
    ) -> None:
        self._hub = hub
        self._host = host
        self._clusters = clusters
        self._works = works
        self._claims = claims
        self._namespaces = namespaces
        self._finalizer = finalizer
        self._state = state

    async def step(
        self, vc: VirtualCluster, source: VirtualClusterSource, *, keeps: bool = False
    ) -> str:
        """Do what can be done now; return what it waits for, "" once nothing is left of it.

        source: loses it after that. keeps: whether what its Works made stays. Raises
        KubeError.
        """
        name = vc.name
        if doubt := doubt_of(self._hub.history, self._host.history):
            return f"waiting: {doubt}"
        self._finalizer.preserve(name, is_on=keeps)
        if cluster := await self._cluster(name):
            return await self._end_cluster(cluster, keeps=keeps)
        release = partial(self._namespaces.release, vc, preserve=keeps)
        await for_each(tuple(self._claims.of(name)), release)
        if left := sorted(self._claims.of(name).values()):
            return f"waiting for host namespaces: {listed(left, _SHOWN)}"
        source.remove(name)  # before its nodes lose their label: who serves it restores that
        try:
            if vc.needs_membership_label:
                await unlabel_nodes(self._host, vc.name_on_host)
            await self._state.forget(name)
        except KubeError:
            source.put(vc)  # the next step ends it
            raise
        return ""

    def has_begun(self, name: str) -> bool:
        """Return whether it is too late to keep everything: the Cluster is being deleted."""
        return self._clusters.ours(name) is None or self._clusters.is_deleting(name)

    def is_anywhere(self, name: str) -> bool:
        """Return whether a virtual cluster has anything on hub or host, by the caches."""
        return self._clusters.ours(name) is not None or bool(self._claims.of(name))

    async def _cluster(self, name: str) -> Object | None:
        """Return our Cluster, read once more if it is not cached; None if there is none."""
        cached = self._clusters.ours(name)
        if cached is not None or self._clusters.other_agent(name) is not None:
            return cached
        live = await find_cluster(self._hub, name)
        return live if live is not None and self._clusters.is_ours(live) else None

    async def _end_cluster(self, cluster: Object, *, keeps: bool) -> str:
        name = cluster["metadata"]["name"]
        works = self._works.of(name)
        unmarked = [work for work in works if _is_to_be_marked(work)] if keeps else []
        for work in unmarked:
            await preserve_work(self._hub, work)
        if unmarked and not cluster["metadata"].get("deletionTimestamp"):
            # The finalizer goes by the watch, which is to show the mark first.
            return f"waiting for Works to be marked as preserved ({len(unmarked)} left)"
        if not cluster["metadata"].get("deletionTimestamp"):
            _log.info("Deleting the Cluster on the hub", extra={"virtual_cluster": name})
            try:
                await self._hub.delete_same(f"{CLUSTERS_PATH}/{name}", cluster)
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
