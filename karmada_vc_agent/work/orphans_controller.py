"""Counts host objects without a Work; removes none of them.

They are for a person to judge: `karmada-vc-agent leave --prune` lists and removes them. What a
start from an old checkpoint made, or a restored host brings back, is among them. Only an
empty role that the agent made for a moment, and could not remove then, is deleted (bound_roles.py).
"""

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta

from karmada_vc_agent.cluster.claims import Claims
from karmada_vc_agent.cluster.labelled_objects import labelled_objects
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Requeue
from karmada_vc_agent.kube.discovery import Discovery, Resource
from karmada_vc_agent.model.domain import CLUSTER_LABEL, STAND_IN_ANNOTATION
from karmada_vc_agent.model.objects import Object, annotations_of, labels_of, namespaced_name
from karmada_vc_agent.work.bound_roles import BOUND, remove_stand_in
from karmada_vc_agent.work.rules.orphaned import work_of
from karmada_vc_agent.work.works import Works

ALL = "all virtual clusters"
"""The only key."""
EVERY = Requeue(600.0)
"""One look costs a list of metadata for each kind of the host, so it is taken seldom."""
WHILE_ANY = Requeue(120.0)
"""They may be being removed: the condition is not to outlast that for long."""
SETTLES_S = 5.0
"""Works disappear together, as with the first list after a start from the checkpoint."""
INITIAL_DELAY_S = 30.0
"""The first one waits until what a restart has to apply is applied."""
STAND_IN_LASTS = timedelta(seconds=60.0)
"""A younger one may be in use; clocks that differ by more cost a binding another try."""


class OrphansController:
    """Looks at all virtual clusters together.

    on_count: called with each virtual cluster and the names of its objects that are orphaned.
    """

    def __init__(
        self,
        host: ApiClient,
        discovery: Discovery,
        claims: Claims,
        works: Works,
        clusters: Collection[str],
        on_count: Callable[[str, list[str]], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._host = host
        self._discovery = discovery
        self._claims = claims
        self._works = works
        self._clusters = clusters
        self._on_count = on_count
        self._now = now

    async def reconcile(self, _: str) -> Requeue:
        """Count once; a virtual cluster whose Works are not all listed yet is left out."""
        pairs = ((name, self._works.store(name)) for name in self._clusters)
        stores = {name: store for name, store in pairs if store is not None}
        orphans: dict[str, list[str]] = {
            name: [] for name, store in stores.items() if store.is_synced
        }
        served = await self._discovery.refresh(EVERY.after_s)
        homes = [name for cluster in orphans for name in self._claims.of(cluster).values()]
        async for resource, live in labelled_objects(self._host, served, CLUSTER_LABEL, homes):
            cluster = labels_of(live)[CLUSTER_LABEL]
            if cluster not in orphans or await self._has_removed(resource, live):
                continue
            if self._is_orphan(cluster, live):
                metadata = live["metadata"]
                name = namespaced_name(metadata.get("namespace") or "", metadata["name"])
                orphans[cluster].append(f"{resource.gvk.kind} {name}")
        for cluster, names in orphans.items():
            if cluster not in self._clusters or self._works.store(cluster) is not stores[cluster]:
                continue  # it left meanwhile, or its Works are listed again
            self._on_count(cluster, names)
        is_open = any(orphans.values()) or len(orphans) < len(stores)
        return WHILE_ANY if is_open else EVERY

    async def _has_removed(self, resource: Resource, live: Object) -> bool:
        """Remove a stand-in that is not in use any more; return whether it was one."""
        if resource.gvk.group_kind not in BOUND or STAND_IN_ANNOTATION not in annotations_of(live):
            return False
        metadata = live["metadata"]
        if datetime.fromisoformat(metadata["creationTimestamp"]) <= self._now() - STAND_IN_LASTS:
            path = resource.path(metadata.get("namespace") or "", metadata["name"])
            await remove_stand_in(self._host, path, live)
        return True

    def _is_orphan(self, cluster: str, live: Object) -> bool:
        work = work_of(live)
        if not work or self._works.get(cluster, work) is not None:
            return False
        unread = self._works.unreadable(cluster)
        if work in unread or "" in unread:
            return False  # it exists, though it cannot be read
        metadata = live["metadata"]
        # A namespaced object is ours where its namespace is; a Namespace where it has our claim.
        namespace = metadata.get("namespace") or metadata["name"]
        return not metadata.get("namespace") or namespace in self._claims.of(cluster).values()


def keys_of_work(_cluster: str, old: Object | None, new: Object | None) -> Iterable[str]:
    """Return the key where a Work disappears whose deletion was not seen: it leaves its objects."""
    was_deleted = old is None or old["metadata"].get("deletionTimestamp")
    return () if new is not None or was_deleted else (ALL,)
