"""The metrics of the gateway, for each virtual cluster."""

from karmada_vc_agent.telemetry.families import CLUSTER, Families, Family, Gauge

_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)

METRICS = Families(
    gauges={
        "gateway_requests_in_progress": Gauge(
            "Number of requests in progress; long: watches, followed logs, upgrades.",
            (CLUSTER, "long"),
        ),
        "gateway_loop_seconds_total": Gauge(
            "Seconds that requests computed in the gateway; who used more than its share waits.",
            (CLUSTER,),
            is_counter=True,
        ),
        "gateway_connections": Gauge("Number of open connections of clients."),
    },
    counters={
        "gateway_requests": Family(
            "gateway_requests_total", "Number of requests answered.", (CLUSTER, "verb", "code")
        ),
        "gateway_sent_bytes": Family(
            "gateway_sent_bytes_total", "Bytes of bodies sent to clients.", (CLUSTER,)
        ),
        "gateway_rejected": Family(
            "gateway_rejected_requests_total",
            "Number of requests that the gateway refused itself, by reason.",
            (CLUSTER, "reason"),
        ),
    },
    timers={
        "gateway_request_time": Family(
            "gateway_request_duration_seconds",
            "Seconds until the whole answer was sent; without long requests.",
            (CLUSTER, "verb"),
            _BUCKETS,
        ),
    },
)
