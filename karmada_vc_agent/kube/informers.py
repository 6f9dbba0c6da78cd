"""Reflectors in parts: of resources on demand, by namespace, and by name.

Informers can be stopped when idle: tenants create kinds without end.

NamedReflector is for a resource of which only a few objects are of interest, and whose others
change often: nothing of these is sent. Each name has a Reflector of its own, so one that fails
costs no other; all feed one Store. The names may change at any time; one that is no longer required
is followed until its object is deleted, so that a deletion is a deletion.

Reflectors by namespace are for resources that may not be watched everywhere, as Secrets and kinds
that were added after the rights were granted. One watch for each namespace, all into one store.
Each takes a connection: where only objects of our own count, a namespace that has none is not
watched.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from karmada_vc_agent.kube.access_reviews import is_allowed
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import Codec, RawCodec
from karmada_vc_agent.kube.discovery import Resource, is_absent, is_aggregated, is_built_in
from karmada_vc_agent.kube.errors import FORBIDDEN_S, Need
from karmada_vc_agent.kube.history import is_lower
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store, is_echo
from karmada_vc_agent.kube.tasks import ALONE, Supervisor, retry_every
from karmada_vc_agent.model.kinds import NAME_FIELD
from karmada_vc_agent.model.objects import Object

T = TypeVar("T")


class NamedReflector(Generic[T]):
    """Keeps `store` equal to what the server has under `path` by these names.

    names: returns them. For resources without namespaces. The store is synced once all names that
    are required at the start are; for others see `has_listed`.
    """

    def __init__(
        self,
        client: ApiClient,
        path: str,
        codec: Codec[T],
        store: Store[T],
        names: Callable[[], Iterable[str]],
    ) -> None:
        self.path = path
        self.store = store
        self._client = client
        self._codec = codec
        self._names = names
        self._parts: dict[str, Store[T]] = {}
        self._reflectors: dict[str, Reflector[T]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._synced = asyncio.Event()
        self._has_changed = asyncio.Event()

    def names_changed(self) -> None:
        """Follow the names that are required now."""
        self._has_changed.set()

    def has_listed(self, name: str) -> bool:
        """Return whether the store has the object of a name if there is one."""
        part = self._parts.get(name)
        return self.is_synced and part is not None and part.is_synced

    @property
    def is_synced(self) -> bool:
        """Return whether all names that were required at the start are listed."""
        return self._synced.is_set()

    @property
    def failure(self) -> str:
        """Why the last response was no good list or watch of a name, "" if all were."""
        return next((each.failure for each in self._reflectors.values() if each.failure), "")

    @property
    def failing_s(self) -> float:
        """Return for how long there is a failure, in seconds."""
        failing = (each.failing_s for each in self._reflectors.values() if each.failure)
        return next(failing, 0.0)

    async def wait_synced(self) -> None:
        """Wait for the first complete list."""
        await self._synced.wait()

    async def run(self) -> None:
        """List and watch until cancelled."""
        self._parts.clear()
        self._reflectors.clear()
        self._tasks.clear()
        self.store.on_observed = self._observed
        async with asyncio.TaskGroup() as group:
            while True:
                self._has_changed.clear()
                self._follow(group)
                self._update_synced()
                await self._has_changed.wait()

    def _follow(self, group: asyncio.TaskGroup) -> None:
        """Start and stop reflectors as names were added and removed."""
        required = {*self._names(), *(self._name_of(obj) for obj in self.store)}
        for name in self._parts.keys() - required:
            self._tasks.pop(name).cancel()
            del self._parts[name], self._reflectors[name]
        for name in sorted(required - self._parts.keys()):
            part = self._parts[name] = Store(self._codec)
            part.add_handler(partial(self._take_over, name, part))
            part.on_replaced = partial(self._replaced, name, part)
            query = {"fieldSelector": f"{NAME_FIELD}={name}"}
            reflector = Reflector(self._client, self.path, self._codec, part, query, is_short=True)
            self._reflectors[name] = reflector
            self._tasks[name] = group.create_task(
                reflector.run(), name=f"reflector {self.path}/{name}"
            )

    def _observed(self, obj: T) -> None:
        """Follow what was just written under a name that is not followed."""
        if self._name_of(obj) not in self._parts:
            self.names_changed()

    def _update_synced(self) -> None:
        """Take what the parts have for a list once all of them have listed."""
        if self.is_synced or not all(part.is_synced for part in self._parts.values()):
            return
        versions = [part.listed_version for part in self._parts.values()]
        listed = [obj for part in self._parts.values() for obj in part]
        self._synced.set()
        self.store.replace_all(listed, _lowest(versions))

    def _is_followed(self, name: str, part: Store[T]) -> bool:
        return self.is_synced and self._parts.get(name) is part

    def _take_over(self, name: str, part: Store[T], old: T | None, new: T | None) -> None:
        if not self._is_followed(name, part):
            return
        if new is not None:
            self.store.apply(new)
        elif old is not None:
            self.store.remove(old)

    def _replaced(self, name: str, part: Store[T], is_back: bool) -> None:  # noqa: FBT001 - as Store calls it
        """Accept a list of one name, even if the server was restored to an earlier state."""
        if not self._is_followed(name, part):
            self._update_synced()
            return
        cached, listed = self.store.get("", name), part.get("", name)
        if listed is not None and is_back:
            self.store.put_back(listed)
        if listed is None and cached is not None and not part.unreadable:
            if is_back:
                self.store.remove(cached)
            else:
                self.store.remove_unlisted(cached, part.listed_version)

    def _name_of(self, obj: T) -> str:
        return self._codec.key(obj)[1]


def _lowest(versions: Iterable[str]) -> str:
    """Return the version before all others, "" where there is none."""
    lowest = ""
    for version in versions:
        if not lowest or is_lower(version, lowest):
            lowest = version
    return lowest


_log = logging.getLogger(__name__)


AnyReflector = Reflector[Any] | NamedReflector[Any]
"""A reflector of a path, whole or in part."""


async def wait_all_synced(reflectors: Sequence[AnyReflector], timeout_s: float) -> None:
    """Wait for all first lists; each `timeout_s` log which are missing, and continue."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for reflector in reflectors:
                    await reflector.wait_synced()
                return
        missing = ",".join(unlisted_paths(reflectors))
        _log.warning("Waiting for the first lists", extra={"paths": missing})


