"""Keeps the checkpoint equal to what the hub says; the leader's only.

What changed is written at once after a pause, then at most every 5 s, entry by entry. A Work whose
objects are to be deleted is struck out before: `strike` returns once no Secret has it any more. A
write whose end is not known counts for nothing: all of that virtual cluster is written again. What
cannot be written of one virtual cluster keeps none of the others from it; it is noted, so that the
next start does not serve what was saved of it before, and tried again less and less often.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from karmada_vc_agent.features.checkpoint.entry_source import EntryMaker, Knowledge, Part
from karmada_vc_agent.features.checkpoint.failures import Failures
from karmada_vc_agent.features.checkpoint.kept import mark
from karmada_vc_agent.features.checkpoint.outdated import EVERYTHING, Outdated
from karmada_vc_agent.features.checkpoint.room import CheckpointRoom
from karmada_vc_agent.features.checkpoint.secrets import CheckpointSecrets
from karmada_vc_agent.features.checkpoint.shards import (
    CONTACT_KEY,
    LARGEST_RULES,
    RULES_KEY,
    cluster_of_key,
    head_key,
    part_of,
    parts_for,
    parts_for_sizes,
    place_of,
    works_prefix,
)
from karmada_vc_agent.kube.controller import NotReadyError
from karmada_vc_agent.kube.errors import ApiError, ForbiddenError, KubeError, UnreachableError
from karmada_vc_agent.kube.flows import SharedLock
from karmada_vc_agent.kube.log_once import LogOnce
from karmada_vc_agent.model.objects import Object, uid_of

_log = logging.getLogger(__name__)

PAUSE_S = 5.0
CONTACT_S = 600.0
"""How often it is noted that the hub still says the same: each time the host stores a Secret of up
to 500 kB, mostly on a flash card."""

_Places = defaultdict[int, dict[str, bytes | None]]
_Errors = Mapping[str, KubeError]
"""Virtual cluster, or key of what is of none, -> why it cannot be written; or EVERYTHING."""


@dataclass(slots=True)
class _Book:
    """What the Secrets have of one virtual cluster.

    marks: of each Work that they have. touched: Works that may differ since. again: parts to write
    whatever differs. head: the mark of the Cluster. least: into how many parts its Works are split
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
        knowledge: Knowledge,
        outdated: Outdated,
        clock: Callable[[], float] = time.monotonic,
        *,
        contact_s: float = CONTACT_S,
    ) -> None:
        self._secrets = secrets
        self._room = CheckpointRoom(secrets)
        self._k = knowledge
        self._make = EntryMaker(knowledge)
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
        self._went_back = False
        self._failures = Failures()

    @property
    def too_large(self) -> Mapping[str, frozenset[str]]:
        """Return virtual cluster -> keys that found no room."""
        return self._room.too_large

    def problem_of(self, cluster: str) -> KubeError | None:
        """Return why a virtual cluster cannot be written, None if it can."""
        errors = self._failures.errors
        return errors.get(EVERYTHING) or errors.get(cluster)

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

    def host_went_back(self) -> None:
        """Have the Secrets read again: they may be as they were before."""
        self._secrets.doubt_all()
        self._wake.set()

    def hub_went_back(self) -> None:
        """Have all saved anew: marks of now may be those of other content before."""
        self._went_back = True
        self._wake.set()

    def has(self, cluster: str) -> bool:
        """Whether all there is of a virtual cluster was written, by this process."""
        book = self._books.get(cluster)
        return book is not None and bool(book.uid)

    # --- before something is deleted ----------------------------------------------------

    async def strike(self, cluster: str, name: str) -> None:
        """Return once a Work is not in the checkpoint, or that is not served from any more.

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
                self._complain()
                # Nobody is to wait for the deletion until the host takes the Secret again.
                await self._outdated.note(cluster)

    async def _strike(self, cluster: str, name: str) -> None:
        await self._settle()
        book = self._books.get(cluster)
        if book is not None and name not in book.marks:
            return
        if not self._k.is_whole(cluster):
            raise NotReadyError(f"the Works of cluster({cluster}) are not known")
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
            # The client logs outages, and a lead in doubt passes.
            with suppress(UnreachableError):
                await self._write_all()
            self._complain()
            await asyncio.sleep(pause_s)

    def _complain(self) -> None:
        """Say why something is not written."""
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
        """Forget what the Secrets had where they may be otherwise by now. Raises KubeError."""
        await self._secrets.settle()
        if self._went_back or self._surprises != self._secrets.surprises:
            self._went_back = False
            self._surprises = self._secrets.surprises
            self._books.clear()
            self._has_rules = False

    async def _write_all(self) -> _Errors:
        """Write what differs; return what could not be written. Raises UnreachableError."""
        if not self._k.clusters.store.is_synced or not self._failures.is_due(EVERYTHING):
            return self._failures.errors
        await self._try(EVERYTHING, self._settle)
        if EVERYTHING in self._failures.errors:
            return self._failures.errors
        for name in tuple(self._k.served):
            if self._k.is_whole(name):
                await self._try(name, partial(self._write_cluster, name))
        others = self._others()
        for name in others:
            await self._try(name, partial(self._remove, name))
        keeps_any = any(book.uid for book in self._books.values())
        common = (RULES_KEY, CONTACT_KEY) if keeps_any else ()
        self._failures.forget_all_but({*self._k.served, *others, *common})
        if keeps_any:
            await self._try(RULES_KEY, self._write_rules)
            await self._try(CONTACT_KEY, self._note_contact)
        await self._trust_again()
        return self._failures.errors

    async def _try(self, what: str, write: Callable[[], Awaitable[None]]) -> None:
        """Write something if its time has come; take note of errors. Raises UnreachableError."""
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
        """Have what was written be served again, and note the others by name."""
        if RULES_KEY in self._failures.errors or EVERYTHING not in self._outdated.names():
            return  # the rules are everybody's
        ours = {n for n in self._k.served if self._k.clusters.ours(n) is not None}
        kept = {n for n in ours if self.has(n)}
        if ours and not kept:
            return
        with suppress(ApiError):
            for name in sorted((ours - kept) | {*self._others()}):
                await self._outdated.note(name)
            await self._outdated.clear(EVERYTHING)

    async def _write_rules(self) -> None:
        if self._has_rules or not all(store.is_synced for store in self._k.rules):
            return
        entry, self._has_rules = self._make.rules(), True
        try:
            fits = len(entry) <= LARGEST_RULES
            await self._put(_at(0, RULES_KEY, entry if fits else None))
        except BaseException:
            self._has_rules = False
            raise

    async def _note_contact(self) -> None:
        """Note now and then that the hub still says the same, of whom it does."""
        now = self._clock()
        is_due = self._contact_at is None or now - self._contact_at >= self._contact_s
        if not is_due:
            return
        ours = [name for name in self._k.served if self._k.clusters.ours(name) is not None]
        errors = self._failures.errors
        current = {n for n in ours if self._k.is_whole(n) and self._k.is_in_contact(n)}
        but = [name for name in ours if name in errors or name not in current]
        if len(but) == len(ours):
            return
        await self._secrets.write(0, {CONTACT_KEY: self._make.contact(but)})
        self._contact_at = now
        self._secrets.doubt_all()  # somebody may have changed or deleted one

    async def _write_cluster(self, name: str) -> None:
        """Write what differs of one virtual cluster. Raises KubeError."""
        cluster = self._k.clusters.ours(name)
        if cluster is None or name not in self._k.served or not mark(cluster):
            await self._remove(name)
            return
        book = self._books.get(name)
        if book is not None and book.uid == uid_of(cluster):
            book.again = self._room.parts_that_fit(name)
            if not book.touched and not book.again and book.head == mark(cluster):
                await self._outdated.clear(name)
                return
        else:
            book = None
        # Whatever fails, it is not known what the Secrets have.
        self._books.pop(name, None)
        now = _Book(uid_of(cluster), head=mark(cluster))
        now.least = book.least if book is not None else 1
        at_present = book.parts if book is not None else 1
        now.parts = max(now.least, parts_for(len(self._k.works.of(name)), at_present))
        self._books[name] = now
        try:
            await self._write_parts(cluster, book, now)
        except BaseException:
            self._books.pop(name, None)
            raise
        await self._outdated.clear(name)

    async def _write_parts(self, cluster: Object, before: _Book | None, now: _Book) -> None:
        name = cluster["metadata"]["name"]
        wanted = set(range(now.parts))
        if before is not None and before.parts == now.parts:
            wanted = {part_of(work, now.parts) for work in before.touched} | before.again
            now.marks = before.marks
        parts = await self._make.parts(cluster, wanted, now.parts)
        sizes = [len(part.entry) for part in parts if part.entry and len(part.marks) > 1]
        more = parts_for_sizes(sizes, now.parts)
        if more > now.parts:
            now.parts = now.least = more
            wanted = set(range(more))
            parts = await self._make.parts(cluster, wanted, more)
        places = _places(name, parts)
        await self._put(places)
        await self._put(_at(place_of(name, 0), head_key(name), self._make.head(cluster, now.parts)))
        await self._put(self._of_other_parts(name, now.parts))
        self._room.forget(name, but=works_prefix(name, now.parts))
        now.marks = {
            work: each for work, each in now.marks.items() if part_of(work, now.parts) not in wanted
        }
        for part in parts:
            now.marks |= part.marks

    async def _put(self, places: _Places) -> None:
        """Write entries; those that find no room are left out. Raises KubeError."""
        for number, changes in places.items():
            await self._room.write(number, changes)

    def _of_other_parts(self, name: str, parts: int) -> _Places:
        """Return what takes away the entries of another number of parts."""
        prefix = f"works.{name}."
        found: _Places = defaultdict(dict)
        for number, key in self._secrets:
            if key.startswith(prefix) and not key.startswith(works_prefix(name, parts)):
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
        self._room.forget(name)
        self._books[name] = _Book("")
        await self._outdated.clear(name)

    def _others(self) -> list[str]:
        """Return whose entries are to be taken away: Clusters that are not ours, or not served."""
        for name in [name for name in self._books if name not in self._k.served]:
            del self._books[name]
        saved = {cluster_of_key(key) for _, key in self._secrets} - {""}
        served = self._k.served
        return [n for n in saved if n not in served or self._k.clusters.ours(n) is None]


def _places(name: str, parts: Iterable[Part]) -> _Places:
    found: _Places = defaultdict(dict)
    for part in parts:
        number = place_of(name, int(part.key.rpartition(".")[2]))
        found[number][part.key] = part.entry
    return found


def _at(number: int, key: str, entry: bytes | None) -> _Places:
    return defaultdict(dict, {number: {key: entry}})
