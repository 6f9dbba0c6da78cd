"""What a virtual cluster left on the host that others wait for: its votes on shared objects.

A departed virtual cluster is one that this agent registered once and whose Cluster is not on the
hub any more, while it is not in the settings or stays away by its record. Whose Cluster went while
an agent looked has taken its votes along; these here went while none did. Its objects stay as they
are, also one that nobody else votes for: deleting is for `karmada-vc-agent leave`.
"""

import logging
from collections.abc import Callable

from karmada_vc_agent.apply.shared_objects import SharedObjects
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import NotReadyError
from karmada_vc_agent.kube.discovery import Discovery
from karmada_vc_agent.kube.errors import NotFoundError
from karmada_vc_agent.lifecycle.agent_state import AgentState
from karmada_vc_agent.model.domain import SHARED_LABEL
from karmada_vc_agent.planning.share_plan import owners_of
from karmada_vc_agent.views.hub_clusters import CLUSTERS_PATH, HubClusters
from karmada_vc_agent.views.labelled_objects import labelled_objects

_log = logging.getLogger(__name__)

FRESH_S = 60.0


class DeparturesController:
    """Withdraws the votes of departed virtual clusters, then forgets those not in the settings.

    is_served: whether a virtual cluster is in the settings and does not stay away.
    is_wanted: whether it is in the settings at all.
    """

    def __init__(
        self,
        hub: ApiClient,
        host: ApiClient,
        discovery: Discovery,
        clusters: HubClusters,
        state: AgentState,
        shared_objects: SharedObjects,
        is_served: Callable[[str], bool],
        is_wanted: Callable[[str], bool],
    ) -> None:
        self._hub = hub
        self._host = host
        self._discovery = discovery
        self._clusters = clusters
        self._state = state
        self._shared_objects = shared_objects
        self._is_served = is_served
        self._is_wanted = is_wanted

    async def reconcile(self, name: str) -> None:
        """Withdraw the votes of one virtual cluster, if it is departed."""
        if self._state.cluster(name) is None or self._is_served(name):
            return
        if await self._is_on_hub(name):
            return  # merely not served now
        served = await self._discovery.refresh(FRESH_S)
        async for resource, found in labelled_objects(self._host, served, SHARED_LABEL):
            if name not in owners_of(found):
                continue
            shared = found["metadata"]["name"]
            _log.info(
                "Withdrawing the vote of a virtual cluster that departed",
                extra={"virtual_cluster": name, "kind": resource.gvk.kind, "name": shared},
            )
            await self._shared_objects.leave(resource, shared, name, "", preserve=True)
        if not self._is_wanted(name):
            await self._state.forget(name)

    async def _is_on_hub(self, name: str) -> bool:
        """Whether a Cluster of this name exists, whoever has it; asked once more where not.

        Raises NotReadyError while hub or host may be of another time.
        """
        if self._clusters.store.get("", name) is not None:
            return True
        for client in (self._hub, self._host):
            if client.history.is_in_doubt:
                raise NotReadyError(f"{client.name} went back in time and is looked at again")
        try:
            await self._hub.get(f"{CLUSTERS_PATH}/{name}")
        except NotFoundError:
            return False
        return True
