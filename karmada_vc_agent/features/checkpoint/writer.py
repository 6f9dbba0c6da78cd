"""Keeps the checkpoint equal to the state of the hub; only the leader does.

What changed is written at once after a pause, then at most every 5 s, entry by entry. A Work whose
objects are to be deleted is removed before: `strike` returns once no Secret has it any more. After
a write without a result all of that virtual cluster is written again. A virtual cluster that cannot
be written delays none of the others; it is noted, so that the next start does not serve what was
saved of it before, and retried less and less often.

Outdated virtual clusters are noted in the state of the agent, beside the Secrets: a quota, an
admission webhook or a missing right may prevent writes to these. Readers of the checkpoint refuse
what is noted, so nothing that was deleted meanwhile returns, and nothing is set back.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import msgspec
import orjson

from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.features.checkpoint import entries
from karmada_vc_agent.features.checkpoint.entries import (
    CLUSTER,
    CONTACT,
    CONTACT_KEY,
    FORMAT,
    LARGEST_RULES,
    RULES,
    RULES_KEY,
    WORKS,
    Header,
    cluster_of_key,
    encoded,
    head_key,
    mark,
    part_of,
    parts_for,
    parts_for_sizes,
    place_of,
    works_key,
    works_prefix,
)
from karmada_vc_agent.features.checkpoint.secrets import CheckpointSecrets, Failures
from karmada_vc_agent.kube.controller import NotReadyError
from karmada_vc_agent.kube.errors import ApiError, ForbiddenError, KubeError, UnreachableError
from karmada_vc_agent.kube.flows import SharedLock
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.tasks import LogOnce
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.work.works import Works, is_trimmed

InThread = Callable[[Callable[[Header, list[bytes]], bytes], Header, list[bytes]], Awaitable[bytes]]
SLICE_BYTES = 2**20
"""How much is encoded before other tasks run: 3 ms."""


@dataclass(frozen=True, slots=True)
class _Part:
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

    async def parts(self, cluster: Object, numbers: Collection[int], of: int) -> list[_Part]:
        """Return some of the parts of the Works of a Cluster. of: into how many they are split."""
        name = cluster["metadata"]["name"]
        by_part: defaultdict[int, list[Object]] = defaultdict(list)
        for work in self.works.of(name):
            by_part[part_of(work["metadata"]["name"], of)].append(work)
        return [await self._part(cluster, by_part[part], part, of) for part in sorted(numbers)]

    async def _part(self, cluster: Object, works: list[Object], part: int, of: int) -> _Part:
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
        return _Part(works_key(cluster["metadata"]["name"], of, part), entry, marks)

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


EVERYTHING = "_all"
"""All virtual clusters; no Cluster has such a name."""
_PREFIX = "checkpoint-outdated."


class Outdated:
    """The notes; each of them is a write only where it changes something."""

    def __init__(self, state: AgentState) -> None:
        self._state = state

    def names(self) -> frozenset[str]:
        """Return what is noted, which may be EVERYTHING."""
        return frozenset(self._state.values(_PREFIX))

    def has(self, cluster: str) -> bool:
        """Return whether a virtual cluster must not be served from the checkpoint."""
        return not self.names().isdisjoint((cluster, EVERYTHING))

    async def note(self, cluster: str) -> None:
        """Have the next start refuse a virtual cluster. Raises KubeError."""
        await self._state.write(_PREFIX + cluster, "true")

    async def clear(self, cluster: str) -> None:
        """Remove a note: what is saved is the state of the hub. Raises KubeError."""
        await self._state.erase(_PREFIX + cluster)


_log = logging.getLogger(__name__)

PAUSE_S = 5.0
CONTACT_S = 600.0
"""How often it is noted that the hub is still in this state: each time the host stores a Secret of
up to 500 kB, mostly on a flash card."""

_Places = defaultdict[int, dict[str, bytes | None]]
_Errors = Mapping[str, KubeError]
"""Virtual cluster, or key of what is of none, -> why it cannot be written; or EVERYTHING."""


@dataclass(slots=True)
class _Book:
    """The content of the Secrets of one virtual cluster.

    marks: of each Work in them. touched: Works that may differ since. again: parts to write even if
    nothing differs. head: the mark of the Cluster. least: into how many parts its Works are split
    at least, by their size.
    """

    uid: str
    parts: int = 1
    least: int = 1
    head: int = 0
    marks: dict[str, int] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    again: set[int] = field(default_factory=set)


class CheckpointWriter:
    """Writes the checkpoint."""

    def __init__(
        self,
        secrets: CheckpointSecrets,
        source: EntrySource,
        outdated: Outdated,
        clock: Callable[[], float] = time.monotonic,
        *,
        contact_s: float = CONTACT_S,
    ) -> None:
        self._secrets = secrets
        self._source = source
        self._outdated = outdated
        self._clock = clock
        self._contact_s = contact_s
        self._books: dict[str, _Book] = {}
        self._lock = SharedLock()
        self._wake = asyncio.Event()
        self._once = LogOnce(_log)
        self._surprises = secrets.surprises
        self._contact_at: float | None = None
        self._has_rules = False
        self._is_hub_restored = False
        self._failures = Failures()

    def problem_of(self, cluster: str) -> KubeError | None:
        """Return why a virtual cluster cannot be written, None if it can."""
        errors = self._failures.errors
        return errors.get(EVERYTHING) or errors.get(cluster)

    # --- changes ------------------------------------------------------------------------

    def work_changed(self, cluster: str, old: Object | None, new: Object | None) -> None:
        """Note a Work that was added, changed or deleted."""
        name = (new or old or {})["metadata"]["name"]
        book = self._books.get(cluster)
        after = mark(new) if new is not None else 0
        if book is not None and (self._lock.locked() or book.marks.get(name, 0) != after):
            book.touched.add(name)
            self._wake.set()

    def clusters_changed(self) -> None:
        """Note that Clusters may differ, or which of them are served."""
        self._wake.set()

    def rules_changed(self) -> None:
        """Note that customizations or webhook configurations differ."""
        self._has_rules = False
        self._wake.set()

    def host_restored(self) -> None:
        """Have the Secrets read again: they may be as they were before."""
        self._secrets.doubt_all()
        self._wake.set()

    def hub_restored(self) -> None:
        """Have everything saved again: current marks may be those of other content before."""
        self._is_hub_restored = True
        self._wake.set()

    def has(self, cluster: str) -> bool:
        """Return whether all of a virtual cluster was written, by this process."""
        book = self._books.get(cluster)
        return book is not None and bool(book.uid)

    # --- before something is deleted ----------------------------------------------------

    async def strike(self, cluster: str, name: str) -> None:
        """Return once a Work is not in the checkpoint, or is not served from it any more.

        Raises KubeError, NotReadyError.
        """
        async with self._lock:
            if self._outdated.has(cluster) and not self._is_due(cluster):
                return
            try:
                await self._strike(cluster, name)
            except UnreachableError:
                raise
            except KubeError as error:
                self._failures.failed(cluster, error)
                self._log_errors()
                # The deletion must not wait until the host accepts the Secret again.
                await self._outdated.note(cluster)

    async def _strike(self, cluster: str, name: str) -> None:
        await self._settle()
        book = self._books.get(cluster)
        if book is not None and name not in book.marks:
            return
        if not self._source.is_listed(cluster):
            raise NotReadyError(f"the Works of cluster({cluster}) are not listed")
        if book is not None:
            book.touched.add(name)
        await self._write_cluster(cluster)
        self._failures.passed(cluster)

    def _is_due(self, cluster: str) -> bool:
        return self._failures.is_due(EVERYTHING) and self._failures.is_due(cluster)

    # --- writing ------------------------------------------------------------------------

    async def run(self) -> None:
        """Write what changes until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_S):
                    await self._wake.wait()
            pause_s = PAUSE_S if self._wake.is_set() else 0.0
            self._wake.clear()
            # The client logs outages, and doubts about the lead end.
            with suppress(UnreachableError):
                await self._write_all()
            self._log_errors()
            await asyncio.sleep(pause_s)

    def _log_errors(self) -> None:
        """Log why something is not written."""
        errors = self._failures.errors
        if not errors:
            self._once.ended()
            return
        what, error = next(iter(errors.items()))
        text = "Cannot write the checkpoint"
        if isinstance(error, ForbiddenError) and error.need is not None:  # no quota or policy
            text = "Keeping no checkpoint yet: run karmada-vc-agent join"
        self._once.warning(text, about=what, reason=str(error))

    async def _settle(self) -> None:
        """Forget the content of the Secrets where they may have changed. Raises KubeError."""
        await self._secrets.settle()
        if self._is_hub_restored or self._surprises != self._secrets.surprises:
            self._is_hub_restored = False
            self._surprises = self._secrets.surprises
            self._books.clear()
            self._has_rules = False

    async def _write_all(self) -> _Errors:
        """Write what differs; return what could not be written. Raises UnreachableError."""
        if not self._source.clusters.store.is_synced or not self._failures.is_due(EVERYTHING):
            return self._failures.errors
        await self._try(EVERYTHING, self._settle)
        if EVERYTHING in self._failures.errors:
            return self._failures.errors
        for name in tuple(self._source.served):
            if self._source.is_listed(name):
                await self._try(name, partial(self._write_cluster, name))
        others = self._others()
        for name in others:
            await self._try(name, partial(self._remove, name))
        keeps_any = any(book.uid for book in self._books.values())
        common = (RULES_KEY, CONTACT_KEY) if keeps_any else ()
        self._failures.forget_all_but({*self._source.served, *others, *common})
        if keeps_any:
            await self._try(RULES_KEY, self._write_rules)
            await self._try(CONTACT_KEY, self._note_contact)
        await self._trust_again()
        return self._failures.errors

    async def _try(self, what: str, write: Callable[[], Awaitable[None]]) -> None:
        """Write something if it is due; note errors. Raises UnreachableError."""
        if not self._failures.is_due(what):
            return
        try:
            async with self._lock:  # of each alone: a deletion waits for no other virtual cluster
                await write()
            self._failures.passed(what)
        except UnreachableError:
            raise
        except KubeError as error:
            if self._failures.failed(what, error) > 1 and what not in (RULES_KEY, CONTACT_KEY):
                with suppress(KubeError):  # it is noted before anything is deleted, at the latest
                    await self._outdated.note(what)

    async def _trust_again(self) -> None:
        """Allow to serve what was written, and note the others by name."""
        if RULES_KEY in self._failures.errors or EVERYTHING not in self._outdated.names():
            return  # all virtual clusters need the rules
        ours = {n for n in self._source.served if self._source.clusters.ours(n) is not None}
        kept = {n for n in ours if self.has(n)}
        if ours and not kept:
            return
        with suppress(ApiError):
            for name in sorted((ours - kept) | {*self._others()}):
                await self._outdated.note(name)
            await self._outdated.clear(EVERYTHING)

    async def _write_rules(self) -> None:
        if self._has_rules or not all(store.is_synced for store in self._source.rules):
            return
        entry, self._has_rules = self._source.rules_entry(), True
        try:
            fits = len(entry) <= LARGEST_RULES
            await self._secrets.write_bounded(0, {RULES_KEY: entry if fits else None})
        except BaseException:
            self._has_rules = False
            raise

    async def _note_contact(self) -> None:
        """Note now and then that the hub is still in this state, for the Clusters that it lists."""
        now = self._clock()
        is_due = self._contact_at is None or now - self._contact_at >= self._contact_s
        if not is_due:
            return
        ours = [
            name for name in self._source.served if self._source.clusters.ours(name) is not None
        ]
        errors = self._failures.errors
        current = {n for n in ours if self._source.is_listed(n) and self._source.is_in_contact(n)}
        but = [name for name in ours if name in errors or name not in current]
        if len(but) == len(ours):
            return
        await self._secrets.write(0, {CONTACT_KEY: self._source.contact(but)})
        self._contact_at = now
        self._secrets.doubt_all()  # another writer may have changed or deleted one

    async def _write_cluster(self, name: str) -> None:
        """Write what differs of one virtual cluster. Raises KubeError."""
        cluster = self._source.clusters.ours(name)
        if cluster is None or name not in self._source.served or not mark(cluster):
            await self._remove(name)
            return
        book = self._books.get(name)
        if book is not None and book.uid == uid_of(cluster):
            book.again = self._secrets.parts_that_fit(name)
            if not book.touched and not book.again and book.head == mark(cluster):
                await self._outdated.clear(name)
                return
        else:
            book = None
        # Whatever fails, the content of the Secrets is unknown then.
        self._books.pop(name, None)
        new = _Book(uid_of(cluster), head=mark(cluster))
        new.least = book.least if book is not None else 1
        at_present = book.parts if book is not None else 1
        new.parts = max(new.least, parts_for(len(self._source.works.of(name)), at_present))
        self._books[name] = new
        try:
            await self._write_parts(cluster, book, new)
        except BaseException:
            self._books.pop(name, None)
            raise
        await self._outdated.clear(name)

    async def _write_parts(self, cluster: Object, before: _Book | None, new: _Book) -> None:
        name = cluster["metadata"]["name"]
        numbers = set(range(new.parts))
        if before is not None and before.parts == new.parts:
            numbers = {part_of(work, new.parts) for work in before.touched} | before.again
            new.marks = before.marks
        parts = await self._source.parts(cluster, numbers, new.parts)
        sizes = [len(part.entry) for part in parts if part.entry and len(part.marks) > 1]
        more = parts_for_sizes(sizes, new.parts)
        if more > new.parts:
            new.parts = new.least = more
            numbers = set(range(more))
            parts = await self._source.parts(cluster, numbers, more)
        await self._put(_places(name, parts))
        head = self._source.head(cluster, new.parts)
        await self._secrets.write_bounded(place_of(name, 0), {head_key(name): head})
        await self._put(self._of_other_parts(name, new.parts))
        self._secrets.forget_left_out(name, but=works_prefix(name, new.parts))
        marks = new.marks.items()
        new.marks = {work: each for work, each in marks if part_of(work, new.parts) not in numbers}
        for part in parts:
            new.marks |= part.marks

    async def _put(self, places: _Places) -> None:
        """Write entries; those that do not fit are left out. Raises KubeError."""
        for number, changes in places.items():
            await self._secrets.write_bounded(number, changes)

    def _of_other_parts(self, name: str, parts: int) -> _Places:
        """Return the changes that remove the entries of another number of parts."""
        prefix = f"works.{name}."
        removed: _Places = defaultdict(dict)
        for number, key in self._secrets:
            if key.startswith(prefix) and not key.startswith(works_prefix(name, parts)):
                removed[number][key] = None
        return removed

    async def _remove(self, name: str) -> None:
        """Remove all of one virtual cluster. Raises KubeError."""
        await self._secrets.remove(name)
        self._books[name] = _Book("")
        await self._outdated.clear(name)

    def _others(self) -> list[str]:
        """Return the Clusters with entries to remove: those that are not ours, or not served."""
        for name in [name for name in self._books if name not in self._source.served]:
            del self._books[name]
        saved = {cluster_of_key(key) for _, key in self._secrets} - {""}
        served = self._source.served
        return [n for n in saved if n not in served or self._source.clusters.ours(n) is None]


def _places(name: str, parts: Iterable[_Part]) -> _Places:
    places: _Places = defaultdict(dict)
    for part in parts:
        number = place_of(name, int(part.key.rpartition(".")[2]))
        places[number][part.key] = part.entry
    return places
