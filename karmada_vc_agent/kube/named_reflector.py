"""Lists and watches the objects of a resource that have certain names, each by itself.

For a resource of which only a few objects are of interest, and whose others change often: nothing
of these is sent. Each name has a Reflector of its own, so one that fails costs no other; all feed
one Store. The names may change at any time; one that is no longer required is followed until its
object is deleted, so that a deletion is a deletion.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, TypeVar

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import Codec
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.versions import is_lower
from karmada_vc_agent.model.well_known import NAME_FIELD

T = TypeVar("T")


class NamedReflector(Generic[T]):
    """Keeps `store` equal to what the server has under `path` by these names.

    names: returns them. For resources without namespaces. The store is synced once all names that
    are required at the start are; for others see `has_told`.
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

    def has_told(self, name: str) -> bool:
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