def not_listed_text(path: str, reason: str) -> str:
    """Return the words for a server that answers, and does not list a collection."""
    return f"no API server lists {path}: {reason}"


def unlisted_paths(reflectors: Iterable[AnyReflector]) -> list[str]:
    """Return the paths whose first list has not come yet."""
    return [reflector.path for reflector in reflectors if not reflector.is_synced]


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
        return await retry_every(RETRY_S, lambda: is_allowed(self._client, need))

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


class _NamespacePart(NamedTuple):
    """The state of one namespace, and the reflector that maintains it."""

    task: asyncio.Task[None]
    store: Store[Object]
    reflector: Reflector[Object]


class _NamespacedReflector:
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
        self._running: dict[str, _NamespacePart] = {}

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
        self._running[namespace] = _NamespacePart(task, part, reflector)

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


Indexes = Mapping[str, Callable[[Object], Iterable[str]]]

IDLE_S = 600.0
"""Longer than a store is used after it was requested, and than Works back off, so that an

occasional user needs no new list.
"""
_CHECKS_PER_IDLE_TIME = 10
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
            await asyncio.sleep(self._idle_s / _CHECKS_PER_IDLE_TIME)
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
            await _NamespacedReflector(
                self._client,
                resource,
                store,
                self.query,
                self._scope,
                self._supervisor,
                are_ours=self._are_ours,
            ).run()
