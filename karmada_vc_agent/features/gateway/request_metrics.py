"""Metrics and audit of requests, for each virtual cluster (G-25)."""

import sys
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from datetime import UTC, datetime

import msgspec
import orjson

from karmada_vc_agent.features.gateway.identity import Caller
from karmada_vc_agent.telemetry.metrics import CLUSTER, Metrics, Sample

METRICS = "features/gateway/metrics.yaml"


class RequestRecord(msgspec.Struct):
    """One request while it is answered, and what is reported of it at its end."""

    method: str = ""
    cluster: str = ""
    path: str = ""
    verb: str = ""
    host_path: str = ""
    who: Caller | None = None
    code: int = 0
    bytes_out: int = 0
    rejected: str = ""
    is_long: bool = False
    started: float = msgspec.field(default_factory=time.monotonic)

    @property
    def took_s(self) -> float:
        return time.monotonic() - self.started

    @property
    def shown_verb(self) -> str:
        """Return the verb as in RBAC, or the method of what was not planned."""
        return self.verb or self.method.lower()


def audit_line(record: RequestRecord) -> bytes:
    """Return the line of a request that has ended, with its end."""
    who = record.who
    line = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "audit": True,
        "vc": record.cluster,
        "kind": who.kind if who is not None else "",
        "user": who.user if who is not None else "",
        **({"account": who.account} if who is not None and who.account else {}),
        "groups": who.groups if who is not None else (),
        "verb": record.shown_verb,
        "path": record.path,
        "hostPath": record.host_path,
        "code": record.code,
        "bytes": record.bytes_out,
        "ms": round(record.took_s * 1000, 1),
        **({"rejected": record.rejected} if record.rejected else {}),
    }
    return orjson.dumps(line) + b"\n"


def to_stdout(line: bytes) -> None:
    """Write a line to standard output."""
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


_REQUESTS = "gateway_requests_total"
_SENT_BYTES = "gateway_sent_bytes_total"
_REJECTED = "gateway_rejected_requests_total"
_TIME = "gateway_request_duration_seconds"
_VERBS = frozenset({"get", "list", "watch", "connect", "post", "put", "patch", "delete", "head"})


class RequestMeter:
    """Counts requests.

    in_progress: (virtual cluster, whether long) -> requests now. connections: how many there are.
    used: virtual cluster -> seconds that its requests computed.
    """

    def __init__(
        self, metrics: Metrics, in_progress: Callable[[], Mapping[tuple[str, bool], int]]
    ) -> None:
        self._metrics = metrics
        self._in_progress = in_progress
        self.connections: Callable[[], int] = lambda: 0
        self.used: Mapping[Hashable, float] = {}
        metrics.add_source(self._samples)

    def answered(self, record: RequestRecord, cluster: str) -> None:
        """Count a request that has ended; cluster: "" for none that is served."""
        counters = self._metrics.counters
        verb = record.shown_verb if record.shown_verb in _VERBS else "other"
        counters[_REQUESTS].labels(cluster, verb, str(record.code)).inc()
        counters[_SENT_BYTES].labels(cluster).inc(record.bytes_out)
        if record.rejected:
            counters[_REJECTED].labels(cluster, record.rejected).inc()
        if not record.is_long and not record.rejected:
            self._metrics.timers[_TIME].labels(cluster, verb).observe(record.took_s)

    def forget(self, cluster: str) -> None:
        """Drop the counters of a virtual cluster that is no longer served."""
        for name in (_REQUESTS, _SENT_BYTES, _REJECTED):
            self._metrics.counters[name].remove_by_labels({CLUSTER: cluster})
        self._metrics.timers[_TIME].remove_by_labels({CLUSTER: cluster})

    def _samples(self) -> Iterator[Sample]:
        for (cluster, is_long), count in self._in_progress().items():
            labels = (cluster, "true" if is_long else "false")
            yield Sample("gateway_requests_in_progress", labels, count)
        for flow, seconds in self.used.items():
            yield Sample("gateway_loop_seconds_total", (str(flow),), seconds)
        yield Sample("gateway_connections", (), self.connections())
