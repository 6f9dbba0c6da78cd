"""Lists and watches the objects of a resource that have certain names, each by itself.

For a resource of which only a few objects are of interest, and whose others change often: nothing
of these is sent. Each name takes a watch, and all feed one Store. The names may change at any time;
one that is no longer wanted is followed until its object is gone, so that a deletion is a deletion.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from typing import TypeVar

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import Codec, Page
from karmada_vc_agent.kube.listing import Listing
from karmada_vc_agent.kube.reflector import Reflector
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.versions import is_lower
from karmada_vc_agent.model.well_known import NAME_FIELD

T = TypeVar("T")


class NamedReflector(Reflector[T]):
    """Keeps `store` equal to what the server has under `path` by these names.

    names: returns them. For resources without namespaces.
    """

    def __init__(
        self,
        client: ApiClient,
        path: str,
        codec: Codec[T],
        store: Store[T],
        names: Callable[[], Iterable[str]],
    ) -> None:
        super().__init__(client, path, codec, store)
        self._names = names
        self._versions: dict[str, str] = {}
        self._pages: dict[str, Page[T]] = {}
        self._listed: Listing[T] | None = None
        self._has_changed = asyncio.Event()

    def names_changed(self) -> None:
        """Follow what is wanted now."""
        self._has_changed.set()

    def has_told(self, name: str) -> bool:
        """Whether the store has the object of a name if there is one."""
        return self.store.is_synced and name in self._versions

    def _wanted(self) -> set[str]:
        """Return the names to follow: those wanted, and those whose object is still there."""
        return {*self._names(), *(self.store.codec.key(obj)[1] for obj in self.store)}

    async def _read_all(self, listing: Listing[T]) -> Page[T]:
        """Read what a list lacks: after an outage it goes on with the names that are missing."""
        if self._listed is not listing:
            self._listed, self._pages = listing, {}
        self._has_changed.clear()
        wanted = self._wanted()
        await self._read(wanted - self._pages.keys())
        versions = {name: self._pages[name].resource_version for name in wanted}
        for name in wanted:
            listing.add(self._pages[name])
        self._versions, self._pages, self._listed = versions, {}, None
        return Page([], _lowest(versions.values()), "")

    async def _read(self, names: Iterable[str]) -> None:
        """Read what there is by each name, and keep what was read before a failure.

        Raises KubeError.
        """

        async def read(name: str) -> None:
            self._pages[name] = await self._read_one(name)

        reads = [asyncio.create_task(read(name)) for name in sorted(names)]
        try:
            await asyncio.gather(*reads)
        finally:
            await _end(reads)

    async def _read_one(self, name: str) -> Page[T]:
        """Read what there is by a name; that is no long list, and waits for none."""
        content = await self._client.request("GET", self.path, query=_query_of(name))
        return await self._decode(content)

    async def _watch(self) -> bool:
        """Watch all names until one of the watches fails, or ends without having told anything."""
        watches: dict[str, asyncio.Task[None]] = {}
        try:
            while not any(each.done() for each in watches.values()):
                await self._follow_names(watches)
                changed = asyncio.create_task(_wait(self._has_changed))
                try:
                    await asyncio.wait(
                        (changed, *watches.values()), return_when=asyncio.FIRST_COMPLETED
                    )
                finally:
                    await _end([changed])
        finally:
            ended = [each for each in watches.values() if each.done()]
            await _end(watches.values())
        for each in ended:
            each.result()
        return False

    async def _follow_names(self, watches: dict[str, asyncio.Task[None]]) -> None:
        """Begin and end watches as names came and went."""
        self._has_changed.clear()
        wanted = self._wanted()
        gone = (self._versions.keys() | watches.keys()) - wanted
        await _end([watches.pop(name) for name in gone if name in watches])
        for name in gone:
            self._versions.pop(name, None)
        for name in sorted(wanted - watches.keys()):
            watches[name] = asyncio.create_task(self._follow_name(name))

    def _accept_one(self, name: str, page: Page[T]) -> None:
        for found in page.unreadable:
            self.store.doubt(found)
        for obj in page.items:
            self.store.apply(obj)
        self._reached(name, page.resource_version)
        if page.unreadable:
            self._name_unreadable()

    async def _follow_name(self, name: str) -> None:
        """Read a name if it is new, and watch it until a watch tells nothing. Raises KubeError."""
        if name not in self._versions:
            self._accept_one(name, await self._read_one(name))
        has_told = True
        while has_told:
            has_told = False
            async with aclosing(self._events(_query_of(name), self._versions[name])) as events:
                async for event in events:
                    has_told = True
                    if is_lower(event.resource_version, self._versions[name]):
                        self._version = None  # servers do not send that; a list shows the state
                        return
                    self._take(event)
                    if event.resource_version:
                        self._reached(name, event.resource_version)

    def _reached(self, name: str, version: str) -> None:
        self._versions[name] = version
        if self._version is not None and is_lower(self._version, version):
            self._version = self._seen = version


def _query_of(name: str) -> Mapping[str, str]:
    return {"fieldSelector": f"{NAME_FIELD}={name}"}


def _lowest(versions: Iterable[str]) -> str:
    """Return the version before all others, "" where there is none."""
    lowest = ""
    for version in versions:
        if not lowest or is_lower(version, lowest):
            lowest = version
    return lowest


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait until they ended."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
