"""Reflectors started on demand, one for each resource somebody asks about."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from karmada_vc_agent.kube.aggregated import is_aggregated
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.namespaced_watches import NamespacedWatches, WatchScope
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.supervisor import ALONE, Supervisor
from karmada_vc_agent.model.objects import Object

Indexes = Mapping[str, Callable[[Object], Iterable[str]]]

_WATCHABLE = frozenset(("list", "watch"))


class InformerSet:
    """Stores of host objects that match `query`, over all namespaces, by resource.

    on_change: told of every change in any of them, except of what its own writer has
    observed already: that is as it was left, and to look at it again would find nothing.
    indexes: those of each store. supervisor: keeps their reflectors running. scope: where a
    resource may be watched; None = everywhere.
    """

    def __init__(
        self,
        client: ApiClient,
        query: Mapping[str, str],
        on_change: Callable[[Object | None, Object | None], None],
        indexes: Indexes | None = None,
        supervisor: Supervisor = ALONE,
        scope: WatchScope | None = None,
    ) -> None:
        self._client = client
        self._query = query
        self._on_change = on_change
        self._indexes = indexes
        self._supervisor = supervisor
        self._stores: dict[str, Store[Object]] = {}
        self._scope = scope
        self._resources: list[tuple[Resource, Store[Object]]] = []
        self._asked_for = asyncio.Event()

    def store(self, resource: Resource) -> Store[Object] | None:
        """Return the store of a resource, not synced at first; None where it cannot be watched."""
        if not resource.verbs >= _WATCHABLE:
            return None
        path = resource.path()
        if path not in self._stores:
            store = Store(RawCodec(), self._indexes)
            store.add_handler(self._changed)
            self._stores[path] = store
            self._resources.append((resource, store))
            self._asked_for.set()
        return self._stores[path]

    def stores(self) -> list[Store[Object]]:
        """Return the stores of all resources asked for so far."""
        return list(self._stores.values())

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None:
            before, after = old["metadata"], new["metadata"]
            if before.get("resourceVersion") == after.get("resourceVersion"):
                return
        self._on_change(old, new)

    async def run(self) -> None:
        """Follow the resources asked for, until cancelled."""
        running = 0
        async with asyncio.TaskGroup() as group:
            while True:
                self._asked_for.clear()
                for resource, store in self._resources[running:]:
                    follow = partial(self._follow, resource, store)
                    name = f"reflector {resource.path()}"
                    self._supervisor.start(group, "reflector", follow, name)
                running = len(self._resources)
                await self._asked_for.wait()

    async def _follow(self, resource: Resource, store: Store[Object]) -> None:
        if self._scope is None or await self._scope.is_whole(resource):
            foreign = partial(is_aggregated, self._client, resource)
            path = resource.path()
            await Reflector(self._client, path, RawCodec(), store, self._query, foreign).run()
        else:
            await NamespacedWatches(
                self._client, resource, store, self._query, self._scope, self._supervisor
            ).run()
