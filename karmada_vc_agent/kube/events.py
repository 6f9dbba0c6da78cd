"""Events about objects, written in the background without blocking anything.

Equal events of one object are counted in one Event; a source may write a burst about one object and
then one every five minutes, like Kubernetes' own recorder. Flows share the queue fairly, each at
most half of it.

Warnings with one reason are many if many objects fail for one reason: repeated ones are limited to
one a second after a burst, which says how many it represents. The first one of each object is
written, now or at its next occurrence, unless objects come without end.

Normal events repeat what the statuses of the objects say. A burst of them with one reason in one
flow is written up to a number; while it lasts the others are merged into the last of them, which
says how many it represents and is written after the burst.

A series is counted elsewhere: it is one Event with a name of its own, the same after a restart.
"""

import asyncio
import itertools
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Generic, TypeVar
from urllib.parse import quote

from cachetools import LRUCache

from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    KubeError,
    NotFoundError,
)
from karmada_vc_agent.kube.flows import TokenBucket
from karmada_vc_agent.model.objects import Object, timestamp

T = TypeVar("T")


class _FairQueue(Generic[T]):
    """Items that wait, in order within their flow. most: of all flows; most_of_one: of each."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._waiting: OrderedDict[Hashable, deque[T]] = OrderedDict()
        self._busy: set[Hashable] = set()
        self._length = 0
        self._has_changed = asyncio.Event()

    def __len__(self) -> int:
        return self._length

    def try_add(self, flow: Hashable, item: T) -> bool:
        """Add an item unless there are too many already, in total or in this flow."""
        items = self._waiting.get(flow, ())
        if self._length >= self._most or len(items) >= self._most_of_one:
            return False
        self._waiting.setdefault(flow, deque()).append(item)
        self._length += 1
        self._has_changed.set()
        return True

    def pop(self) -> tuple[Hashable, T] | None:
        """Return the next item and its flow, None if there is none; `done` must follow."""
        flow = next((flow for flow in self._waiting if flow not in self._busy), None)
        if flow is None:
            return None
        items = self._waiting[flow]
        item = items.popleft()
        self._length -= 1
        self._busy.add(flow)
        if items:
            self._waiting.move_to_end(flow)
        else:
            del self._waiting[flow]
        return flow, item

    def done(self, flow: Hashable) -> None:
        """Let another item of a flow be returned."""
        self._busy.discard(flow)
        self._has_changed.set()

    async def wait(self) -> None:
        """Wait until `pop` returns an item."""
        while all(flow in self._busy for flow in self._waiting):
            self._has_changed.clear()
            await self._has_changed.wait()


_log = logging.getLogger(__name__)

EVENTS_QPS = 50.0
"""The rate of the client of a recorder."""
WRITERS = 8
"""Events that are written concurrently, one of each flow: a slow one holds up no other flow."""
QUEUE_LENGTH = 5000
QUEUE_OF_ONE = QUEUE_LENGTH // 2
WARNING = "Warning"
BURST_PER_REASON = 500
QPS_PER_REASON = 1.0
FIRSTS_PER_REASON = QUEUE_OF_ONE
QPS_OF_FIRSTS = EVENTS_QPS / 5
"""Of what the agent writes: objects may be made and deleted faster than anyone reads."""
BURST_OF_NORMAL = 25
QPS_OF_NORMAL = 8.0
"""As karmada-agent up to this rate; what exceeds it is merged."""
MERGED_EVERY_S = 5.0
"""The period after which merged events may be written."""
FIRSTS_REMEMBERED = 16384
"""A virtual cluster may have thousands of Works; only a number is stored for each."""
EVENTS_KEPT = 4096
BURST_PER_OBJECT = 25
QPS_PER_OBJECT = 1 / 300
MESSAGE_MAX_LENGTH = 1024
HELD_BACK_S, HELD_BACK_AT_MOST = 0.1, 10
"""While other writes are pending, an event waits up to a second; one a second gets through."""


@dataclass(frozen=True, slots=True)
class Series:
    """A repeated occurrence that is counted elsewhere.

    name: the end of the name of its Event. first, last: when, as `2026-01-01T00:00:00Z`.
    """

    name: str
    count: int
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class _Record:
    """One event: its object and its content."""

    source: str
    involved: tuple[str, str, str, str, str]
    type: str
    reason: str
    message: str
    series: Series | None = None


@dataclass(slots=True)
class _Written:
    path: str
    count: int


@dataclass(slots=True)
class _Reason:
    """Events with one reason in one flow.

    left_out: dropped or merged since the last one written. merged: the last one of those that are.
    """

    budget: TokenBucket
    firsts: TokenBucket
    left_out: int = 0
    merged: _Record | None = None


class EventRecorder:
    """Writes core/v1 Events; what does not fit into the queue is dropped and counted.

    is_busy: whether the API server has more urgent requests of ours. only_warnings: write no
    normal ones.
    """

    def __init__(
        self,
        client: ApiClient,
        is_busy: Callable[[], bool] = lambda: False,
        *,
        only_warnings: bool = False,
        wall_clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._is_busy = is_busy
        self._only_warnings = only_warnings
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._queue: _FairQueue[_Record] = _FairQueue(QUEUE_LENGTH, QUEUE_OF_ONE)
        self._next = asyncio.Lock()
        self._recorded: LRUCache[int, None] = LRUCache(FIRSTS_REMEMBERED)
        self._reasons: LRUCache[tuple[Hashable, ...], _Reason] = LRUCache(EVENTS_KEPT)
        self._written: LRUCache[_Record, _Written] = LRUCache(EVENTS_KEPT)
        self._begun: LRUCache[str, None] = LRUCache(EVENTS_KEPT)
        self._merged: dict[tuple[Hashable, ...], _Reason] = {}
        self._flush: asyncio.TimerHandle | None = None
        self._budgets: LRUCache[tuple[str, ...], TokenBucket] = LRUCache(EVENTS_KEPT)
        self._numbers = itertools.count()
        self.dropped = 0

    def record(
        self,
        source: str,
        obj: Object,
        kind: str,
        reason: str,
        message: str,
        flow: str = "",
        series: Series | None = None,
    ) -> bool:
        """Queue an event about `obj`: {apiVersion, kind, metadata: {namespace, name, uid}}.

        source: the component. kind: Normal or Warning. flow: default is the namespace of the
        object. Events of cluster-scoped objects are in namespace `default`. Return whether it will
        be written; False if there are too many.
        """
        if self._only_warnings and kind != WARNING:
            return False
        metadata = obj["metadata"]
        involved = (
            obj["apiVersion"],
            obj["kind"],
            metadata.get("namespace") or "",
            metadata["name"],
            metadata.get("uid") or "",
        )
        if not self._may_write(source, involved):
            self.dropped += 1
            return False
        flow = flow or metadata.get("namespace") or metadata["name"]
        if kind != WARNING and series is None:
            return self._record_normal(
                (flow, source, kind, reason), _Record(source, involved, kind, reason, message)
            )
        first = hash((source, involved, reason))
        left_out: int | None = 0
        if kind == WARNING:
            left_out = self._left_out(
                (flow, source, kind, reason), is_first=first not in self._recorded
            )
        if left_out is None:
            self.dropped += 1
            return False
        text = _with_more(message, left_out, "which were dropped")
        if not self._queue.try_add(flow, _Record(source, involved, kind, reason, text, series)):
            self.dropped += 1
            return False
        if kind == WARNING:
            self._recorded[first] = None
        return True

    def _record_normal(self, key: tuple[Hashable, ...], record: _Record) -> bool:
        """Queue a normal event, or merge it; return whether it will be written."""
        state = self._reason_of(key, QPS_OF_NORMAL, BURST_OF_NORMAL)
        if state.budget.try_take_or_owe():
            self._merged.pop(key, None)
            return self._queue_merged(key, state, record)
        if state.merged is not None:
            state.left_out += 1
        state.merged = record
        self._merged[key] = state
        self._schedule_flush()
        return True

    def _queue_merged(self, key: tuple[Hashable, ...], state: _Reason, record: _Record) -> bool:
        """Queue an event for itself and for those that were merged."""
        others = state.left_out + (state.merged is not None and state.merged is not record)
        state.left_out, state.merged = 0, None
        text = _with_more(record.message, others, "merged into this one")
        if self._queue.try_add(key[0], replace(record, message=text)):
            return True
        self.dropped += 1 + others
        return False

    def _queue_all_merged(self, *, is_last: bool = False) -> None:
        """Queue merged events whose budget allows it. is_last: all of them."""
        for key, state in list(self._merged.items()):
            if state.merged is not None and (state.budget.try_take() or is_last):
                del self._merged[key]
                self._queue_merged(key, state, state.merged)
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        self._schedule_flush()

    def _schedule_flush(self) -> None:
        if self._merged and self._flush is None:
            loop = asyncio.get_running_loop()
            self._flush = loop.call_later(MERGED_EVERY_S, self._queue_all_merged)

    def _reason_of(self, key: tuple[Hashable, ...], qps: float, burst: int) -> _Reason:
        state = self._reasons.get(key)
        if state is None:
            state = self._reasons[key] = _Reason(
                TokenBucket(qps, burst, self._monotonic),
                TokenBucket(QPS_OF_FIRSTS, FIRSTS_PER_REASON, self._monotonic),
            )
        return state

    def _left_out(self, key: tuple[Hashable, ...], *, is_first: bool) -> int | None:
        """Return how many dropped events an event represents; None to drop it, too."""
        state = self._reason_of(key, QPS_PER_REASON, BURST_PER_REASON)
        if not (state.firsts if is_first else state.budget).try_take():
            state.left_out += 1
            return None
        left_out, state.left_out = state.left_out, 0
        return left_out

    def _may_write(self, source: str, involved: tuple[str, ...]) -> bool:
        key = (source, *involved)
        budget = self._budgets.get(key)
        if budget is None:
            budget = TokenBucket(QPS_PER_OBJECT, BURST_PER_OBJECT, self._monotonic)
            self._budgets[key] = budget
        return budget.try_take()

    async def run(self) -> None:
        """Write queued events until cancelled."""
        await self._write_by(self._write_queued)

    async def drain(self, timeout_s: float) -> None:
        """Write what is queued, within `timeout_s`."""
        self._queue_all_merged(is_last=True)
        try:
            async with asyncio.timeout(timeout_s):
                await self._write_by(self._write_rest)
        except TimeoutError:
            _log.debug("Dropping unwritten events", extra={"count": len(self._queue)})

    async def _write_by(self, write: Callable[[], Coroutine[None, None, None]]) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(write(), name="events")

    async def _write_queued(self) -> None:
        while True:
            async with self._next:
                await self._queue.wait()
                await self._hold_back()
                taken = self._queue.pop()
            if taken is not None:
                await self._try_write(*taken)

    async def _write_rest(self) -> None:
        while (taken := self._queue.pop()) is not None:
            await self._try_write(*taken)

    async def _hold_back(self) -> None:
        for _ in range(HELD_BACK_AT_MOST):
            if not self._is_busy():
                break
            await asyncio.sleep(HELD_BACK_S)

    async def _try_write(self, flow: Hashable, record: _Record) -> None:
        try:
            with flows.of(flow):
                await self._write(record)
        except KubeError as error:
            self.dropped += 1
            _log.debug("Dropping event", extra={"reason": str(error)})
        finally:
            self._queue.done(flow)

    async def _write(self, record: _Record) -> None:
        if record.series is not None:
            await self._write_series(record, record.series)
            return
        now = self._wall_clock()
        stamp = timestamp(datetime.fromtimestamp(now, UTC))
        written = self._written.pop(record, None)
        if written is not None:
            written.count += 1
            patch = {"count": written.count, "lastTimestamp": stamp}
            try:
                await self._client.merge_patch(written.path, patch)
            except (NotFoundError, ConflictError):
                written = None
        if written is None:
            written = await self._create(record, now, stamp)
        self._written[record] = written

    async def _write_series(self, record: _Record, series: Series) -> None:
        """Bring the Event of a series up to date; an earlier process may have created it."""
        collection, event = _event(record, series)
        path = f"{collection}/{event['metadata']['name']}"
        patch = {key: event[key] for key in ("message", "lastTimestamp", "count")}
        if path in self._begun:
            try:
                await self._client.merge_patch(path, patch)
            except NotFoundError:
                del self._begun[path]
            else:
                return
        try:
            await self._client.create(collection, event)
        except AlreadyExistsError:
            await self._client.merge_patch(path, patch)
        self._begun[path] = None

    async def _create(self, record: _Record, now: float, stamp: str) -> _Written:
        name = f"{int(now * 1e9) + next(self._numbers):x}"
        path, event = _event(record, Series(name, 1, stamp, stamp))
        await self._client.create(path, event)
        return _Written(f"{path}/{event['metadata']['name']}", 1)


def _with_more(message: str, count: int, what: str) -> str:
    """Return a message that says how many others it represents."""
    more = f" (and {count} more with this reason, {what})" if count else ""
    return message[: MESSAGE_MAX_LENGTH - len(more)] + more


def _event(record: _Record, series: Series) -> tuple[str, Object]:
    """Return the collection that an Event belongs to, and the Event."""
    api_version, kind, namespace, name, uid = record.involved
    event_namespace = namespace or "default"
    involved = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}
    if namespace:
        involved["namespace"] = namespace
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name[:230]}.{series.name}", "namespace": event_namespace},
        "involvedObject": involved,
        "type": record.type,
        "reason": record.reason,
        "message": record.message,
        "source": {"component": record.source},
        "reportingComponent": record.source,
        "reportingInstance": "",
        "firstTimestamp": series.first,
        "lastTimestamp": series.last,
        "count": series.count,
    }
    return f"/api/v1/namespaces/{quote(event_namespace, safe='')}/events", event
