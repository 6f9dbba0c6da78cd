"""Watches the Works of each registered virtual cluster: one watch each, or one for all."""

import asyncio
from collections.abc import Callable, Iterable

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.supervisor import ALONE, Supervisor
from karmada_vc_agent.model.karmada import cluster_of_execution_namespace, execution_namespace
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.views.shapes import WorkShape
from karmada_vc_agent.views.work_bounds import WorkBounds, WorkCodec
from karmada_vc_agent.views.works import Works, namespaces_used, work_path

ALL_WORKS_PATH = "/apis/work.karmada.io/v1alpha1/works"

OnChange = Callable[[str, Object | None, Object | None], None]
"""(virtual cluster, old Work, new Work)"""


class WorkWatches:
    """Starts and stops reflectors of Works; `works` reads what they found.

    cluster_wide: one watch over all execution namespaces; needs the right to read them all.
    supervisor: keeps their reflectors running. bounds: told of every Work.
    """

    def __init__(
        self,
        hub: ApiClient,
        clusters: Iterable[str],
        on_change: OnChange,
        *,
        cluster_wide: bool,
        supervisor: Supervisor = ALONE,
        bounds: WorkBounds | None = None,
    ) -> None:
        self._bounds = bounds
        self._codec = WorkCodec(bounds) if bounds is not None else RawCodec(WorkShape)
        self._hub = hub
        self._clusters = frozenset(clusters)
        self._on_change = on_change
        self._cluster_wide = cluster_wide
        self._supervisor = supervisor
        self._stores: dict[str, Store[Object]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._commands: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()
        self.works = Works(self._stores)

    def start(self, cluster: str) -> None:
        """Watch the Works of a virtual cluster from now on."""
        self._commands.put_nowait((cluster, True))

    def stop(self, cluster: str) -> None:
        """Watch them no longer; what is known of them is forgotten."""
        self._commands.put_nowait((cluster, False))

    async def run(self) -> None:
        """Carry out starts and stops until cancelled; go on with what an earlier run began."""
        self._running.clear()
        async with asyncio.TaskGroup() as group:
            for cluster, store in list(self._stores.items()):
                if not self._cluster_wide or cluster == "":
                    self._watch(group, cluster, store)
            while True:
                cluster, wanted = await self._commands.get()
                if self._cluster_wide:
                    self._start_wide(group)
                    if wanted:
                        self._stores.setdefault(cluster, self._stores[""])
                elif wanted and cluster not in self._running:
                    self._start_one(group, cluster)
                elif not wanted and cluster in self._running:
                    self._running.pop(cluster).cancel()
                    del self._stores[cluster]
                    if self._bounds is not None:
                        self._bounds.forget_cluster(cluster)

    def _start_one(self, group: asyncio.TaskGroup, cluster: str) -> None:
        store = self._new_store(cluster)
        self._stores[cluster] = store
        self._watch(group, cluster, store)

    def _start_wide(self, group: asyncio.TaskGroup) -> None:
        if "" not in self._running:
            self._stores[""] = self._new_store("")
            self._watch(group, "", self._stores[""])

    def _watch(self, group: asyncio.TaskGroup, cluster: str, store: Store[Object]) -> None:
        path = work_path(execution_namespace(cluster)) if cluster else ALL_WORKS_PATH
        reflector = Reflector(self._hub, path, self._codec, store)
        name = f"reflector {path}"
        self._running[cluster] = self._supervisor.start(group, "reflector", reflector.run, name)

    def _new_store(self, cluster: str) -> Store[Object]:
        store: Store[Object] = Store(self._codec, {Works.NAMESPACE_INDEX: namespaces_used})
        store.add_handler(self._changed)
        if self._bounds is not None:
            bounds = self._bounds
            store.on_replaced = lambda _: bounds.listed(store, cluster)
        return store

    def _changed(self, old: Object | None, new: Object | None) -> None:
        work = new or old
        if work is None:
            return
        if self._bounds is not None and new is not None:
            self._bounds.note(new)  # again, where it was observed and not decoded
        elif self._bounds is not None:
            self._bounds.gone(work)
        cluster = cluster_of_execution_namespace(work["metadata"].get("namespace") or "")
        if cluster in self._clusters:
            self._on_change(cluster, old, new)
