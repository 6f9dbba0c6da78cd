"""Reflectors started on demand, one for each requested resource.

They can be stopped when idle: tenants create kinds without end.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from karmada_vc_agent.kube.absence import is_absent
from karmada_vc_agent.kube.aggregated import is_aggregated
from karmada_vc_agent.kube.built_in_groups import is_built_in
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.namespaced_watches import NamespacedWatches, WatchScope
from karmada_vc_agent.kube.permissions import FORBIDDEN_S
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store, is_echo
from karmada_vc_agent.kube.supervisor import ALONE, Supervisor
from karmada_vc_agent.model.objects import Object

Indexes = Mapping[str, Callable[[Object], Iterable[str]]]

IDLE_S = 600.0
"""Longer than a store is used after it was requested, and than Works back off, so that an

occasional user needs no new list.
"""
_LOOKS = 10
_WATCHABLE = frozenset(("list", "watch"))


class InformerSet:
    """Stores of host objects that match `query`, over all namespaces, by resource.

    on_change: called for every change in any of them, except of what its own writer has
    observed already: that is as it was left.
    indexes: those of each store. supervisor: keeps their reflectors running. scope: where a
    resource may be watched; None = everywhere. idle_s: after how long a resource is not watched
    any more that no caller requested and that has no objects; 0 = never, for callers that wait for
    objects that do not exist yet. Those of Kubernetes itself are few: they stay. are_ours: whether
    `query` selects what we made alone, so that where none of it is, nothing is to be watched.
    codec: decides what is kept of them.
    """

    def __init__(
        self,
        client: ApiClient,
        query: Mapping[str, str],
        on_change: Callable[[Object | None, Object | None], None],
        indexes: Indexes | None = None,
        supervisor: Supervisor = ALONE,
        scope: WatchScope | None = None,
        idle_s: float = 0.0,
        *,
        are_ours: bool = False,
        codec: RawCodec | None = None,
    ) -> None:
        self._client = client
        self._codec = codec or RawCodec()
        self.query = query
        self._on_change = on_change
        self._indexes = indexes
        self._supervisor = supervisor
        self._stores: dict[str, Store[Object]] = {}
        self._scope = scope
        self._idle_s = idle_s
        self._are_ours = are_ours
        self._resources: dict[str, Resource] = {}
        self._requested_at: dict[str, float] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._has_requests = asyncio.Event()

    def store(self, resource: Resource) -> Store[Object] | None:
        """Return the store of a resource, not synced at first; None if it cannot be watched."""
        if not resource.verbs >= _WATCHABLE:
            return None
        path = resource.path()
        self._requested_at[path] = asyncio.get_running_loop().time()
        if path not in self._stores:
            store = Store(self._codec, self._indexes)
            store.add_handler(self._changed)
            self._stores[path] = store
            self._resources[path] = resource
            self._has_requests.set()
        return self._stores[path]

    def stores(self) -> dict[str, Store[Object]]:
        """Return the stores of all running reflectors, by path of their collection."""
        return dict(self._stores)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if not is_echo(old, new):
            self._on_change(old, new)

    async def run(self) -> None:
        """Run the reflectors of requested resources until cancelled."""
        self._running.clear()
        async with asyncio.TaskGroup() as group:
            if self._idle_s:
                group.create_task(self._end_idle(), name="end of idle informers")
            while True:
                self._has_requests.clear()
                for path, resource in self._resources.items():
                    if path not in self._running:
                        follow = partial(self._follow, resource, self._stores[path])
                        name = f"reflector {path}"
                        task = self._supervisor.start(group, "reflector", follow, name)
                        self._running[path] = task
                await self._has_requests.wait()

    async def _end_idle(self) -> None:
        while True:
            await asyncio.sleep(self._idle_s / _LOOKS)
            for path in [path for path in self._running if self._is_idle(path)]:
                # A caller that requests it from here on gets a new store, and a new reflector.
                self._running.pop(path).cancel()
                del self._stores[path], self._resources[path], self._requested_at[path]

    def _is_idle(self, path: str) -> bool:
        """Return whether a resource is unused, and listed without objects."""
        store = self._stores[path]
        if is_built_in(self._resources[path].gvk.group):
            return False
        if len(store) or store.unreadable or not store.is_synced:
            return False
        return asyncio.get_running_loop().time() - self._requested_at[path] >= self._idle_s

    async def _follow(self, resource: Resource, store: Store[Object]) -> None:
        if self._scope is None or await self._scope.is_whole(resource):
            foreign = partial(is_aggregated, self._client, resource)
            path = resource.path()
            absent = partial(is_absent, self._client, path)
            await Reflector(
                self._client, path, self._codec, store, self.query, foreign, FORBIDDEN_S, absent
            ).run()
        else:
            await NamespacedWatches(
                self._client,
                resource,
                store,
                self.query,
                self._scope,
                self._supervisor,
                are_ours=self._are_ours,
            ).run()
