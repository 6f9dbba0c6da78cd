"""Workers of one queue: take a key, reconcile it, and deal with how that ended."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from karmada_vc_agent.kube.errors import ConflictError, KubeError, UnreachableError
from karmada_vc_agent.kube.instruments import NOBODY, ControllerInstrument
from karmada_vc_agent.kube.sources import Source
from karmada_vc_agent.kube.supervisor import ALONE, Supervisor
from karmada_vc_agent.kube.work_queue import QueueClosedError, WorkQueue

_log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

RELIEVED_AFTER_S = 1.0
"""A worker that is at one key for longer is slow for this key; another one takes its place."""


@dataclass(frozen=True, slots=True)
class Requeue:
    """Reconcile the same key again after a while."""

    after_s: float


class RetryError(Exception):
    """Something is not as it must be yet; the key backs off. `str()` says what.

    causes: what others may fail for as well; all keys of a cause share one back-off. is_own:
    whether there is something else, too, for which the key backs off by itself.
    """

    def __init__(
        self, text: str, causes: Iterable[Hashable] = (), *, is_own: bool | None = None
    ) -> None:
        super().__init__(text)
        self.causes = tuple(causes)
        self.is_own = not self.causes if is_own is None else is_own


class NotReadyError(RetryError):
    """The server behind the key is not ready; said once for all keys, not for each."""


@dataclass(slots=True)
class _Turn:
    """What a worker is at; is_relieved: another worker has taken its place meanwhile."""

    is_relieved: bool = False


def _none() -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True)
class ControllerSpec(Generic[K]):
    """All that there is to say of a controller, in one place.

    name: in logs and metrics. workers: how many keys are worked on at once. Where the queue says
    how many of one group may be (`at_once`), that is the bound for slow keys, and they do not
    count among the workers: so not even slow keys of several groups keep the others from being
    worked on. switch: the name by which it is switched off; None = it always runs. by_cluster:
    whether the group of a key is a virtual cluster. initial_keys: what no change brings up, asked
    for when the controller is started. initial_delay_s: how long these wait. sources: what brings
    up keys while it runs. resync_keys: all there is, for when nothing known counts any more.
    """

    name: str
    queue: WorkQueue[K]
    reconcile: Callable[[K], Awaitable[Requeue | None]]
    workers: int = 1
    switch: str | None = None
    by_cluster: bool = True
    initial_keys: Callable[[], Iterable[K]] = _none
    initial_delay_s: float = 0.0
    sources: tuple[Source[K], ...] = ()
    resync_keys: Callable[[], Iterable[K]] = _none


class Controller(Generic[K]):
    """Runs `reconcile` for the keys of a queue; the only place that logs its failures."""

    def __init__(self, spec: ControllerSpec[K]) -> None:
        self.spec = spec
        self.name = spec.name
        self.queue = spec.queue
        self._reconcile = spec.reconcile
        self.workers = spec.workers
        self.instrument: ControllerInstrument = NOBODY
        self.supervisor: Supervisor = ALONE
        self._complaints: dict[K, str] = {}

    def connect(self) -> None:
        """Enqueue what changes bring up, from now on."""
        for source in self.spec.sources:
            source.connect(self.queue)

    def enqueue_initial(self) -> None:
        """Enqueue what no change brings up."""
        for key in self.spec.initial_keys():
            self.queue.add_after(key, self.spec.initial_delay_s)

    def resync(self) -> None:
        """Enqueue all there is."""
        for key in self.spec.resync_keys():
            self.queue.add(key)

    async def run(self) -> None:
        """Work until cancelled, or until the queue is closed and its last keys are done."""
        async with asyncio.TaskGroup() as group:
            for number in range(self.workers):
                work = partial(self._work, group)
                self.supervisor.start(group, "worker", work, f"{self.name}-{number}")

    async def _work(self, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        turn = _Turn()
        while not turn.is_relieved:
            try:
                key = await self.queue.take()
            except QueueClosedError:
                return
            started = time.monotonic()
            result = "error"
            relief = loop.call_later(RELIEVED_AFTER_S, self._relieve, group, turn)
            try:
                result = await self._once(key)
            finally:
                relief.cancel()
                self.queue.done(key)
                self.instrument.ended(result, time.monotonic() - started)
            # A reconcile that had nothing to wait for must not keep the loop from others.
            await asyncio.sleep(0)

    def _relieve(self, group: asyncio.TaskGroup, turn: _Turn) -> None:
        """Let another worker take the place of one that is at a slow key."""
        if self.queue.at_once and not self.queue.is_closed:
            turn.is_relieved = True
            work = partial(self._work, group)
            self.supervisor.start(group, "worker", work, f"{self.name}-relief")

    async def _once(self, key: K) -> str:
        """Reconcile once; return how that ended (ControllerInstrument)."""
        try:
            outcome = await self._reconcile(key)
        except (ConflictError, NotReadyError, UnreachableError) as error:
            # A lost race is nothing to tell; an outage is one message, not one for each key.
            _log.debug("Backing off", extra=self._about(key, str(error)))
            self._back_off(key, error)
            return "error"
        except (KubeError, RetryError) as error:
            self._complain(key, str(error))
            self._back_off(key, error)
            return "error"
        except Exception as error:  # noqa: BLE001 - one key must not stop the others
            self._complain_of_a_bug(key, error)
            self._back_off(key, error)
            return "panic"
        self._complaints.pop(key, None)
        self.queue.forget(key)
        if outcome is None:
            return "success"
        self.queue.add_after(key, outcome.after_s)
        return "requeue_after"

    def _back_off(self, key: K, error: Exception) -> None:
        """Bring a key again later: by itself, or as one of all that fail for the same cause."""
        if isinstance(error, RetryError) and error.causes:
            self.queue.blame(key, error.causes)
        else:
            self.queue.blame_itself(key)
        if not isinstance(error, RetryError) or error.is_own:
            self.queue.add_rate_limited(key)

    def _complain(self, key: K, reason: str) -> None:
        """Log why a key backs off, once for as long as the reason stays."""
        if self._complaints.get(key) != reason:
            self._complaints[key] = reason
            _log.info("Backing off", extra=self._about(key, reason))

    def _complain_of_a_bug(self, key: K, error: Exception) -> None:
        """Log the traceback of a fault of ours, once for as long as it stays."""
        if self._complaints.get(key) != repr(error):
            self._complaints[key] = repr(error)
            about = self._about(key, "a bug")
            _log.error("Failed to reconcile", exc_info=error, extra=about)

    def _about(self, key: K, reason: str) -> dict[str, str]:
        text = "/".join(map(str, key)) if isinstance(key, tuple) else str(key)
        return {"controller": self.name, "key": text, "reason": reason}
