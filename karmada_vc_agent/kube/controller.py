"""Workers of one queue: take a key, reconcile it, and deal with how that ended."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from karmada_vc_agent.kube.errors import ConflictError, KubeError, UnreachableError
from karmada_vc_agent.kube.instruments import NOBODY, ControllerInstrument
from karmada_vc_agent.kube.work_queue import QueueClosedError, WorkQueue

_log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Requeue:
    """Reconcile the same key again after a while."""

    after_s: float


class RetryError(Exception):
    """Something is not as it must be yet; the key backs off. `str()` says what."""


class NotReadyError(RetryError):
    """The server behind the key is not ready; said once for all keys, not for each."""


class Controller(Generic[K]):
    """Runs `reconcile` for the keys of a queue; the only place that logs its failures."""

    def __init__(
        self,
        name: str,
        queue: WorkQueue[K],
        reconcile: Callable[[K], Awaitable[Requeue | None]],
        workers: int,
    ) -> None:
        self.name = name
        self.queue = queue
        self._reconcile = reconcile
        self.workers = workers
        self.instrument: ControllerInstrument = NOBODY
        self._complaints: dict[K, str] = {}

    async def run(self) -> None:
        """Work until cancelled, or until the queue is closed and its last keys are done."""
        async with asyncio.TaskGroup() as group:
            for number in range(self.workers):
                group.create_task(self._work(), name=f"{self.name}-{number}")

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.take()
            except QueueClosedError:
                return
            started = time.monotonic()
            result = "error"
            try:
                result = await self._once(key)
            finally:
                self.queue.done(key)
                self.instrument.ended(result, time.monotonic() - started)
            # A reconcile that had nothing to wait for must not keep the loop from others.
            await asyncio.sleep(0)

    async def _once(self, key: K) -> str:
        """Reconcile once; return how that ended (ControllerInstrument)."""
        try:
            outcome = await self._reconcile(key)
        except (ConflictError, NotReadyError, UnreachableError) as error:
            # A lost race is nothing to tell; an outage is one message, not one for each key.
            _log.debug("Backing off", extra=self._about(key, str(error)))
            self.queue.add_rate_limited(key)
            return "error"
        except (KubeError, RetryError) as error:
            self._complain(key, str(error))
            self.queue.add_rate_limited(key)
            return "error"
        except Exception:  # noqa: BLE001 - one key must not stop the others
            _log.exception("Failed to reconcile", extra=self._about(key, "a bug"))
            self.queue.add_rate_limited(key)
            return "panic"
        self._complaints.pop(key, None)
        self.queue.forget(key)
        if outcome is None:
            return "success"
        self.queue.add_after(key, outcome.after_s)
        return "requeue_after"

    def _complain(self, key: K, reason: str) -> None:
        """Log why a key backs off, once for as long as the reason stays."""
        if self._complaints.get(key) != reason:
            self._complaints[key] = reason
            _log.info("Backing off", extra=self._about(key, reason))

    def _about(self, key: K, reason: str) -> dict[str, str]:
        text = "/".join(map(str, key)) if isinstance(key, tuple) else str(key)
        return {"controller": self.name, "key": text, "reason": reason}
