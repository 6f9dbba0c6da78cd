"""Makes the entries of the checkpoint from the state of the hub."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec
import orjson

from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.features.checkpoint import entries
from karmada_vc_agent.features.checkpoint.entries import (
    CLUSTER,
    CONTACT,
    FORMAT,
    RULES,
    WORKS,
    Header,
)
from karmada_vc_agent.features.checkpoint.kept import encoded, mark
from karmada_vc_agent.features.checkpoint.shards import part_of, works_key
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.work.works import Works, is_trimmed

InThread = Callable[[Callable[[Header, list[bytes]], bytes], Header, list[bytes]], Awaitable[bytes]]
SLICE_BYTES = 2**20
"""How much is encoded before other tasks run: 3 ms."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the Works of a Cluster: its entry, None = empty, and the marks of the Works."""

    key: str
    entry: bytes | None
    marks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class EntrySource:
    """The state of the hub as it is cached, and its entries.

    served: the virtual clusters that are. rules: stores of customizations and webhook
    configurations. hub: uid of its kube-system, "" = unknown. is_in_contact: whether the hub lists
    Clusters, and Works of this one. now: the time as Kubernetes writes it. in_thread: encodes Works
    in a thread.
    """

    clusters: HubClusters
    works: Works
    rules: tuple[Store[Object], ...]
    served: Collection[str]
    template: str
    hub: Callable[[], str]
    is_in_contact: Callable[[str], bool]
    now: Callable[[], str]
    in_thread: InThread = asyncio.to_thread

    def is_listed(self, cluster: str) -> bool:
        """Return whether the hub has listed all of a virtual cluster since this process began."""
        store = self.works.store(cluster)
        return self.clusters.store.is_synced and store is not None and store.is_synced

    def head(self, cluster: Object, parts: int) -> bytes | None:
        """Return the entry of a Cluster, None where it is not to be saved."""
        content = encoded(cluster)
        if content is None:
            return None
        return entries.encode(self._header(CLUSTER, cluster, parts=parts), [content])

    async def parts(self, cluster: Object, numbers: Collection[int], of: int) -> list[Part]:
        """Return some of the parts of the Works of a Cluster. of: into how many they are split."""
        name = cluster["metadata"]["name"]
        by_part: defaultdict[int, list[Object]] = defaultdict(list)
        for work in self.works.of(name):
            by_part[part_of(work["metadata"]["name"], of)].append(work)
        return [await self._part(cluster, by_part[part], part, of) for part in sorted(numbers)]

    async def _part(self, cluster: Object, works: list[Object], part: int, of: int) -> Part:
        marks: dict[str, int] = {}
        contents: list[bytes] = []
        at_once = 0
        for work in sorted(works, key=lambda each: each["metadata"]["name"]):
            if at_once > SLICE_BYTES:
                at_once = 0
                await asyncio.sleep(0)
            content = encoded(work) if is_trimmed(work) is None else None
            if content is not None:
                contents.append(content)
                at_once += len(content)
                marks[work["metadata"]["name"]] = mark(work)
        header = self._header(WORKS, cluster, part=part, parts=of)
        entry = await self.in_thread(entries.encode, header, contents) if contents else None
        return Part(works_key(cluster["metadata"]["name"], of, part), entry, marks)

    def rules_entry(self) -> bytes:
        """Return the entry of customizations and webhook configurations."""
        objects: Iterable[Object] = (obj for store in self.rules for obj in store)
        contents = [content for obj in objects if (content := encoded(obj)) is not None]
        return entries.encode(self._header(RULES), sorted(contents))

    def contact(self, but: Iterable[str] = ()) -> bytes:
        """Return the entry that says that the others are of now. but: Clusters that are not."""
        names = [orjson.dumps({"metadata": {"name": name}}) for name in sorted(but)]
        return entries.encode(self._header(CONTACT), names)

    def _header(
        self, kind: str, cluster: Object | None = None, part: int = 0, parts: int = 0
    ) -> Header:
        plain = Header(format=FORMAT, kind=kind, hub=self.hub(), saved=self.now())
        if cluster is None:
            return plain
        return msgspec.structs.replace(
            plain,
            cluster=cluster["metadata"]["name"],
            uid=uid_of(cluster),
            template=self.template,
            part=part,
            parts=parts,
        )
