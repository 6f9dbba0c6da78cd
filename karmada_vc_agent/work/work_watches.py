"""Which Works are watched, and which a change concerns.

There is a watch for each registered virtual cluster, or one for all. Of Works of those that are not
served the one watch keeps next to nothing, so one that is added later has a watch of its own.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.cluster.virtual_clusters import (
    Membership,
    Scopes,
    VirtualClusters,
    name_of_change,
)
from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.kube.flows import measured
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.tasks import ALONE, Supervisor
from karmada_vc_agent.model.karmada import cluster_of_execution_namespace, execution_namespace
from karmada_vc_agent.model.objects import Object, dig
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.work.memory_bounds import NOT_MEASURED, WorkBounds, WorkCodec
from karmada_vc_agent.work.works import Works, key_of_work, namespaces_used, trim, work_path

ALL_WORKS_PATH = "/apis/work.karmada.io/v1alpha1/works"

OnChange = Callable[[str, Object | None, Object | None], None]
"""(virtual cluster, old Work, new Work)"""


class WorkWatches:
    """Starts and stops reflectors of Works; `works` reads what they list.

    clusters: those that are served, which may change. cluster_wide: one watch over all execution
    namespaces; needs the right to read them all.
    """

    def __init__(
        self,
        hub: ApiClient,
        clusters: Collection[str],
        on_change: OnChange,
        bounds: WorkBounds,
        *,
        cluster_wide: bool,
        supervisor: Supervisor = ALONE,
    ) -> None:
        self._bounds = bounds
        self._hub = hub
        self._clusters = clusters
        self._covered: set[str] = set()
        self._on_change = on_change
        self._cluster_wide = cluster_wide
        self._supervisor = supervisor
        self._stores: dict[str, Store[Object]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._reflectors: dict[str, Reflector[Object]] = {}
        self._requested = asyncio.Event()
        self.works = Works(self._stores)

    def start(self, cluster: str) -> None:
        """Watch the Works of a virtual cluster from now on; their store is there at once."""
        if not self._is_covered(cluster) and cluster not in self._stores:
            self._stores[cluster] = self._new_store(lambda: (cluster,))
        self._requested.set()

    def stop(self, cluster: str) -> None:
        """Watch them no longer; what is cached of them is dropped."""
        if self._is_covered(cluster):
            return  # its Works are read on: no other watch does
        task = self._running.pop(cluster, None)
        self._reflectors.pop(cluster, None)
        if task is not None:
            task.cancel()
        if self._stores.pop(cluster, None) is not None:
            self._bounds.forget_cluster(cluster)
            self._keep_little(cluster)

    def leave(self, cluster: str) -> None:
        """Have the one watch for all not count for a virtual cluster any more."""
        self._covered.discard(cluster)

    def restart(self, cluster: str) -> None:
        """List the Works of a virtual cluster again, from nothing."""
        self.leave(cluster)
        self.stop(cluster)
        self.start(cluster)

    def failing_s(self, cluster: str) -> float:
        """Return for how long the Works of a virtual cluster are not followed, 0 if they are."""
        reflector = self._reflectors.get("" if cluster in self._covered else cluster)
        return reflector.failing_s if reflector is not None else 0.0

    async def run(self) -> None:
        """Watch what was started until cancelled; go on with what an earlier run began."""
        self._running.clear()
        async with asyncio.TaskGroup() as group:
            while True:
                self._requested.clear()
                for cluster, store in self._stores.items():
                    is_own = cluster == "" or store is not self._stores.get("")
                    if is_own and cluster not in self._running:
                        self._watch(group, cluster, store)
                await self._requested.wait()

    def _keep_little(self, cluster: str) -> None:
        """Keep of Works that the one watch for all has, and are no longer read, their identity."""
        for work in self._stores.get("") or ():
            if key_of_work(work)[0] == cluster:
                trim(work, NOT_MEASURED)

    def _is_covered(self, cluster: str) -> bool:
        """Return whether the one watch for all covers a virtual cluster, and set its store."""
        if self._cluster_wide and "" not in self._stores:
            self._covered = set(self._clusters)
            self._stores[""] = self._new_store(lambda: self._covered)
            self._requested.set()
        if cluster in self._covered:
            self._stores.setdefault(cluster, self._stores[""])
        return cluster in self._covered

    def _watch(self, group: asyncio.TaskGroup, cluster: str, store: Store[Object]) -> None:
        path = work_path(execution_namespace(cluster)) if cluster else ALL_WORKS_PATH
        reflector = self._reflectors[cluster] = Reflector(self._hub, path, store.codec, store)
        name = f"reflector {path}"

        async def run() -> None:
            with flows.of(cluster):
                await measured(reflector.run())

        self._running[cluster] = self._supervisor.start(group, "reflector", run, name)

    def _new_store(self, read: Callable[[], Collection[str]]) -> Store[Object]:
        """Return a store; read: the virtual clusters whose Works are read from it."""
        codec = WorkCodec(self._bounds, read)
        store: Store[Object] = Store(codec, {Works.NAMESPACE_INDEX: namespaces_used})
        store.add_handler(partial(self._changed, read))
        store.on_replaced = lambda _: self._bounds.listed(store, read())
        return store

    def _changed(
        self, read: Callable[[], Collection[str]], old: Object | None, new: Object | None
    ) -> None:
        work = new or old
        if work is None:
            return
        cluster = cluster_of_execution_namespace(work["metadata"].get("namespace") or "")
        if cluster is None or cluster not in read():
            return
        if new is not None:
            self._bounds.observe(new)  # again, where it was observed and not decoded
        else:
            self._bounds.remove(work)
        if cluster in self._clusters:
            self._on_change(cluster, old, new)


@dataclass(eq=False)
class RegisteredClusters:
    """Watches the Works of registered virtual clusters, and reports what else depends on it.

    became: one whose Ready on the hub changed. disputed: a node whose owner may be another one now.
    """

    virtual_clusters: VirtualClusters
    clusters: HubClusters
    membership: Membership
    watches: WorkWatches
    scopes: Scopes

    def __post_init__(self) -> None:
        self._ready: dict[str, str | None] = self.scopes.keep()
        self.became: Signal[[str]] = Signal()
        self.disputed: Signal[[str]] = Signal()
        self.clusters.store.add_handler(self._changed)
        self.virtual_clusters.changed.subscribe(self._settings_changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        cluster = new or old
        name = cluster["metadata"]["name"] if cluster else ""
        if name not in self.virtual_clusters:
            return
        if self.clusters.ours(name) is None:
            self._end(name)
            return
        self.watches.start(name)
        if old is None:
            self._reconsider()
        # Not compared with `old`: after our own write that is what we wrote (Store.observe).
        if self._ready.get(name) != _ready_status(new):
            self._ready[name] = _ready_status(new)
            self.became.emit(name)

    def _settings_changed(self, old: VirtualCluster | None, new: VirtualCluster | None) -> None:
        name = name_of_change(old, new)
        if new is None:
            self.watches.leave(name)
            self._end(name)
        elif old is None:
            self._changed(None, self.clusters.store.get("", name))
        elif old.bounds != new.bounds and self.clusters.ours(name) is not None:
            self.watches.restart(name)  # of what was out, not all is cached

    def _end(self, name: str) -> None:
        self.watches.stop(name)
        self.scopes.end(name)
        self._reconsider()

    def _reconsider(self) -> None:
        for node in self.membership.reconsider():
            self.disputed.emit(node)


def _ready_status(cluster: Object | None) -> str | None:
    for condition in dig(cluster, "status", "conditions") or ():
        if condition["type"] == "Ready":
            return str(condition["status"])
    return None
