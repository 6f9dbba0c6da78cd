"""Events about objects, written in the background without blocking anything.

Equal events of one object are counted in one Event. A source may write a burst about one object and
then one every five minutes, as Kubernetes' own recorder; and of events with one reason in one flow
a burst and then some each second: the next one says how many were dropped. Flows share the queue
fairly, each at most half of it. A series is counted elsewhere: it is one Event with a name of its
own, the same after a restart.
"""

import asyncio
import itertools
import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from cachetools import LRUCache

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import Controller, ControllerSpec, WorkQueue
from karmada_vc_agent.kube.errors import ConflictError, KubeError, NotFoundError
from karmada_vc_agent.kube.flows import TokenBucket
from karmada_vc_agent.model.objects import Object, timestamp

_log = logging.getLogger(__name__)

EVENTS_QPS = 50.0
WRITTEN_AFTER_S = 0.1
"""What an event is about, as the status of a Work, is written before it."""
WRITERS = 8
"""Events that are written concurrently, one of each flow: a slow one holds up no other flow."""
QUEUE_LENGTH = 5000
QUEUE_OF_ONE = QUEUE_LENGTH // 2
WARNING = "Warning"
PER_OBJECT = (25, 1 / 300)
"""Burst, and then how many a second."""
PER_REASON = (QUEUE_OF_ONE, 1.0)
OF_NORMAL = (25, 8.0)
"""As karmada-agent up to this rate; what exceeds it is dropped."""
EVENTS_KEPT = 4096
MESSAGE_MAX_LENGTH = 1024


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
    source: str
    involved: tuple[str, str, str, str, str]
    type: str
    reason: str
    message: str
    series: Series | None = None


_Item = tuple[int, str, _Record]
"""Number, flow and event: each is written, also if it equals another one."""
_Budgets = LRUCache[tuple[str, ...], TokenBucket]


class EventRecorder:
    """Writes core/v1 Events, or warnings only; counts what it drops, for there are too many."""

    def __init__(
        self,
        client: ApiClient,
        *,
        only_warnings: bool = False,
        wall_clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._only_warnings = only_warnings
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._queue: WorkQueue[_Item] = WorkQueue(lambda item: item[1], at_once=1)
        spec = ControllerSpec("events", self._queue, self._try_write, WRITERS)
        self._writers = Controller(spec)
        self._recent: deque[_Item] = deque()
        self._waiting: Counter[str] = Counter()
        self._objects: _Budgets = LRUCache(EVENTS_KEPT)
        self._reasons: _Budgets = LRUCache(EVENTS_KEPT)
        self._left_out: LRUCache[tuple[str, ...], int] = LRUCache(EVENTS_KEPT)
        self._written: LRUCache[_Record, tuple[str, int]] = LRUCache(EVENTS_KEPT)
        self._is_idle = asyncio.Event()
        self._is_idle.set()
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
        """Queue an event about `obj`; return whether it will be written.

        source: the component. obj: {apiVersion, kind, metadata: {namespace, name, uid}}. kind:
        Normal or Warning. flow: default is the namespace of the object.
        """
        if self._only_warnings and kind != WARNING:
            return False
        namespace, name, uid = (obj["metadata"].get(k) or "" for k in ("namespace", "name", "uid"))
        involved = (obj["apiVersion"], obj["kind"], namespace, name, uid)
        flow = flow or namespace or name
        of_object, of_reason = (source, *involved), (flow, source, kind, reason)
        is_full = self._waiting[flow] >= QUEUE_OF_ONE or self._waiting.total() >= QUEUE_LENGTH
        if is_full or not self._budget(self._objects, of_object, PER_OBJECT).try_take():
            self.dropped += 1
            return False
        rate = PER_REASON if kind == WARNING else OF_NORMAL
        reasons = self._budget(self._reasons, of_reason, rate)
        # With debt: otherwise all of a long burst of Normal events is written at that rate.
        if series is None and not reasons.try_take(owes=kind != WARNING):
            self.dropped += 1
            self._left_out[of_reason] = self._left_out.get(of_reason, 0) + 1
            return False
        count = self._left_out.pop(of_reason, 0)
        more = f" (and {count} more with this reason, which were dropped)" if count else ""
        text = message[: MESSAGE_MAX_LENGTH - len(more)] + more
        record = _Record(source, involved, kind, reason, text, series)
        self._waiting[flow] += 1
        self._is_idle.clear()
        self._recent.append((next(self._numbers), flow, record))
        loop = asyncio.get_running_loop()  # each timer adds the oldest: the order is kept
        loop.call_later(WRITTEN_AFTER_S, lambda: self._queue.add(self._recent.popleft()))
        return True

    def _budget(
        self, budgets: _Budgets, key: tuple[str, ...], limit: tuple[int, float]
    ) -> TokenBucket:
        burst, qps = limit
        return budgets.setdefault(key, TokenBucket(qps, burst, self._monotonic))

    async def run(self) -> None:
        await self._writers.run()

    async def drain(self, timeout_s: float) -> None:
        async with asyncio.TaskGroup() as group:
            writers = group.create_task(self.run(), name="last events")
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._is_idle.wait()
            writers.cancel()

    async def _try_write(self, item: _Item) -> None:
        _, flow, record = item
        try:
            await self._write(record)
        except KubeError as error:
            self.dropped += 1
            _log.debug("Dropping event", extra={"reason": str(error)})
        finally:
            self._waiting[flow] -= 1
            if not self._waiting[flow]:
                del self._waiting[flow]
            if not self._waiting:
                self._is_idle.set()

    async def _write(self, record: _Record) -> None:
        if record.series is not None:
            await self._write_series(record, record.series)
            return
        now = self._wall_clock()
        stamp = timestamp(datetime.fromtimestamp(now, UTC))
        path, count = self._written.pop(record, ("", 0))
        try:
            if path:
                patch = {"count": count + 1, "lastTimestamp": stamp}
                await self._client.merge_patch(path, patch)
        except (NotFoundError, ConflictError):
            path, count = "", 0
        if not path:
            name = f"{int(now * 1e9) + next(self._numbers):x}"
            collection, event = _event(record, Series(name, 1, stamp, stamp))
            await self._client.create(collection, event)
            path = f"{collection}/{event['metadata']['name']}"
        self._written[record] = path, count + 1

    async def _write_series(self, record: _Record, series: Series) -> None:
        """Bring the Event of a series up to date; an earlier process may have created it."""
        collection, event = _event(record, series)
        path = f"{collection}/{event['metadata']['name']}"
        patch = {key: event[key] for key in ("message", "lastTimestamp", "count")}
        try:
            await self._client.merge_patch(path, patch)
        except NotFoundError:
            await self._client.create(collection, event)


def _event(record: _Record, series: Series) -> tuple[str, Object]:
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
