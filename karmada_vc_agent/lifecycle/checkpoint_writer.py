"""Keeps the checkpoint equal to what the hub says; the leader's only.

What changed is written at once after a pause, then at most every 5 s, entry by entry. A Work whose
objects are to be deleted is struck out before: `strike` returns once no Secret has it any more. A
write whose end is not known counts for nothing: all of that virtual cluster is written again.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from karmada_vc_agent.checkpoint.kept import mark
from karmada_vc_agent.checkpoint.shards import (
    CONTACT_KEY,
    LARGEST_RULES,
    RULES_KEY,
    cluster_of_key,
    head_key,
    left_out,
    part_of,
    parts_for,
    place_of,
)
from karmada_vc_agent.kube.controller import NotReadyError
from karmada_vc_agent.kube.errors import ForbiddenError, KubeError, UnreachableError
from karmada_vc_agent.kube.log_once import LogOnce
from karmada_vc_agent.lifecycle.checkpoint_entries import EntryMaker, Knowledge, Part
from karmada_vc_agent.lifecycle.checkpoint_secrets import CheckpointSecrets
from karmada_vc_agent.model.objects import Object, uid_of

_log = logging.getLogger(__name__)

PAUSE_S = 5.0
CONTACT_S = 60.0
"""How often it is noted that the hub still says the same."""

_Places = defaultdict[int, dict[str, bytes | None]]


@dataclass(slots=True)
class _Book:
    """What the Secrets have of one virtual cluster.

    marks: of each Work that they have. touched: Works that may differ since. head: the mark of the
    Cluster.
    """

    uid: str
    parts: int = 1
    head: int = 0
    marks: dict[str, int] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)


class CheckpointWriter:
    """Writes the checkpoint. too_large: virtual cluster -> keys that found no room."""

    def __init__(
        self,
        secrets: CheckpointSecrets,
        knowledge: Knowledge,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._secrets = secrets
        self._k = knowledge
        self._make = EntryMaker(knowledge)
        self._clock = clock
        self._books: dict[str, _Book] = {}
        self._lock = asyncio.Lock()
        self._wake = asyncio.Event()
        self._once = LogOnce(_log)
        self._surprises = secrets.surprises
        self._contact_at: float | None = None
        self._has_rules = False
        self.too_large: dict[str, frozenset[str]] = {}
        self.problem = ""

    # --- what others tell ---------------------------------------------------------------

    def work_changed(self, cluster: str, old: Object | None, new: Object | None) -> None:
        """Take note of a Work that came, changed or went."""
        name = (new or old or {})["metadata"]["name"]
        book = self._books.get(cluster)
        now = mark(new) if new is not None else 0
        if book is not None and (self._lock.locked() or book.marks.get(name, 0) != now):
            book.touched.add(name)
            self._wake.set()

    def clusters_changed(self) -> None:
        """Take note that Clusters may differ, or which of them are served."""
        self._wake.set()

    def rules_changed(self) -> None:
        """Take note that customizations or webhook configurations differ."""
        self._has_rules = False
        self._wake.set()

    def has(self, cluster: str) -> bool:
        """Whether all there is of a virtual cluster was written, by this process."""
        book = self._books.get(cluster)
        return book is not None and bool(book.uid)

    # --- before something is deleted ----------------------------------------------------

    async def strike(self, cluster: str, name: str) -> None:
        """Return once a Work is not in the checkpoint. Raises KubeError, NotReadyError."""
        async with self._lock:
            await self._settle()
            book = self._books.get(cluster)
            if book is not None and name not in book.marks:
                return
            if not self._k.is_whole(cluster):
                raise NotReadyError(f"the Works of cluster({cluster}) are not known")
            if book is not None:
                book.touched.add(name)
            try:
                await self._write_cluster(cluster)
            except ForbiddenError as error:
                # Who may not write them may not read them either: nobody serves from them.
                self._complain(error)

    # --- writing ------------------------------------------------------------------------

    async def run(self) -> None:
        """Write what changes until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_S):
                    await self._wake.wait()
            pause_s = PAUSE_S if self._wake.is_set() else 0.0
            self._wake.clear()
            try:
                async with self._lock:
                    await self._write_all()
                self._once.ended()
                self.problem = ""
            except KubeError as error:
                self._complain(error)
            await asyncio.sleep(pause_s)

    def _complain(self, error: KubeError) -> None:
        """Say why nothing is written; the client logs outages, and a lead in doubt passes."""
        if isinstance(error, UnreachableError):
            return
        self.problem = str(error)
        self._once.warning("Cannot write the checkpoint", reason=str(error))

    async def _settle(self) -> None:
        """Forget what the Secrets had where they may be otherwise by now. Raises KubeError."""
        await self._secrets.settle()
        if self._surprises != self._secrets.surprises:
            self._surprises = self._secrets.surprises
            self._books.clear()
            self._has_rules = False

    async def _write_all(self) -> None:
        if not self._k.clusters.store.is_synced:
            return
        await self._settle()
        for name in tuple(self._k.served):
            if self._k.is_whole(name):
                await self._write_cluster(name)
        await self._drop_others()
        if not self._has_rules and all(store.is_synced for store in self._k.rules):
            entry, self._has_rules = self._make.rules(), True
            try:
                fits = len(entry) <= LARGEST_RULES
                await self._put(_at(0, RULES_KEY, entry if fits else None))
            except BaseException:
                self._has_rules = False
                raise
        await self._note_contact()

    async def _note_contact(self) -> None:
        now = self._clock()
        is_due = self._contact_at is None or now - self._contact_at >= CONTACT_S
        ours = (name for name in self._k.served if self._k.clusters.ours(name) is not None)
        if is_due and self._k.is_in_contact() and all(map(self._k.is_whole, ours)):
            await self._secrets.write(0, {CONTACT_KEY: self._make.contact()})
            self._contact_at = now

    async def _write_cluster(self, name: str) -> None:
        """Write what differs of one virtual cluster. Raises KubeError."""
        cluster = self._k.clusters.ours(name)
        if cluster is None or name not in self._k.served or not mark(cluster):
            await self._remove(name)
            return
        book = self._books.get(name)
        if book is not None and book.uid == uid_of(cluster):
            if not book.touched and book.head == mark(cluster):
                return
        else:
            book = None
        # Whatever fails, it is not known what the Secrets have.
        self._books.pop(name, None)
        now = _Book(uid_of(cluster), head=mark(cluster))
        now.parts = parts_for(len(self._k.works.of(name)), book.parts if book is not None else 1)
        self._books[name] = now
        try:
            await self._write_parts(cluster, book, now)
        except BaseException:
            self._books.pop(name, None)
            raise

    async def _write_parts(self, cluster: Object, before: _Book | None, now: _Book) -> None:
        name = cluster["metadata"]["name"]
        wanted = set(range(now.parts))
        if before is not None and before.parts == now.parts:
            wanted = {part_of(work, now.parts) for work in before.touched}
            now.marks = before.marks
        parts = await self._make.parts(cluster, wanted, now.parts)
        places = _places(name, parts)
        await self._put(places, name)
        await self._put(_at(place_of(name, 0), head_key(name), self._make.head(cluster, now.parts)))
        await self._put(self._outdated(name, now.parts))
        now.marks = {
            work: each for work, each in now.marks.items() if part_of(work, now.parts) not in wanted
        }
        for part in parts:
            now.marks |= part.marks

    async def _put(self, places: _Places, name: str = "") -> None:
        """Write entries; those that find no room are left out. Raises KubeError."""
        too_large: set[str] = set()
        for number, changes in places.items():
            sizes = self._secrets.sizes(number)
            sizes |= {key: len(new) for key, new in changes.items() if new is not None}
            gone = left_out(
                {k: size for k, size in sizes.items() if changes.get(k, b"") is not None}
            )
            too_large |= gone
            await self._secrets.write(number, {**changes, **dict.fromkeys(gone)})
        for cluster in {cluster_of_key(key) for key in too_large} | ({name} - {""}):
            keys = frozenset(key for key in too_large if cluster_of_key(key) == cluster)
            if keys:
                self.too_large[cluster] = keys
            else:
                self.too_large.pop(cluster, None)

    def _outdated(self, name: str, parts: int) -> _Places:
        """Return what takes away the entries of another number of parts."""
        prefix = f"works.{name}."
        found: _Places = defaultdict(dict)
        for number, key in self._secrets:
            if key.startswith(prefix) and not key.startswith(f"{prefix}{parts}."):
                found[number][key] = None
        return found

    async def _remove(self, name: str) -> None:
        """Take all away that is of one virtual cluster. Raises KubeError."""
        found: _Places = defaultdict(dict)
        for number, key in self._secrets:
            if cluster_of_key(key) == name:
                found[number][key] = None
        home = place_of(name, 0)
        # The Cluster first: without it nothing of the rest is used.
        for number in sorted(found, key=lambda each: each != home):
            await self._secrets.write(number, found[number])
        self.too_large.pop(name, None)
        self._books[name] = _Book("")

    async def _drop_others(self) -> None:
        """Take away what is of Clusters that are not ours, or not served."""
        for name in {cluster_of_key(key) for _, key in self._secrets} - {""}:
            if name not in self._k.served or self._k.clusters.ours(name) is None:
                await self._remove(name)
        for name in [name for name in self._books if name not in self._k.served]:
            del self._books[name]


def _places(name: str, parts: Iterable[Part]) -> _Places:
    found: _Places = defaultdict(dict)
    for part in parts:
        number = place_of(name, int(part.key.rpartition(".")[2]))
        found[number][part.key] = part.entry
    return found


def _at(number: int, key: str, entry: bytes | None) -> _Places:
    return defaultdict(dict, {number: {key: entry}})
