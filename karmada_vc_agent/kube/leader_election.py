"""Leader election by a Lease on an API server.

Unlike in client-go, losing contact to the server does not end the process: no other one can take
the Lease meanwhile. `is_leading` turns False as soon as the Lease could have expired, which fences
all writes, and True again once the Lease is seen to be still ours.

A lineage of leaders: each process that does the same work puts the number of its lead
(`leaseTransitions`) into an annotation; another number there than that of the previous lead means
that a process led meanwhile that did not do that work.

A lead is handed over by two annotations: the leader writes that it lacks something (`lacks`), a
standby that has it writes its identity (`offers`). Then the leader ends and releases the Lease,
which the others leave to that process for as long as they would leave it to a holder.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.kube.errors import ConflictError, KubeError, UnreachableError
from karmada_vc_agent.kube.flows import LogOnce
from karmada_vc_agent.model.objects import Object, annotations_of, dig, uid_of

SKEW_S = 5.0


def renew_time(lease: Object, now: datetime) -> str:
    """Return the time to renew a Lease with: observers count a renewal when it grows."""
    before = _renewed_at(lease)
    at = now if before is None or now >= before else before + timedelta(milliseconds=1)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def new_lease(namespace: str, name: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}


def seconds_ahead(lease: Object, now: datetime) -> float:
    """Return how far a Lease of another process is ahead of our clock; 0 if it is not."""
    before = _renewed_at(lease)
    return max(0.0, (before - now).total_seconds()) if before is not None else 0.0


def _renewed_at(lease: Object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(dig(lease, "spec", "renewTime") or ""))
        # A time at the end of the representable range cannot be increased.
        return at.astimezone(UTC) if at.tzinfo is not None and at.year < 9999 else None
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class HandOver:
    """lacks, offers: the annotations. is_lacking: whether the leader lacks it for long enough.

    may_offer: whether this process, standing by, has it. agreed: set once the leader may end.
    """

    lacks: str
    offers: str
    is_lacking: Callable[[], bool]
    may_offer: Callable[[], bool]
    agreed: asyncio.Event = field(default_factory=asyncio.Event)

    def offer(self, lease: Object, identity: str) -> Object | None:
        """Return the patch by which a standby process offers itself; None for no change."""
        marks = annotations_of(lease)
        is_lacking = marks.get(self.lacks) == dig(lease, "spec", "holderIdentity")
        is_offered = marks.get(self.offers) == identity
        is_desired = is_lacking and self.may_offer()
        if is_offered == is_desired or (is_desired and marks.get(self.offers)):
            return None
        metadata = {"uid": uid_of(lease), "resourceVersion": lease["metadata"]["resourceVersion"]}
        mark = {self.offers: identity if is_desired else None}
        return {"metadata": {**metadata, "annotations": mark}}

    def renewed(self, lease: Object, identity: str) -> dict[str, str]:
        """Return the annotations with which the leader renews; agree to an offer."""
        marks = annotations_of(lease)
        offer = marks.get(self.offers, "")
        left = {key: text for key, text in marks.items() if key not in (self.lacks, self.offers)}
        if not self.is_lacking():
            return left
        if marks.get(self.lacks) == identity and offer not in ("", identity):
            self.agreed.set()
            left[self.offers] = offer
        return {**left, self.lacks: identity}


_log = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")

PATIENCE = 0.4
"""Fraction of the renew deadline for one response: after a hung connection, time is left."""

SLACK_S = 1.0
"""The delay of a busy process between two attempts."""

_MAX_INT32 = 2**31 - 1


class LeadLostError(Exception):
    """Another process holds the Lease now."""


@dataclass(eq=False, repr=False)
class LeaderElection:
    """Holds one Lease, as `identity`; times as in Kubernetes.

    lineage: the annotation of a lineage that this process may belong to, "" = none. hand_over: when
    and how the lead is handed over, None = never. clock: counts while suspended, too.
    """

    client: ApiClient
    namespace: str
    name: str
    identity: str
    clock: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
    _: KW_ONLY
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    lineage: str = ""
    hand_over: HandOver | None = None

    def __post_init__(self) -> None:
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        self._path = f"{self._collection}/{self.name}"
        self.leases = [self.name]
        """Those that processes of the agent lead by; `name` is the one that this one tries."""
        self._renewed_at: float | None = None
        self._failed_at: float | None = None
        self._seen: tuple[str, float] | None = None
        self._written: tuple[Object, int] = ({}, 0)  # the Lease, and the epoch of the server
        self.regained = Signal[[]]()
        """Emitted when leadership is certain again after it was not."""
        self.continues_lineage = False
        """Whether the previous leader was of the lineage, and this one continues it."""

    async def is_lineage_unbroken(self) -> bool:
        """Return whether the last leader is of the lineage. Raises KubeError."""
        return _is_of_lineage(await self._await(self.client.get(self._path)), self.lineage)

    def begin_lineage(self) -> None:
        """Belong to the lineage from now on, whichever process led before."""
        self.continues_lineage = bool(self.lineage)

    def is_leading(self) -> bool:
        return self._is_within(self._renewed_at, self.renew_deadline_s)

    def is_in_touch(self) -> bool:
        """Return whether the Lease is ours, or was tried lately: this process was not stopped."""
        return self.is_leading() or self._is_within(self._failed_at, self._longest_s)

    def _is_within(self, since: float | None, seconds: float) -> bool:
        return since is not None and self.clock() - since < seconds

    @property
    def _longest_s(self) -> float:
        """Longest time from one attempt to the end of the next; a longer one means it stopped."""
        return self.retry_period_s + 2 * PATIENCE * self.renew_deadline_s + SLACK_S

    async def acquire(self) -> None:
        once = LogOnce(_log)
        while True:
            try:
                if not (why := await self._wait_reason()):
                    _log.info("Leading", extra={"lease": f"{self.namespace}/{self.name}"})
                    return
                once.info("Standing by", about=why, leader=why, lease=self.name)
            except LeadLostError as error:
                once.info("Standing by", about=str(error), leader=str(error), lease=self.name)
            except KubeError as error:
                if not isinstance(error, (ConflictError, UnreachableError)):
                    once.warning("Waiting to lead", reason=str(error))
            await asyncio.sleep(self.retry_period_s)

    async def _wait_reason(self) -> str:
        """Take or renew the Lease; return what is waited for, "" = this process leads."""
        holder = await self._try()
        return "" if holder == self.identity else holder

    async def lead(self) -> None:
        """Renew until cancelled. Raises LeadLostError."""
        was_stopped = False
        while True:
            before = self.clock()
            await asyncio.sleep(self.retry_period_s)
            renewed_at = self._renewed_at
            try:
                holder = await self._try()
            except KubeError as error:
                # After a stop another one may lead, until a renewal shows that not.
                was_stopped = was_stopped or self.clock() - before > self._longest_s
                self._failed_at = None if was_stopped else self.clock()
                _log.debug("Failed to renew the leader Lease", extra={"reason": str(error)})
                continue
            was_stopped = False
            # Not before the renewal: the lead may have become uncertain while that was under way.
            was_certain = self._is_within(renewed_at, self.renew_deadline_s)
            if holder == self.identity and not was_certain:
                _log.info("Leading again", extra={"lease": f"{self.namespace}/{self.name}"})
                self.regained.emit()
            if holder != self.identity:
                self._renewed_at = self._failed_at = None
                raise LeadLostError(f"{holder} now holds lease {self.namespace}/{self.name}")

    async def wait_handed_over(self) -> str:
        """Return why once the lead is to be released: a process has what this one lacks."""
        await (self.hand_over.agreed if self.hand_over else asyncio.Event()).wait()
        return "the hub is away from here, a standby reaches it"

    async def release(self) -> None:
        if self._renewed_at is None:
            return
        self._renewed_at = None
        try:
            try:
                await self._release()
            except ConflictError:  # as by a renewal that was cancelled, or a standby's offer
                await self._release()
        except KubeError as error:
            _log.debug("Leaving the leader Lease to expire", extra={"reason": str(error)})

    async def _release(self) -> None:
        lease = await self._await(self.client.get(self._path))
        if dig(lease, "spec", "holderIdentity") == self.identity:
            lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
            await self._await(self.client.replace(self._path, lease))

    async def _await(self, request: Awaitable[_Answer]) -> _Answer:
        """Wait for a response, but leave time for another request before the deadline."""
        patience_s = self.renew_deadline_s * PATIENCE
        try:
            async with asyncio.timeout(patience_s):
                return await request
        except TimeoutError as error:
            text = f"{self.client.name}: no answer about lease {self.name} in {patience_s:g} s"
            raise UnreachableError(text) from error

    async def _try(self) -> str:
        """Take or renew the Lease if possible; return its holder."""
        started = self.clock()
        if (lease := await self._await(self.client.find(self._path))) is None:
            return await self._create(started)
        holder = str(dig(lease, "spec", "holderIdentity") or "")
        self.client.history.check_written(*self._written, lease)
        hand_over = self.hand_over
        heir = str(annotations_of(lease).get(hand_over.offers, "")) if hand_over else ""
        if (holder or heir) not in ("", self.identity) and not self._has_run_out(lease):
            if hand_over and (patch := hand_over.offer(lease, self.identity)) is not None:
                await self._await(self.client.merge_patch(self._path, patch))
            return holder or heir
        spec = self._spec(lease)
        if holder == self.identity:
            spec["acquireTime"] = dig(lease, "spec", "acquireTime") or spec["renewTime"]
        else:
            self.continues_lineage = _is_of_lineage(lease, self.lineage)
            spec["leaseTransitions"] += 1
        marked = self._marked({**lease, "spec": spec})
        answer = await self._await(self.client.replace(self._path, marked))
        self._written = answer, self.client.history.epoch
        self._renewed_at = started
        return self.identity

    async def _create(self, started: float) -> str:
        lease = new_lease(self.namespace, self.name) | {"spec": self._spec({})}
        await self._await(self.client.create(self._collection, self._marked(lease)))
        self._renewed_at = started
        return self.identity

    def _marked(self, lease: Object) -> Object:
        """Return a Lease that says the last lead of the lineage, and what it lacks."""
        marks = dict(annotations_of(lease))
        if self.hand_over is not None:
            marks = self.hand_over.renewed(lease, self.identity)
        if self.continues_lineage:
            marks[self.lineage] = str(lease["spec"]["leaseTransitions"])
        if not marks and not annotations_of(lease):
            return lease
        return {**lease, "metadata": {**lease["metadata"], "annotations": marks}}

    def _spec(self, lease: Object) -> Object:
        """Return the spec to write; the time of a Lease never decreases."""
        now = renew_time(lease, datetime.now(UTC))
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, int(self.lease_duration_s)),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions_of(lease),
        }

    def _has_run_out(self, lease: Object) -> bool:
        """Return whether a foreign Lease was not renewed for its duration, by our own clock."""
        renewed = str(dig(lease, "spec", "renewTime"))
        if self._seen is None or self._seen[0] != renewed:
            self._seen = (renewed, self.clock())
            return False
        return not self._is_within(self._seen[1], self._duration_s(lease))

    def _duration_s(self, lease: Object) -> float:
        seconds = dig(lease, "spec", "leaseDurationSeconds")
        return seconds if isinstance(seconds, int | float) else self.lease_duration_s


def _is_of_lineage(lease: Object, lineage: str) -> bool:
    return bool(lineage) and annotations_of(lease).get(lineage) == str(transitions_of(lease))


def transitions_of(lease: Object) -> int:
    count = dig(lease, "spec", "leaseTransitions")
    return count if isinstance(count, int) and 0 <= count < _MAX_INT32 else 0
