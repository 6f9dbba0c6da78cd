"""Watches of one resource in single namespaces, where it may not be watched everywhere.

As of Secrets, and of kinds that were added after the rights were granted. One watch for each
namespace, all into one store. Each takes a connection: where only objects of our own count, a
namespace that has none is not watched.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from karmada_vc_agent.kube.absence import is_absent
from karmada_vc_agent.kube.access_review import may
from karmada_vc_agent.kube.aggregated import is_aggregated
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.permissions import FORBIDDEN_S, Need
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.retries import retry_every
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.supervisor import ALONE, Supervisor
from karmada_vc_agent.model.objects import Object

RETRY_S = 1.0


class WatchScope:
    """Where resources may be watched; the namespaces may change at any time.

    namespaces: returns those that may be watched.
    """

    def __init__(self, client: ApiClient, namespaces: Callable[[], Iterable[str]]) -> None:
        self._client = client
        self._namespaces = namespaces
        self._followers: list[asyncio.Event] = []

    async def is_whole(self, resource: Resource) -> bool:
        """Return whether a resource may be watched in all namespaces, by a review."""
        if not resource.namespaced:
            return True
        need = Need("watch", resource.gvk.group, resource.plural)
        return await retry_every(RETRY_S, lambda: may(self._client, need))

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces to watch now."""
        return frozenset(self._namespaces())

    def changed(self) -> None:
        """Notify all followers that the namespaces may have changed."""
        for follower in self._followers:
            follower.set()

    @contextmanager
    def follower(self) -> Iterator[asyncio.Event]:
        """Yield an event that is set when something may have changed."""
        event = asyncio.Event()
        self._followers.append(event)
        try:
            yield event
        finally:
            self._followers.remove(event)


class _Part(NamedTuple):
    """The state of one namespace, and the reflector that maintains it."""

    task: asyncio.Task[None]
    store: Store[Object]
    reflector: Reflector[Object]


class NamespacedWatches:
    """Keeps `store` equal to what the namespaces of a scope have of one resource.

    are_ours: whether all objects are our own, which the store has by the answers to our writes
    before any watch reports them.
    """

    def __init__(
        self,
        client: ApiClient,
        resource: Resource,
        store: Store[Object],
        query: Mapping[str, str],
        scope: WatchScope,
        supervisor: Supervisor = ALONE,
        *,
        are_ours: bool = False,
    ) -> None:
        self._client = client
        self._resource = resource
        self._store = store
        self._query = query
        self._scope = scope
        self._supervisor = supervisor
        self._are_ours = are_ours
        self._running: dict[str, _Part] = {}

    async def run(self) -> None:
        """Watch until cancelled."""
        self._store.on_observed = self._observed
        with self._scope.follower() as changed:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._update_watches(group)
                    await changed.wait()
                    changed.clear()

    def _update_watches(self, group: asyncio.TaskGroup) -> None:
        """Start and stop watches."""
        required = self._scope.namespaces()
        for namespace in self._running.keys() - required:
            self._running.pop(namespace).task.cancel()
            # Not by its part: it lacks what only the answer to a write reported.
            for obj in _in_namespace(self._store, namespace):
                self._store.remove(obj)
        for name in sorted(required - self._running.keys()):
            self._begin(group, name)
        self._update_synced()

    def _update_synced(self) -> None:
        """Update whether the store is synced; a forbidden namespace prevents it."""
        self._store.is_synced = all(part.store.is_synced for part in self._running.values())

    def _observed(self, obj: Object) -> None:
        """Watch the namespace of an object that was just written."""
        part = self._running.get(obj["metadata"].get("namespace") or "")
        if part is not None:
            part.reflector.check()

    def _begin(self, group: asyncio.TaskGroup, namespace: str) -> None:
        part: Store[Object] = Store(self._store.codec)
        part.add_handler(self._take_over)
        part.on_replaced = partial(self._replaced, namespace, part)
        path = self._resource.path(namespace)
        foreign = partial(is_aggregated, self._client, self._resource)
        reflector = Reflector(
            self._client,
            path,
            part.codec,
            part,
            self._query,
            foreign,
            FORBIDDEN_S,
            partial(is_absent, self._client, path),
            rests=self._are_ours,
        )
        name = f"reflector {path}"
        task = self._supervisor.start(group, "reflector", reflector.run, name)
        self._running[namespace] = _Part(task, part, reflector)

    def _replaced(self, namespace: str, part: Store[Object], is_back: bool) -> None:  # noqa: FBT001 - as Store calls it
        """Accept a list even if the server was restored to an earlier state."""
        if namespace not in self._running or self._running[namespace].store is not part:
            return
        if is_back:
            for obj in _in_namespace(self._store, namespace):
                if part.get(namespace, obj["metadata"]["name"]) is None:
                    self._store.remove(obj)
            for obj in part:
                self._store.put_back(obj)
        for obj in _in_namespace(self._store.unreported(), namespace):
            if part.get(namespace, obj["metadata"]["name"]) is None:
                self._store.remove_unlisted(obj, part.listed_version)
        self._update_synced()

    def _take_over(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._store.apply(new)
        elif old is not None:
            self._store.remove(old)


def _in_namespace(objects: Iterable[Object], namespace: str) -> list[Object]:
    return [obj for obj in objects if obj["metadata"].get("namespace") == namespace]
