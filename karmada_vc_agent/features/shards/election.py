"""The election of the processes of one shard, and the change to another count of shards.

Each shard of a count has a Lease of its own. Which count serves is the term, on the Lease that is
named as the agent: a process that holds the Lease of its shard leads only while the term is its
count. Until then it waits, with a mark on its Lease, so that all see which shards stand ready.

A process of a new count changes the term once all its shards stand ready, or no process of the
count of the term is left, so that none is without a leader for longer than a hand-over. Then it
marks the Leases of the count before, whose leaders end by that, and leads once none is left. Never
do two counts lead: a process that is to lead writes its Lease without the mark first and reads the
term then; one that changes the term does that first and reads the Leases then.

The count before does not change the term back while a process of the new one is there: its
processes, which restart, would. It may again once none of them was there for ABSENT_S.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import NamedTuple

from karmada_vc_agent.features.shards.division import MOST, ShardClusters, lease_name
from karmada_vc_agent.kube import errors
from karmada_vc_agent.kube.leader_election import (
    LeaderElection,
    LeadLostError,
    new_lease,
    transitions_of,
)
from karmada_vc_agent.model.objects import Object, annotations_of, dig, uid_of
from karmada_vc_agent.model.vocabulary import CHECKPOINT_ANNOTATION, DOMAIN

_log = logging.getLogger(__name__)

COUNT, BEFORE = f"{DOMAIN}/shards", f"{DOMAIN}/shards-before"
"""The term, on the Lease of the agent: the count that serves, and the one that did before."""
WAITS = f"{DOMAIN}/shard-waits"
"""On the Lease of a shard: the holder, as long as it does not lead."""
YIELDS = f"{DOMAIN}/shard-yields"
"""On the Lease of a shard: the holder that is to end, as the term is another."""


@dataclass(frozen=True, slots=True)
class Term:
    """The count of the shards that serve, and the one before whose processes may run; 0 = none."""

    count: int = 1
    before: int = 0


def term_of(lease: Object | None) -> Term:
    """Return the term in the Lease of the agent. Raises UnreadableError."""
    marks, numbers = annotations_of(lease or {}), [str(number) for number in range(MOST + 1)]
    count, before = marks.get(COUNT, "1"), marks.get(BEFORE, "0")
    if count not in numbers[1:] or before not in numbers:
        raise errors.UnreadableError(f"annotations {COUNT} and {BEFORE} are not from 1 to {MOST}")
    return Term(int(count), int(before))


ABSENT_S = 300.0
"""A process that ended by a change of the count starts again before that."""


class Seen(NamedTuple):
    """The Lease of a shard. is_held: by a process that renews it, as far as was observed."""

    name: str
    lease: Object
    holder: str
    is_held: bool
    was_renewed: bool

    @property
    def waits(self) -> bool:
        return annotations_of(self.lease).get(WAITS) == self.holder


@dataclass(eq=False, repr=False)
class ShardElection(LeaderElection):
    """Holds the Lease of one shard; it leads while the term is its count. shards: what it serves.

    name: of the agent, and of the Lease that has the term.
    """

    shards: ShardClusters = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._agent, self._count = self.name, self.shards.count
        self.leases = [lease_name(self._agent, index, self._count) for index in range(self._count)]
        self._term = Term()
        self._is_serving = self._waits = False
        self._held_at: float | None = None  # when it was renewed before this process leads
        self._number = 0  # of the lead
        self._absent_since: float | None = None
        self._yielded = asyncio.Event()
        self._observed: dict[str, tuple[str, float, bool]] = {}
        """Lease -> its time, since when it has that, and whether that is another than at first."""
        self._seen_of: dict[str, tuple[str, float] | None] = {}
        self._use(self.shards.index or 0)

    async def acquire(self) -> None:
        """Stand by until this process leads; renew what it holds meanwhile."""
        await super().acquire()
        self._yielded, self._is_serving = asyncio.Event(), True
        self._renewed_at, self._held_at = self._held_at, None
        self.shards.take(self.index)

    async def wait_handed_over(self) -> str:
        handed = asyncio.ensure_future(super().wait_handed_over())
        yielded = asyncio.ensure_future(self._yielded.wait())
        try:
            await asyncio.wait((handed, yielded), return_when=asyncio.FIRST_COMPLETED)
            return handed.result() if handed.done() else "another count of shards serves from now"
        finally:
            handed.cancel()
            yielded.cancel()

    async def end_change(self) -> bool:
        """Forget the count before once none is left; return whether that is all: of one process."""
        if self._count > 1 and self.is_leading():
            await self._follow_term()
        term = await self._read_term()
        if term.before == 0 or term.count != self._count or self.index:
            return self._count == 1
        if any(each.is_held for each in await self._look(term.before)):
            self._absent_since = None
        elif self._absent_since is None:
            self._absent_since = self.clock()
        if self._absent_since is None or self.clock() - self._absent_since < ABSENT_S:
            return False
        await self._write_term(term, Term(term.count))
        return self._count == 1

    async def _follow_term(self) -> None:
        """End once others serve, as where the Lease of the agent was deleted, or its version."""
        (agent,) = await self._look(1)
        if not agent.lease:
            await self._write_term(Term(), Term(self._count))
        elif term_of(agent.lease).count != self._count or (agent.was_renewed and not agent.waits):
            self._yielded.set()

    async def _wait_reason(self) -> str:
        """Take or renew a Lease, and change the term if it is to be; return what is waited for."""
        if self._held_at is None:
            self._waits = self._count > 1 and (await self._read_term()).count != self._count
            if holder := await self._take():
                return holder
        elif (holder := await self._hold()) != self.identity:
            raise self._lost(f"{holder} holds it now")
        term = await self._read_term()
        if term.count != self._count:
            self._waits = True
            await self._change(term)
            return f"the agent has {term.count} shards, and this process is of {self._count}"
        if self._waits:
            self._waits = False
            return await self._wait_reason()  # the mark is to be gone before the term is read
        for count in {term.before, 1} - {0, self._count}:  # versions before shards read no term
            if not await self._has_ended(count):
                return f"processes of {count} shards are ending"
        return ""

    @property
    def _last_at(self) -> float | None:
        return self._held_at if self._renewed_at is None else self._renewed_at

    async def release(self) -> None:
        """Release the Lease, also one that was held without leading."""
        self._renewed_at, self._held_at = self._last_at, None
        await super().release()

    async def _hold(self) -> str:
        """Take or renew the Lease without leading by that; return its holder."""
        holder = await self._try()
        if holder == self.identity:
            self._held_at, self._renewed_at = self._renewed_at, None
        return holder

    async def _take(self) -> str:
        """Take the Lease of a shard; return "", or who holds the last that was tried."""
        holder, own = "another process", self.shards.index
        for index in range(self._count) if own is None else (own,):
            self._use(index)
            try:
                holder = await self._hold()
            except errors.ConflictError:
                if index == own:
                    raise
            if holder == self.identity:
                return ""
        return holder

    def _use(self, index: int) -> None:
        self._seen_of[self.name] = self._seen
        self.index, self.name = index, lease_name(self._agent, index, self._count)
        self._path, self._seen = self._path_of(self.name), self._seen_of.get(self.name)
        self._written = ({}, 0)

    def _path_of(self, name: str) -> str:
        return f"{self._collection}/{name}"

    async def _change(self, term: Term) -> None:
        """Change the term to the own count if all its shards stand ready, or no other is there."""
        if term.before and not await self._has_ended(term.before):
            return
        is_alone = not any(each.is_held for each in await self._look(term.count))
        is_complete = term.before != self._count and all(
            each.was_renewed or each.holder == self.identity
            for each in await self._look(self._count)
        )
        if is_alone or is_complete:
            _log.info("Changing the shards", extra={"before": term.count, "now": self._count})
            await self._write_term(term, Term(self._count, term.count))

    async def _has_ended(self, count: int) -> bool:
        """Return whether no process of another term leads; have those that do end."""
        leading = [each for each in await self._look(count) if each.holder and not each.waits]
        for each in leading:
            marks, metadata = annotations_of(each.lease), {"uid": uid_of(each.lease)}
            metadata["resourceVersion"] = each.lease["metadata"]["resourceVersion"]
            patch: Object = {"metadata": {**metadata, "annotations": {YIELDS: each.holder}}}
            if not each.is_held:
                # Taken away, as by its successor: it must not lead again if it was suspended.
                patch["metadata"]["annotations"] = {WAITS: self.identity}
                number = transitions_of(each.lease) + 1
                patch["spec"] = {"holderIdentity": self.identity, "leaseTransitions": number}
            elif marks.get(YIELDS) == each.holder:
                continue
            await self._await(self.client.merge_patch(self._path_of(each.name), patch))
        if count == 1 and not leading:
            await self._end_lineage()
        return not leading

    async def _end_lineage(self) -> None:
        """Have a later lead of all virtual clusters not use the checkpoint of an earlier one."""
        lease = await self._find(self._agent)
        if CHECKPOINT_ANNOTATION in annotations_of(lease or {}):
            patch = {"metadata": {"annotations": {CHECKPOINT_ANNOTATION: None}}}
            await self._await(self.client.merge_patch(self._path_of(self._agent), patch))

    async def _look(self, count: int) -> list[Seen]:
        """Return the Leases of a count as they are now, {} where there is none."""
        names = [lease_name(self._agent, index, count) for index in range(count)]
        return [self._seen_as(name, await self._find(name) or {}) for name in names]

    def _seen_as(self, name: str, lease: Object) -> Seen:
        holder, before = str(dig(lease, "spec", "holderIdentity") or ""), self._observed.get(name)
        mark = f"{holder} {dig(lease, 'spec', 'renewTime')}"
        if before is None or before[0] != mark:
            self._observed[name] = (mark, self.clock(), before is not None)
        _, since, was_renewed = self._observed[name]
        is_held = bool(holder) and self.clock() - since < self._duration_s(lease)
        return Seen(name, lease, holder, is_held, is_held and was_renewed)

    async def _read_term(self) -> Term:
        """Return the term; of a shard alone as it was when it renewed its Lease, which has it."""
        if self._count == 1 and self._last_at is not None:
            return self._term
        return term_of(await self._find(self._agent))

    async def _find(self, name: str) -> Object | None:
        return await self._await(self.client.find(self._path_of(name)))

    async def _write_term(self, before: Term, term: Term) -> None:
        """Change the term unless another process did. Raises ConflictError, KubeError."""
        lease = await self._find(self._agent)
        marks = {COUNT: str(term.count), BEFORE: str(term.before)}
        if lease is None:
            made = new_lease(self.namespace, self._agent)
            made["metadata"]["annotations"] = marks
            await self._await(self.client.create(self._collection, made))
            return
        if term_of(lease) != before:
            return
        version = {"resourceVersion": lease["metadata"]["resourceVersion"], "uid": uid_of(lease)}
        patch = {"metadata": {**version, "annotations": marks}}
        await self._await(self.client.merge_patch(self._path_of(self._agent), patch))

    async def _create(self, started: float) -> str:
        if self._count > 1 and self._last_at is not None:
            raise self._lost("it was deleted")
        self._number = 0
        return await super()._create(started)

    def _lost(self, reason: str) -> LeadLostError:
        """Stop to lead at once; return the error to raise."""
        self._held_at = self._renewed_at = self._failed_at = None
        return LeadLostError(f"lost lease {self.namespace}/{self.name}: {reason}")

    def _marked(self, lease: Object) -> Object:
        """Return a Lease with the marks of a shard. Raises LeadLostError where it must not lead."""
        is_certain = self._is_within(self._last_at, self.renew_deadline_s)
        number = int(lease["spec"]["leaseTransitions"])
        if self._last_at is not None and number != self._number and not is_certain:
            raise self._lost("another process held it meanwhile")
        self._number = number
        if self._count == 1:
            self._term = term_of(lease)
            self._waits = not self._is_serving and self._term.count != 1
            # Meanwhile others lead, who keep no checkpoint.
            self.continues_lineage = self.continues_lineage and not self._waits
        marked = super()._marked(lease)
        before = annotations_of(marked)
        marks = {key: text for key, text in before.items() if key != WAITS}
        if self._waits:
            marks.pop(YIELDS, None)
            marks[WAITS] = self.identity
        elif marks.get(YIELDS) == self.identity:
            if not is_certain:
                raise self._lost("another count of shards serves by now")
            self._yielded.set()
        if marks == before:
            return marked
        return {**marked, "metadata": {**marked["metadata"], "annotations": marks}}
