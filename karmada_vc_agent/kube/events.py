"""Events about objects, written in the background and never in anybody's way.

Equal events of one object are counted in one Event; a source may write a burst about one
object and then one every five minutes, as Kubernetes' own recorder does.
"""

import asyncio
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.errors import ConflictError, KubeError, NotFoundError
from karmada_vc_agent.kube.rate_limit import TokenBucket
from karmada_vc_agent.model.objects import Object

_log = logging.getLogger(__name__)

QUEUE_LENGTH = 5000
REMEMBERED = 4096
BURST_PER_OBJECT = 25
QPS_PER_OBJECT = 1 / 300
MESSAGE_MAX_LENGTH = 1024
HELD_BACK_S, HELD_BACK_AT_MOST = 0.1, 10
"""While others are busy, an event waits up to a second: one a second is still told."""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One event: about whom, and what."""

    source: str
    involved: tuple[str, str, str, str, str]
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class _Written:
    path: str
    count: int


class EventRecorder:
    """Writes core/v1 Events; what does not fit into the queue is dropped and counted.

    is_busy: whether the API server has more urgent things to do for us.
    """

    def __init__(
        self,
        client: ApiClient,
        is_busy: Callable[[], bool] = lambda: False,
        wall_clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._is_busy = is_busy
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._queue: asyncio.Queue[EventRecord] = asyncio.Queue(QUEUE_LENGTH)
        self._written: OrderedDict[EventRecord, _Written] = OrderedDict()
        self._budgets: OrderedDict[tuple[str, ...], TokenBucket] = OrderedDict()
        self._numbers = itertools.count()
        self.dropped = 0

    def record(self, source: str, obj: Object, kind: str, reason: str, message: str) -> None:
        """Queue an event about `obj`: {apiVersion, kind, metadata: {namespace, name, uid}}.

        source: the component. kind: Normal or Warning. Cluster-scoped objects get their
        events in namespace `default`.
        """
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
            return
        try:
            text = message[:MESSAGE_MAX_LENGTH]
            self._queue.put_nowait(EventRecord(source, involved, kind, reason, text))
        except asyncio.QueueFull:
            self.dropped += 1

    def _may_write(self, source: str, involved: tuple[str, ...]) -> bool:
        key = (source, *involved)
        budget = self._budgets.pop(key, None)
        if budget is None:
            budget = TokenBucket(QPS_PER_OBJECT, BURST_PER_OBJECT, self._monotonic)
        self._budgets[key] = budget
        if len(self._budgets) > REMEMBERED:
            self._budgets.popitem(last=False)
        return budget.try_take()

    async def run(self) -> None:
        """Write queued events until cancelled."""
        while True:
            record = await self._queue.get()
            for _ in range(HELD_BACK_AT_MOST):
                if not self._is_busy():
                    break
                await asyncio.sleep(HELD_BACK_S)
            await self._try_write(record)

    async def drain(self, timeout_s: float) -> None:
        """Write what is queued, for as long as `timeout_s` allows."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self._queue.empty():
                    await self._try_write(self._queue.get_nowait())
        except TimeoutError:
            _log.debug("Leaving events unwritten", extra={"count": self._queue.qsize()})

    async def _try_write(self, record: EventRecord) -> None:
        try:
            await self._write(record)
        except KubeError as error:
            self.dropped += 1
            _log.debug("Dropping event", extra={"reason": str(error)})

    async def _write(self, record: EventRecord) -> None:
        now = self._wall_clock()
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
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
        if len(self._written) > REMEMBERED:
            self._written.popitem(last=False)

    async def _create(self, record: EventRecord, now: float, stamp: str) -> _Written:
        api_version, kind, namespace, name, uid = record.involved
        event_namespace = namespace or "default"
        event_name = f"{name[:230]}.{int(now * 1e9) + next(self._numbers):x}"
        path = f"/api/v1/namespaces/{event_namespace}/events"
        involved = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}
        if namespace:
            involved["namespace"] = namespace
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": event_name, "namespace": event_namespace},
            "involvedObject": involved,
            "type": record.type,
            "reason": record.reason,
            "message": record.message,
            "source": {"component": record.source},
            "reportingComponent": record.source,
            "reportingInstance": "",
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        await self._client.create(path, event)
        return _Written(f"{path}/{event_name}", 1)
