"""Watches of one resource in single namespaces, where it may not be watched everywhere.

A Secret of the host is no business of the agent: it may read those of claimed namespaces only, and
kinds that came after `join` likewise. One watch for each namespace, all into one store.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from karmada_vc_agent.kube.access_review import may
from karmada_vc_agent.kube.aggregated import is_aggregated
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.discovery import Resource
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.permissions import Need
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.supervisor import ALONE, Supervisor
from karmada_vc_agent.kube.versions import is_at_most
from karmada_vc_agent.model.objects import Object

ASK_AGAIN_S = 1.0


class WatchScope:
    """Says where resources may be watched; the namespaces may change at any time.

    namespaces: returns those that may be watched at least.
    """

    def __init__(self, client: ApiClient, namespaces: Callable[[], Iterable[str]]) -> None:
        self._client = client
        self._namespaces = namespaces
        self._followers: list[asyncio.Event] = []

    async def is_whole(self, resource: Resource) -> bool:
        """Whether a resource may be watched in all namespaces; waits for an answer."""
        if not resource.namespaced:
            return True
        while True:
            try:
                need = Need("watch", resource.gvk.group, resource.plural)
                return await may(self._client, need)
            except KubeError:
                await asyncio.sleep(ASK_AGAIN_S)

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces to watch now."""
        return frozenset(self._namespaces())

    def changed(self) -> None:
        """Have all who follow look whether other namespaces are to be watched now."""
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

    @property
    def follower_count(self) -> int:
        """How many follow now."""
        return len(self._followers)


class NamespacedWatches:
    """Keeps `store` equal to what the namespaces of a scope have of one resource."""

    def __init__(
        self,
        client: ApiClient,
        resource: Resource,
        store: Store[Object],
        query: Mapping[str, str],
        scope: WatchScope,
        supervisor: Supervisor = ALONE,
    ) -> None:
        self._client = client
        self._resource = resource
        self._store = store
        self._query = query
        self._scope = scope
        self._supervisor = supervisor
        self._running: dict[str, tuple[asyncio.Task[None], Store[Object]]] = {}

    async def run(self) -> None:
        """Watch until cancelled."""
        with self._scope.follower() as changed:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._set_right(group)
                    await changed.wait()
                    changed.clear()

    def _set_right(self, group: asyncio.TaskGroup) -> None:
        """Begin and end watches."""
        wanted = self._scope.namespaces()
        for namespace in self._running.keys() - wanted:
            task, part = self._running.pop(namespace)
            task.cancel()
            for obj in part:
                self._store.remove(obj)
        for name in sorted(wanted - self._running.keys()):
            self._begin(group, name)
        self._tell_synced()

    def _tell_synced(self) -> None:
        """Say whether all is known; one namespace that may not be read hides what is there."""
        self._store.is_synced = all(part.is_synced for _, part in self._running.values())

    def _begin(self, group: asyncio.TaskGroup, namespace: str) -> None:
        part: Store[Object] = Store(RawCodec())
        part.add_handler(self._take_over)
        part.on_replaced = partial(self._replaced, namespace, part)
        path = self._resource.path(namespace)
        foreign = partial(is_aggregated, self._client, self._resource)
        reflector = Reflector(self._client, path, RawCodec(), part, self._query, foreign)
        name = f"reflector {path}"
        task = self._supervisor.start(group, "reflector", reflector.run, name)
        self._running[namespace] = (task, part)

    def _replaced(self, namespace: str, part: Store[Object], is_back: bool) -> None:  # noqa: FBT001 - as Store calls it
        """Believe a list also of a server whose time went back."""
        if namespace not in self._running or self._running[namespace][1] is not part:
            return
        if is_back:
            for obj in self._store:
                metadata = obj["metadata"]
                is_here = metadata.get("namespace") == namespace
                if is_here and part.get(namespace, metadata["name"]) is None:
                    self._store.remove(obj)
            for obj in part:
                self._store.put_back(obj)
        for obj in self._store.untold():
            metadata = obj["metadata"]
            is_here = metadata.get("namespace") == namespace
            if is_here and part.get(namespace, metadata["name"]) is None:
                self._forget_if_older(obj, part.listed_version)
        self._tell_synced()

    def _forget_if_older(self, obj: Object, version: str) -> None:
        """Forget what was written before a list that does not have it: no watch tells of it."""
        if is_at_most(obj["metadata"].get("resourceVersion") or "", version):
            self._store.remove(obj)

    def _take_over(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._store.apply(new)
        elif old is not None:
            self._store.remove(old)
