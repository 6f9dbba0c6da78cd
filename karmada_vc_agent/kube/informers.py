"""Reflectors in parts: of resources on demand, by namespace, and by name.

By name: a resource of which few objects are of interest, and whose others change often. By
namespace: a resource that may not be watched everywhere, as Secrets and kinds that were added after
the rights were granted. A part that fails costs no other; all feed one Store.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.discovery import Resource, is_absent, is_allowed, is_built_in
from karmada_vc_agent.kube.errors import FORBIDDEN_S, KubeError, Need
from karmada_vc_agent.kube.flows import ALONE, Supervisor, retry_on
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store, is_echo, is_lower
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import NAME_FIELD

T = TypeVar("T")


@dataclass(eq=False, repr=False)
class PartedReflector(Generic[T]):
    """Keeps `store` equal to what the server has in several parts, each with its own Reflector.

    parts: returns the names of the parts. reflector_of: returns the reflector of a part into a
    store. part_of: the part of an object. is_atomic: whether the store gets nothing until all parts
    that are required at the start are listed, and is synced from then on; otherwise it is synced
    while all parts are.
    """

    path: str
    store: Store[T]
    parts: Callable[[], Iterable[str]]
    reflector_of: Callable[[str, Store[T]], Reflector[T]]
    part_of: Callable[[T], str]
    supervisor: Supervisor = ALONE
    _: KW_ONLY
    is_atomic: bool = False

    def __post_init__(self) -> None:
        self._parts: dict[str, Reflector[T]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._synced = asyncio.Event()
        self._has_changed = asyncio.Event()

    def parts_changed(self) -> None:
        self._has_changed.set()

    def has_listed(self, name: str) -> bool:
        part = self._parts.get(name)
        return self.is_synced and part is not None and part.is_synced

    @property
    def is_synced(self) -> bool:
        return self._synced.is_set()

    @property
    def failure(self) -> str:
        """Why the last response was no good list or watch of a part, "" if all were."""
        return next((each.failure for each in self._parts.values() if each.failure), "")

    @property
    def failing_s(self) -> float:
        return max((each.failing_s for each in self._parts.values()), default=0.0)

    async def wait_synced(self) -> None:
        await self._synced.wait()

    async def run(self) -> None:
        self._parts.clear()
        self._tasks.clear()
        self.store.on_observed = self._observed
        async with asyncio.TaskGroup() as group:
            while True:
                self._has_changed.clear()
                self._follow(group)
                self._update_synced()
                await self._has_changed.wait()

    def _follow(self, group: asyncio.TaskGroup) -> None:
        required = set(self.parts())
        for name in self._parts.keys() - required:
            self._tasks.pop(name).cancel()
            del self._parts[name]
            # Not by its part: it lacks what only the answer to a write reported.
            for obj in self._in_part(name, self.store):
                self.store.remove(obj)
        for name in sorted(required - self._parts.keys()):
            store: Store[T] = Store(self.store.codec)
            part = self._parts[name] = self.reflector_of(name, store)
            store.add_handler(partial(self._take_over, name, part))
            store.on_replaced = partial(self._replaced, name, part)
            title = f"reflector {self.path}/{name}"
            self._tasks[name] = self.supervisor.start(group, "reflector", part.run, title)

    def _observed(self, obj: T) -> None:
        part = self._parts.get(self.part_of(obj))
        if part is not None:
            part.check()
        else:
            self.parts_changed()

    def _update_synced(self) -> None:
        """Update whether the store is synced; a forbidden part prevents it."""
        if self.is_synced:
            return  # for good, as it is atomic
        are_synced = all(part.store.is_synced for part in self._parts.values())
        if not self.is_atomic:
            self.store.is_synced = are_synced
        elif are_synced:
            self._synced.set()
            stores = [part.store for part in self._parts.values()]
            listed, lowest = [obj for store in stores for obj in store], ""
            for store in stores:
                if not lowest or is_lower(store.listed_version, lowest):
                    lowest = store.listed_version
            self.store.replace_all(listed, lowest)

    def _is_followed(self, name: str, part: Reflector[T]) -> bool:
        is_early = self.is_atomic and not self.is_synced
        return not is_early and self._parts.get(name) is part

    def _take_over(self, name: str, part: Reflector[T], old: T | None, new: T | None) -> None:
        if not self._is_followed(name, part):
            return
        if new is not None:
            self.store.apply(new)
        elif old is not None:
            self.store.remove(old)

    def _replaced(self, name: str, part: Reflector[T], is_back: bool) -> None:  # noqa: FBT001 - as Store calls it
        """Accept a list of one part, even if the server was restored to an earlier state."""
        if self._is_followed(name, part):
            key_of = part.store.codec.key
            listed = {key_of(obj) for obj in part.store}
            candidates = self.store if is_back else self.store.unreported()
            for obj in self._in_part(name, () if part.store.unreadable else candidates):
                if key_of(obj) not in listed:
                    version = None if is_back else part.store.listed_version
                    self.store.remove_unlisted(obj, version)
            for obj in part.store if is_back else ():
                self.store.put_back(obj)
        self._update_synced()

    def _in_part(self, name: str, objects: Iterable[T]) -> list[T]:
        return [obj for obj in objects if self.part_of(obj) == name]


def named_reflector(
    client: ApiClient, path: str, store: Store[T], names: Callable[[], Iterable[str]]
) -> PartedReflector[T]:
    """Return what follows objects by names, one no longer required until it is deleted."""

    def name_of(obj: T) -> str:
        return store.codec.key(obj)[1]

    def reflector_of(name: str, part: Store[T]) -> Reflector[T]:
        query = {"fieldSelector": f"{NAME_FIELD}={name}"}
        return Reflector(client, path, part.codec, part, query, is_short=True)

    def required() -> set[str]:
        return {*names(), *map(name_of, store)}

    return PartedReflector(path, store, required, reflector_of, name_of, is_atomic=True)


_log = logging.getLogger(__name__)


AnyReflector = Reflector[Any] | PartedReflector[Any]


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
    return f"no API server lists {path}: {reason}"


def unlisted_paths(reflectors: Iterable[AnyReflector]) -> list[str]:
    return [reflector.path for reflector in reflectors if not reflector.is_synced]


RETRY_S = 1.0


class WatchScope:
    """Where resources may be watched: in `namespaces`, which may change at any time."""

    def __init__(self, client: ApiClient, namespaces: Callable[[], Iterable[str]]) -> None:
        self._client = client
        self.namespaces = namespaces
        self.followers: WeakSet[PartedReflector[Object]] = WeakSet()

    async def is_whole(self, resource: Resource) -> bool:
        """Return whether a resource may be watched in all namespaces, by a review."""
        if not resource.namespaced:
            return True
        need = Need("watch", resource.gvk.group, resource.plural)
        return await retry_on(KubeError, math.inf, lambda: is_allowed(self._client, need), RETRY_S)

    def changed(self) -> None:
        for follower in list(self.followers):
            follower.parts_changed()


def _reflector(
    client: ApiClient,
    resource: Resource,
    store: Store[Object],
    query: Mapping[str, str],
    namespace: str = "",
    *,
    rests: bool = False,
) -> Reflector[Object]:
    path = resource.path(namespace)
    return Reflector(
        client,
        path,
        store.codec,
        store,
        query,
        FORBIDDEN_S,
        partial(is_absent, client, path),
        is_direct=is_built_in(resource.gvk.group),
        rests=rests,
    )


def namespaced_reflector(
    client: ApiClient,
    resource: Resource,
    store: Store[Object],
    query: Mapping[str, str],
    scope: WatchScope,
    supervisor: Supervisor = ALONE,
    *,
    are_ours: bool = False,
) -> PartedReflector[Object]:
    """Return what follows one resource in the namespaces of a scope.

    are_ours: a namespace without objects is not watched then, for each takes a connection.
    """

    def reflector_of(namespace: str, part: Store[Object]) -> Reflector[Object]:
        return _reflector(client, resource, part, query, namespace, rests=are_ours)

    def namespace_of(obj: Object) -> str:
        return str(obj["metadata"].get("namespace") or "")

    reflector = PartedReflector(
        resource.path(), store, scope.namespaces, reflector_of, namespace_of, supervisor
    )
    scope.followers.add(reflector)
    return reflector


Indexes = Mapping[str, Callable[[Object], Iterable[str]]]

IDLE_S = 600.0
"""Longer than Works back off."""
_CHECKS_PER_IDLE_TIME = 10
_WATCHABLE = frozenset(("list", "watch"))


@dataclass(eq=False, repr=False)
class InformerSet:
    """Stores of host objects that match `query`, over all namespaces, by resource.

    on_change: called for every change but the echo of a write. indexes: of each store. scope: where
    a resource may be watched; None = everywhere. idle_s: when a resource without objects that no
    caller requests is watched no more, as tenants create kinds without end; 0 = never. are_ours:
    whether `query` selects what we made alone. codec: decides what is kept.
    """

    client: ApiClient
    query: Mapping[str, str]
    on_change: Callable[[Object | None, Object | None], None]
    indexes: Indexes | None = None
    supervisor: Supervisor = ALONE
    scope: WatchScope | None = None
    idle_s: float = 0.0
    _: KW_ONLY
    are_ours: bool = False
    codec: RawCodec = field(default_factory=RawCodec)

    def __post_init__(self) -> None:
        self._stores: dict[str, Store[Object]] = {}
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
            store = Store(self.codec, self.indexes)
            store.add_handler(self._changed)
            self._stores[path] = store
            self._resources[path] = resource
            self._has_requests.set()
        return self._stores[path]

    def stores(self) -> dict[str, Store[Object]]:
        return dict(self._stores)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if not is_echo(old, new):
            self.on_change(old, new)

    async def run(self) -> None:
        self._running.clear()
        async with asyncio.TaskGroup() as group:
            if self.idle_s:
                group.create_task(self._end_idle(), name="end of idle informers")
            while True:
                self._has_requests.clear()
                for path, resource in self._resources.items():
                    if path not in self._running:
                        follow = partial(self._follow, resource, self._stores[path])
                        name = f"reflector {path}"
                        task = self.supervisor.start(group, "reflector", follow, name)
                        self._running[path] = task
                await self._has_requests.wait()

    async def _end_idle(self) -> None:
        while True:
            await asyncio.sleep(self.idle_s / _CHECKS_PER_IDLE_TIME)
            for path in [path for path in self._running if self._is_idle(path)]:
                # A caller that requests it from here on gets a new store, and a new reflector.
                self._running.pop(path).cancel()
                del self._stores[path], self._resources[path], self._requested_at[path]

    def _is_idle(self, path: str) -> bool:
        store, group = self._stores[path], self._resources[path].gvk.group
        if is_built_in(group) or len(store) or store.unreadable or not store.is_synced:
            return False
        return asyncio.get_running_loop().time() - self._requested_at[path] >= self.idle_s

    async def _follow(self, resource: Resource, store: Store[Object]) -> None:
        what = (self.client, resource, store, self.query)
        if self.scope is None or await self.scope.is_whole(resource):
            await _reflector(*what).run()
            return
        are_ours = self.are_ours
        parts = namespaced_reflector(*what, self.scope, self.supervisor, are_ours=are_ours)
        await parts.run()
