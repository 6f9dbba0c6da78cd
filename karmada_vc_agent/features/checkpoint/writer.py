"""Keeps the checkpoint equal to the state of the hub; only the leader does.

What changed is written at most every 5 s, entry by entry. A Work whose objects are to be deleted is
removed before: `strike` returns once no Secret has it any more. A virtual cluster that cannot be
written delays none of the others, and is retried less and less often. It is noted as outdated in
the state of the agent, beside the Secrets, which a quota, a webhook or a missing right may close:
the next start serves nothing of it, so nothing that was deleted meanwhile returns.
"""

import asyncio
import logging
import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import NamedTuple

import msgspec
import orjson

from karmada_vc_agent.cluster.hub_clusters import AgentState, HubClusters
from karmada_vc_agent.features.checkpoint import entries
from karmada_vc_agent.features.checkpoint.entries import CheckpointSecrets, Header
from karmada_vc_agent.kube.controller import NotReadyError
from karmada_vc_agent.kube.errors import ApiError, ForbiddenError, KubeError, UnreachableError
from karmada_vc_agent.kube.flows import LogOnce, SharedLock
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.work.works import Works, is_trimmed

EVERYTHING = "_all"
"""All virtual clusters; no Cluster has such a name."""
_TOGETHER = "_together"
_PREFIX = "checkpoint-outdated."


class Outdated:
    """The notes; each of them is a write only where it changes something."""

    def __init__(self, state: AgentState) -> None:
        self._state = state

    def names(self) -> frozenset[str]:
        """Return what is noted, which may be EVERYTHING."""
        return frozenset(self._state.values(_PREFIX))

    def has(self, cluster: str) -> bool:
        return any(self._state.value(_PREFIX + name) for name in (cluster, EVERYTHING))

    async def note(self, cluster: str) -> None:
        """Have the next start refuse a virtual cluster. Raises KubeError."""
        await self._state.write(_PREFIX + cluster, "true")

    async def clear(self, cluster: str) -> None:
        """Remove a note: what is saved is the state of the hub. Raises KubeError."""
        await self._state.write(_PREFIX + cluster, None)


_log = logging.getLogger(__name__)

PAUSE_S = 5.0
FIRST_S = 10.0
"""The first retry is that of the next write, 5 s later: most refusals end by then."""
LONGEST_S = 300.0
"""To encode 10,000 Works takes 2 s, and a host that refuses them once mostly continues to."""
CONTACT_S = 600.0
"""How often contact with the hub is noted: each time the host stores a Secret of up to 500 kB."""
CONTACT_AGAIN_S = 30.0
"""After a note that leaves virtual clusters out, as at first after an outage: if more are heard."""


_Places = defaultdict[int, dict[str, bytes | None]]
_home = partial(entries.place_of, part=0)


@dataclass(slots=True)
class _Book:
    """The content of the Secrets of one virtual cluster.

    cluster: the Cluster that was compared last. least: the fewest parts, by size. head: the mark of
    the Cluster. marks: of each Work in them. touched: Works that may differ since.
    """

    uid: str
    cluster: Object | None = None
    parts: int = 1
    least: int = 1
    head: int = 0
    marks: dict[str, int] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)


def _entry(header: Header, works: list[Object], marks: dict[str, int]) -> bytes | None:
    """Return the entry of one part, None = empty; add the marks of its Works."""
    contents = []
    for work in sorted(works, key=lambda each: each["metadata"]["name"]):
        content = entries.encoded(work) if is_trimmed(work) is None else None
        if content is not None:
            contents.append(content)
            marks[work["metadata"]["name"]] = entries.mark(work)
    return entries.encode(header, contents) if contents else None


class _Failure(NamedTuple):
    """The last error of a write, the pause after it, and when it is tried again."""

    error: KubeError
    pause_s: float
    due_at: float


class _Contact(NamedTuple):
    """When contact was noted, with which hub, and the virtual clusters that were not heard."""

    at: float = -math.inf
    hub: str = ""
    not_heard: frozenset[str] = frozenset()


