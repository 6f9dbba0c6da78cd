"""Fills the metrics of the gateway, for each virtual cluster (features/gateway/metrics.py)."""

from collections.abc import Callable, Iterator, Mapping

from karmada_vc_agent.features.gateway.server.audit import Record
from karmada_vc_agent.telemetry.families import CLUSTER
from karmada_vc_agent.telemetry.metrics import Metrics, Sample

_COUNTERS = ("gateway_requests", "gateway_sent_bytes", "gateway_rejected")
_VERBS = frozenset({"get", "list", "watch", "connect", "post", "put", "patch", "delete", "head"})


class GatewayMeter:
    """Counts requests.

    in_progress: (virtual cluster, whether long) -> requests now. connections: how many there are.
    used: virtual cluster -> seconds that its requests computed.
    """

    def __init__(
        self,
        metrics: Metrics,
        in_progress: Callable[[], Mapping[tuple[str, bool], int]],
        connections: Callable[[], int] = lambda: 0,
    ) -> None:
        self._metrics = metrics
        self._in_progress = in_progress
        self.connections = connections
        self.used: Mapping[str, float] = {}
        metrics.add_source(self._samples)

    def answered(self, record: Record, cluster: str) -> None:
        """Count a request that has ended; cluster: "" for none that is served."""
        counters = self._metrics.counters
        verb = record.verb or record.method.lower()
        verb = verb if verb in _VERBS else "other"
        counters["gateway_requests"].labels(cluster, verb, str(record.code)).inc()
        counters["gateway_sent_bytes"].labels(cluster).inc(record.bytes_out)
        if record.rejected:
            counters["gateway_rejected"].labels(cluster, record.rejected).inc()
        if not record.is_long and not record.rejected:
            times = self._metrics.timers["gateway_request_time"]
            times.labels(cluster, verb).observe(record.took_s)

    def forget(self, cluster: str) -> None:
        """Drop the counters of a virtual cluster that is no longer served."""
        for name in _COUNTERS:
            self._metrics.counters[name].remove_by_labels({CLUSTER: cluster})
        self._metrics.timers["gateway_request_time"].remove_by_labels({CLUSTER: cluster})

    def _samples(self) -> Iterator[Sample]:
        for (cluster, is_long), count in self._in_progress().items():
            labels = (cluster, "true" if is_long else "false")
            yield Sample("gateway_requests_in_progress", labels, count)
        for cluster, seconds in self.used.items():
            yield Sample("gateway_loop_seconds_total", (cluster,), seconds)
        yield Sample("gateway_connections", (), self.connections())
