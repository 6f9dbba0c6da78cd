"""Counts host objects that no Work stands behind any more; removes none of them.

They are for a person to judge: `karmada-vc-agent leave --prune` lists and removes them.
"""

import logging
from collections.abc import Callable, Iterable

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Requeue
from karmada_vc_agent.kube.discovery import Discovery
from karmada_vc_agent.model.domain import CLUSTER_LABEL
from karmada_vc_agent.model.objects import Object, labels_of, namespaced_name
from karmada_vc_agent.planning.orphaned import work_of
from karmada_vc_agent.views.claims import Claims
from karmada_vc_agent.views.labelled_objects import labelled_objects
from karmada_vc_agent.views.works import Works

_log = logging.getLogger(__name__)

EVERY = Requeue(600.0)
"""One look costs a list of metadata for each kind of the host, so it is taken seldom."""
INITIAL_DELAY_S = 30.0
"""The first one waits until what a restart has to apply is applied."""
NAMED = 3


class OrphansController:
    """Looks at all virtual clusters together.

    on_counted: told of each virtual cluster and how many of its objects are orphaned.
    """

    def __init__(
        self,
        host: ApiClient,
        discovery: Discovery,
        claims: Claims,
        works: Works,
        clusters: Iterable[str],
        on_counted: Callable[[str, int], None],
    ) -> None:
        self._host = host
        self._discovery = discovery
        self._claims = claims
        self._works = works
        self._clusters = tuple(clusters)
        self._on_counted = on_counted
        self._told: dict[str, int] = {}

    async def reconcile(self, _: str) -> Requeue:
        """Count once; a virtual cluster whose Works are not all known yet is left out."""
        found: dict[str, list[str]] = {
            name: [] for name in self._clusters if self._knows_works(name)
        }
        served = await self._discovery.refresh(EVERY.after_s)
        homes = [name for cluster in found for name in self._claims.of(cluster).values()]
        async for resource, live in labelled_objects(self._host, served, CLUSTER_LABEL, homes):
            cluster = labels_of(live)[CLUSTER_LABEL]
            if cluster in found and self._is_orphan(cluster, live):
                metadata = live["metadata"]
                name = namespaced_name(metadata.get("namespace") or "", metadata["name"])
                found[cluster].append(f"{resource.gvk.kind} {name}")
        for cluster, names in found.items():
            self._on_counted(cluster, len(names))
            self._report(cluster, names)
        return EVERY

    def _knows_works(self, cluster: str) -> bool:
        store = self._works.store(cluster)
        return store is not None and store.is_synced

    def _is_orphan(self, cluster: str, live: Object) -> bool:
        work = work_of(live)
        if not work or self._works.get(cluster, work) is not None:
            return False
        unread = self._works.unreadable(cluster)
        if work in unread or "" in unread:
            return False  # it is there, though nobody can read it
        metadata = live["metadata"]
        # A namespaced object is ours where its namespace is; a Namespace where it has our claim.
        namespace = metadata.get("namespace") or metadata["name"]
        return not metadata.get("namespace") or namespace in self._claims.of(cluster).values()

    def _report(self, cluster: str, names: list[str]) -> None:
        """Say it once for as long as the number stays."""
        known, self._told[cluster] = self._told.get(cluster, 0), len(names)
        if not names or known == len(names):
            return
        _log.warning(
            "Finding host objects whose Work is gone; karmada-vc-agent leave --prune lists them",
            extra={
                "virtual_cluster": cluster,
                "count": len(names),
                "first": ", ".join(names[:NAMED]),
            },
        )