@dataclass(eq=False)
class CheckpointWriter:
    """Writes the checkpoint, of the state of the hub as it is cached.

    rules: stores of customizations and webhook configurations. template: of host namespaces. hub:
    returns the uid of its kube-system. is_in_contact: whether the hub lists Works of a Cluster, or
    Clusters (""). now: the time as Kubernetes writes it. in_thread: encodes Works in a thread.
    """

    secrets: CheckpointSecrets
    outdated: Outdated
    clusters: HubClusters
    works: Works
    rules: tuple[Store[Object], ...]
    served: Collection[str]
    template: str
    hub: Callable[[], str]
    is_in_contact: Callable[[str], bool]
    now: Callable[[], str]
    clock: Callable[[], float] = time.monotonic
    in_thread: Callable[..., Awaitable[bytes | None]] = asyncio.to_thread
    contact_s: float = CONTACT_S

    def __post_init__(self) -> None:
        self.contact = _Contact()
        self._books: dict[str, _Book] = {}
        self._lock = SharedLock()
        self._wake = asyncio.Event()
        self._once = LogOnce(_log)
        self._seen = (self.secrets.surprises, self.hub())
        self._has_rules = False
        self._is_hub_restored = False
        self._failures: dict[str, _Failure] = {}
        """By virtual cluster, or key of what is of none, or EVERYTHING."""

    def problem_of(self, cluster: str) -> KubeError | None:
        failure = self._failures.get(EVERYTHING) or self._failures.get(cluster)
        return failure.error if failure is not None else None

    def work_changed(self, cluster: str, old: Object | None, new: Object | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        book = self._books.get(cluster)
        after = entries.mark(new) if new is not None else 0
        if book is not None and (self._lock.locked() or book.marks.get(name, 0) != after):
            book.touched.add(name)
            self._wake.set()

    def clusters_changed(self, *_change: object) -> None:
        self._wake.set()

    def rules_changed(self, *_change: object) -> None:
        self._has_rules = False
        self._wake.set()

    def host_restored(self) -> None:
        """Have the Secrets read again: they may be as they were before, and so may the contact."""
        self.secrets.doubt_all()
        self.contact = _Contact()
        self._wake.set()

    def hub_restored(self) -> None:
        """Have everything saved again: current marks may be those of other content before."""
        self._is_hub_restored = True
        self._wake.set()

    def has(self, cluster: str) -> bool:
        """Return whether all of a virtual cluster was written, by this process."""
        book = self._books.get(cluster)
        return book is not None and bool(book.uid)

    async def strike(self, cluster: str, name: str) -> None:
        """Return once no start would serve a Work. Raises KubeError, NotReadyError."""
        async with self._lock:
            is_due = self._is_due(EVERYTHING) and self._is_due(cluster)
            if self.outdated.has(cluster) and not is_due:
                return
            try:
                await self._strike(cluster, name)
            except UnreachableError:
                raise
            except KubeError as error:
                self._failed(cluster, error)
                self._log_errors()
                # The deletion must not wait until the host accepts the Secret again.
                await self.outdated.note(cluster)

    async def _strike(self, cluster: str, name: str) -> None:
        await self._settle()
        book = self._books.get(cluster)
        if book is not None and name not in book.marks:
            return
        if not self._is_listed(cluster):
            raise NotReadyError(f"the Works of cluster({cluster}) are not listed")
        if book is not None:
            book.touched.add(name)
        await self._write_clusters(cluster)
        self._failures.pop(cluster, None)

    async def run(self) -> None:
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
        if not self._failures:
            self._once.ended()
            return
        what, (error, _, _) = next(iter(self._failures.items()))
        text = "Cannot write the checkpoint"
        if isinstance(error, ForbiddenError) and error.need is not None:  # no quota or policy
            text = "Keeping no checkpoint yet: run karmada-vc-agent join"
        self._once.warning(text, about=what, reason=str(error))

    async def _settle(self) -> None:
        """Forget the content of the Secrets where they may have changed. Raises KubeError."""
        await self.secrets.settle()
        seen = (self.secrets.surprises, self.hub())
        if self._is_hub_restored or self._seen != seen:
            self._is_hub_restored, self._seen = False, seen
            self._books.clear()
            self._has_rules = False

    async def _write_all(self) -> None:
        """Write what differs; note what could not be written. Raises UnreachableError."""
        if not self.clusters.store.is_synced or not self._is_due(EVERYTHING):
            return
        await self._try(EVERYTHING, self._settle)
        if EVERYTHING in self._failures:
            return
        for _, names in groupby(sorted(self.served, key=_home), _home):
            await self._write_together(tuple(names))
        others = self._others()
        for name in others:
            await self._try(name, partial(self._remove, name))
        keeps_any = any(book.uid for book in self._books.values())
        for what in self._failures.keys() - {*self.served, *others}:
            if not keeps_any or what not in (entries.RULES_KEY, entries.CONTACT_KEY):
                del self._failures[what]
        if keeps_any:
            await self._try(entries.RULES_KEY, self._write_rules)
            await self._try(entries.CONTACT_KEY, self._note_contact)
        await self._trust_again()

    def _is_due(self, what: str) -> bool:
        failure = self._failures.get(what)
        return failure is None or asyncio.get_running_loop().time() >= failure.due_at

    def _failed(self, what: str, error: KubeError) -> bool:
        """Note an error; return whether it is not the first in a row."""
        before = self._failures.get(what)
        pause_s = min(LONGEST_S, 2 * before.pause_s or FIRST_S) if before is not None else 0.0
        due_at = asyncio.get_running_loop().time() + pause_s
        self._failures[what] = _Failure(error, pause_s, due_at)
        return before is not None

    async def _try(self, what: str, write: Callable[[], Awaitable[None]]) -> None:
        """Write something if it is due; note errors. Raises UnreachableError."""
        if not self._is_due(what):
            return
        try:
            async with self._lock:  # of few at a time: a deletion waits for no others
                await write()
            self._failures.pop(what, None)
        except UnreachableError:
            raise
        except KubeError as error:
            if self._failed(what, error) and what not in (entries.RULES_KEY, entries.CONTACT_KEY):
                with suppress(KubeError):  # it is noted before anything is deleted, at the latest
                    await self.outdated.note(what)

    async def _trust_again(self) -> None:
        """Allow to serve what was written, and note the others by name."""
        if entries.RULES_KEY in self._failures or EVERYTHING not in self.outdated.names():
            return  # all virtual clusters need the rules
        ours = {n for n in self.served if self.clusters.ours(n) is not None}
        kept = {n for n in ours if self.has(n)}
        if ours and not kept:
            return
        with suppress(ApiError):
            for name in sorted((ours - kept) | {*self._others()}):
                await self.outdated.note(name)
            await self.outdated.clear(EVERYTHING)

    async def _write_rules(self) -> None:
        if self._has_rules or not all(store.is_synced for store in self.rules):
            return
        contents = [entries.encoded(obj) for store in self.rules for obj in store]
        entry = entries.encode(self._header(entries.RULES), sorted(filter(None, contents)))
        self._has_rules = True  # they may change while they are written
        try:
            fits = len(entry) <= entries.LARGEST_RULES
            await self.secrets.write_bounded(0, {entries.RULES_KEY: entry if fits else None})
        except BaseException:
            self._has_rules = False
            raise

    async def _note_contact(self) -> None:
        """Note now and then that the hub is still in this state, but for some Clusters."""
        last, (_, hub) = self.contact, self._seen
        waited_s = self.clock() - last.at
        is_due = waited_s >= self.contact_s or hub != last.hub  # a note of another one is ignored
        may_be_more = last.not_heard and waited_s >= CONTACT_AGAIN_S
        if not (is_due or may_be_more) or not self.is_in_contact(""):
            return
        ours = [name for name in self.served if self.clusters.ours(name) is not None]
        current = {n for n in ours if self._is_listed(n) and self.is_in_contact(n)}
        but = frozenset(n for n in ours if n in self._failures or n not in current)
        if len(but) == len(ours) or not (is_due or len(but) < len(last.not_heard)):
            return
        names = [orjson.dumps({"metadata": {"name": name}}) for name in sorted(but)]
        entry = entries.encode(self._header(entries.CONTACT), names)
        await self.secrets.write(0, {entries.CONTACT_KEY: entry})
        self.contact = _Contact(self.clock(), hub, but)
        self.secrets.doubt_all()  # another writer may have changed or deleted one
        for name in self.secrets.too_large:  # there may be space for it now
            self._books.pop(name, None)

    def _is_listed(self, cluster: str) -> bool:
        """Return whether the hub has listed all of a virtual cluster since this process began."""
        store = self.works.store(cluster)
        return self.clusters.store.is_synced and store is not None and store.is_synced

    async def _write_together(self, names: Sequence[str]) -> None:
        """Write virtual clusters of one Secret; those with few Works by one request.

        Each alone if that fails, so that one keeps no other from it. Raises UnreachableError.
        """
        names = [name for name in names if not self._is_written(name)]
        well = (n for n in names if self._is_listed(n) and n not in self._failures)
        together = [*filter(self._has_one_part, well)]
        if len(together) > 1:
            await self._try(_TOGETHER, partial(self._write_clusters, *together))
        if len(together) == 1 or self._failures.pop(_TOGETHER, None) is not None:
            together = []
        for name in names:
            if name not in together and self._is_listed(name):
                await self._try(name, partial(self._write_clusters, name))

    def _is_written(self, name: str) -> bool:
        """Return whether nothing of a virtual cluster has changed since it was compared."""
        book, cluster = self._books.get(name), self.clusters.ours(name)
        if book is None or cluster is None or book.cluster is not cluster or book.touched:
            return False
        return name not in self._failures and not self.outdated.has(name)

    def _has_one_part(self, name: str) -> bool:
        book = self._books.get(name)
        parts = book.parts if book is not None else entries.parts_for(len(self.works.of(name)))
        return parts == 1

    async def _write_clusters(self, *names: str) -> None:
        """Write virtual clusters of one Secret, all that is in it at last. Raises KubeError."""
        changes: dict[str, bytes | None] = {}
        changed: list[str] = []
        try:
            for name in names:
                cluster = self.clusters.ours(name)
                head = entries.mark(cluster) if cluster is not None else 0
                if cluster is None or name not in self.served or not head:
                    await self._remove(name)
                    continue
                book = self._books.get(name)
                if book is not None and book.uid != uid_of(cluster):
                    book = None
                if book is None or book.touched or book.head != head:
                    least, at_present = (book.least, book.parts) if book is not None else (1, 1)
                    parts = max(least, entries.parts_for(len(self.works.of(name)), at_present))
                    new = _Book(uid_of(cluster), cluster, parts, least, head)
                    self._books[name] = new
                    changed.append(name)
                    changes |= await self._write_parts(cluster, book, new)
                else:
                    book.cluster = cluster
            if changes:
                await self.secrets.write_bounded(_home(names[0]), changes)
            for name in changed:
                await self._remove_other_parts(name)
        except BaseException:  # the content of the Secrets is unknown then
            for name in changed:
                self._books.pop(name, None)
            raise
        for name in names:
            await self.outdated.clear(name)

    async def _write_parts(
        self, cluster: Object, before: _Book | None, new: _Book
    ) -> dict[str, bytes | None]:
        """Write the parts with touched Works, or all, but in the Secret of the Cluster.

        Return what is to be written there then: the Cluster has the number of its parts.
        """
        name, numbers = cluster["metadata"]["name"], set(range(new.parts))
        if before is not None and before.parts == new.parts:
            numbers = {entries.part_of(work, new.parts) for work in before.touched}
            marks = before.marks.items()
            new.marks = {w: m for w, m in marks if entries.part_of(w, new.parts) not in numbers}
        by_part: dict[int, list[Object]] = {number: [] for number in numbers}
        for work in self.works.of(name):
            if (number := entries.part_of(work["metadata"]["name"], new.parts)) in numbers:
                by_part[number].append(work)
        changes: _Places = defaultdict(dict)
        for part, works in sorted(by_part.items()):
            header = self._header(entries.WORKS, cluster, part=part, parts=new.parts)
            entry = await self.in_thread(_entry, header, works, new.marks)
            is_large = len(works) > 1 and len(entry or b"") > entries.LARGEST_PART
            if is_large and new.parts < entries.MOST_PARTS:
                new.parts = new.least = 2 * new.parts
                new.marks = {}
                return await self._write_parts(cluster, None, new)
            changes[entries.place_of(name, part)][entries.works_key(name, new.parts, part)] = entry
        at_last = changes.pop(_home(name), {})
        for number, changed in changes.items():
            await self.secrets.write_bounded(number, changed)
        content = entries.encoded(cluster)
        header = self._header(entries.CLUSTER, cluster, parts=new.parts)
        head = entries.encode(header, [content]) if content is not None else None
        return {**at_last, entries.head_key(name): head}

    async def _remove_other_parts(self, name: str) -> None:
        prefix, current = f"works.{name}.", entries.works_prefix(name, self._books[name].parts)
        self.secrets.forget_left_out(name, current)
        await self.secrets.remove_where(
            lambda key: key.startswith(prefix) and not key.startswith(current)
        )

    def _header(
        self, kind: str, cluster: Object | None = None, part: int = 0, parts: int = 0
    ) -> Header:
        header = Header(format=entries.FORMAT, kind=kind, hub=self.hub(), saved=self.now())
        if cluster is None:
            return header
        name, uid = cluster["metadata"]["name"], uid_of(cluster)
        of_cluster = {"cluster": name, "uid": uid, "template": self.template}
        return msgspec.structs.replace(header, **of_cluster, part=part, parts=parts)

    async def _remove(self, name: str) -> None:
        await self.secrets.write(_home(name), {})  # reads it, where that failed before
        await self.secrets.remove(name)
        self._books[name] = _Book("")
        await self.outdated.clear(name)

    def _others(self) -> list[str]:
        """Return those with entries or a note to remove: that are not ours, or not served."""
        for name in [name for name in self._books if name not in self.served]:
            del self._books[name]
        saved = {entries.cluster_of_key(key) for _, key in self.secrets} | self.outdated.names()
        names = saved - {"", EVERYTHING}
        return [n for n in names if n not in self.served or self.clusters.ours(n) is None]
