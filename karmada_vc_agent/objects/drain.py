"""A VirtualCluster object that is deleted: its Cluster goes, what it has on the host, then it.

The steps of `karmada-vc-agent leave`, taken by the agent that serves the virtual cluster. Each can
be repeated; what is waited for is said, and becomes a condition of the object.
"""

import logging
from dataclasses import dataclass
from typing import Protocol

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import (
    ConflictError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    UnreachableError,
)
from karmada_vc_agent.lifecycle.agent_state import AgentState
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.virtual_cluster import VirtualCluster, VirtualNamespace
from karmada_vc_agent.objects.definitions import Definitions
from karmada_vc_agent.objects.object_names import PATH
from karmada_vc_agent.objects.reading import Definition
from karmada_vc_agent.views.claims import Claims
from karmada_vc_agent.views.hub_clusters import CLUSTERS_PATH, HubClusters
from karmada_vc_agent.views.works import Works, is_preserved, work_path

_log = logging.getLogger(__name__)

PRESERVE = "Preserve"
_SHOWN = 3


class Release(Protocol):
    """Gives up a claimed namespace; preserve: whether what is in it stays."""

    async def __call__(
        self, vc: VirtualCluster, namespace: VirtualNamespace, *, preserve: bool
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Belongings:
    """What a virtual cluster has on hub and host, and who gives it up."""

    clusters: HubClusters
    works: Works
    claims: Claims
    release: Release
    state: AgentState


class Drain:
    """Takes a virtual cluster from hub and host."""

    def __init__(
        self, hub: ApiClient, host: ApiClient, definitions: Definitions, has: Belongings
    ) -> None:
        self._hub = hub
        self._host = host
        self._definitions = definitions
        self._has = has

    async def step(self, name: str) -> str:
        """Do what can be done now for an object; return what it waits for, "" once it may go."""
        if self._definitions.of(name) is None:
            return ""
        try:
            text = await self._waits_for(await self._read(name))
        except UnreachableError as error:
            text = f"waits for an API server that does not answer: {error}"
        except KubeError as error:
            text = f"waits for an API server that refuses: {error}"
        if text:
            self._definitions.note_waiting(name, text)
        else:
            _log.info("Removed a virtual cluster", extra={"virtual_cluster": name})
            self._definitions.end(name)
        return text

    async def _read(self, name: str) -> Definition | None:
        """Return what an object says now: its deletionPolicy may change while it waits."""
        try:
            body = await self._host.get(f"{PATH}/{name}")
        except NotFoundError:
            return None  # somebody took the finalizer off
        return self._definitions.observe(body)

    async def _waits_for(self, definition: Definition | None) -> str:
        if definition is None:
            return ""
        name, source = definition.name, self._definitions.source
        vc = next((vc for vc in source.wanted() if vc.name == name), None)
        if vc is None or source.rival(name) is not None:
            return ""  # another one of this name is served, or none ever was
        keeps = definition.deletion_policy == PRESERVE
        if cluster := await self._cluster(name):
            return await self._end_cluster(cluster, keeps=keeps)
        if claimed := self._has.claims.of(name):
            for namespace in tuple(claimed):
                await self._has.release(vc, namespace, preserve=keeps)
            left = sorted(claimed.values())
            more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
            return f"waits for host namespaces: {', '.join(left[:_SHOWN])}{more}"
        source.remove(name)
        await self._has.state.forget(name)
        return ""

    async def _cluster(self, name: str) -> Object | None:
        """Return our Cluster, asked for once more where it is not known to be there."""
        known = self._has.clusters.ours(name)
        if known is not None or self._has.clusters.other_agent(name) is not None:
            return known
        try:
            found = await self._hub.get(f"{CLUSTERS_PATH}/{name}")
        except (NotFoundError, ForbiddenError):
            return None
        return found if dig(found, "spec", "id") == self._has.clusters.id_of(name) else None

    async def _end_cluster(self, cluster: Object, *, keeps: bool) -> str:
        name = cluster["metadata"]["name"]
        works = self._has.works.of(name)
        unmarked = [work for work in works if _is_to_be_marked(work)] if keeps else []
        for work in unmarked:
            await self._preserve(work)
        if unmarked and not cluster["metadata"].get("deletionTimestamp"):
            # Who finalises them goes by what was watched: that is to show the mark first.
            return f"waits for {len(unmarked)} Works to be marked as preserved"
        if not cluster["metadata"].get("deletionTimestamp"):
            _log.info("Deleting the Cluster on the hub", extra={"virtual_cluster": name})
            try:
                await self._hub.delete_same(f"{CLUSTERS_PATH}/{name}", cluster)
            except ForbiddenError as error:
                return (
                    f"the agent may not delete Cluster {name} on the hub: run karmada-vc-agent "
                    f"join again, or delete it there ({error})"
                )
            except (NotFoundError, ConflictError):
                pass  # the next step sees what became of it
        if works:
            return f"waits for {len(works)} Works of Cluster {name} to be finalised"
        return f"waits for the hub to remove Cluster {name}"

    async def _preserve(self, work: Object) -> None:
        path = work_path(work["metadata"]["namespace"], work["metadata"]["name"])
        try:
            await self._hub.merge_patch(path, {"spec": {"preserveResourcesOnDeletion": True}})
        except NotFoundError:
            return


def _is_to_be_marked(work: Object) -> bool:
    return not is_preserved(work) and not work["metadata"].get("deletionTimestamp")
