"""Instruments that count, of controllers, queues and clients."""

from collections.abc import Mapping

from prometheus_client import Counter, Histogram

from karmada_vc_agent.kube.connections import ClientInstrument
from karmada_vc_agent.kube.work_queue import ControllerInstrument
from karmada_vc_agent.telemetry.metrics import Metrics


class ControllerMeter(ControllerInstrument):
    """Counts the reconciles of one controller, and the keys of its queue."""

    RESULTS = ("success", "requeue_after", "error", "panic")

    def __init__(self, metrics: Metrics, controller: str) -> None:
        counted = {"panic": "error"}
        self._results = {
            result: metrics.counters["reconciles"].labels(controller, counted.get(result, result))
            for result in self.RESULTS
        }
        self._errors = metrics.counters["reconcile_errors"].labels(controller)
        self._panics = metrics.counters["reconcile_panics"].labels(controller)
        self._time = metrics.timers["reconcile_time"].labels(controller)
        self._adds = metrics.counters["queue_adds"].labels(controller, controller)
        self._retries = metrics.counters["queue_retries"].labels(controller, controller)
        self._queue_time = metrics.timers["queue_time"].labels(controller, controller)
        self._work_time = metrics.timers["work_time"].labels(controller, controller)

    def ended(self, result: str, took_s: float) -> None:
        """Count a reconcile."""
        self._results[result].inc()
        self._time.observe(took_s)
        if result in ("error", "panic"):
            self._errors.inc()
        if result == "panic":
            self._panics.inc()

    def added(self) -> None:
        """Count a key added."""
        self._adds.inc()

    def retried(self) -> None:
        """Count a retry of a key."""
        self._retries.inc()

    def taken(self, waited_s: float) -> None:
        """Record how long a key waited."""
        self._queue_time.observe(waited_s)

    def done(self, worked_s: float) -> None:
        """Record how long a key was processed."""
        self._work_time.observe(worked_s)


class ClientMeter(ClientInstrument):
    """Counts the requests to one API server.

    server: hub or host. host: its address, the label that client-go uses.
    """

    def __init__(self, metrics: Metrics, server: str, host: str) -> None:
        self._metrics = metrics
        self._server = server
        self._host = host
        self._codes: dict[tuple[str, str], Counter] = {}
        self._times: dict[str, Histogram] = {}

    def answered(self, method: str, code: str, took_s: float) -> None:
        """Count a request by its response."""
        counter = self._codes.get((method, code))
        if counter is None:
            counter = self._metrics.counters["requests"].labels(code, method, self._host)
            self._codes[method, code] = counter
        counter.inc()
        times = self._times.get(method)
        if times is None:
            times = self._times[method] = self._metrics.timers["request_time"].labels(
                method, self._host
            )
        times.observe(took_s)

    def failed(self, path: str, part: str) -> None:
        """Count a bug at one object."""
        self._metrics.object_failed(self._server, self._metrics.resource_label(path), part)

    def unreadable(self, source: str, path: str, reasons: Mapping[str, str]) -> None:
        """Record the objects that a reflector cannot read now."""
        resource = self._metrics.resource_label(path)
        self._metrics.note_unreadable(self._server, source, resource, reasons)

    def listed(self, path: str) -> None:
        """Count a list that starts."""
        self._metrics.counters["watch_lists"].labels(
            self._server, self._metrics.resource_label(path)
        ).inc()

    def watched(self, path: str) -> None:
        """Count a watch that is opened."""
        self._metrics.counters["watch_starts"].labels(
            self._server, self._metrics.resource_label(path)
        ).inc()
