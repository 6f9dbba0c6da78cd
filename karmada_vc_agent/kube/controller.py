"""Workers of one queue, and the changes that enqueue its keys."""

import asyncio
import logging
import math
import time
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Hashable,
    Iterable,
    Mapping,
)
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar

from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.errors import ConflictError, KubeError, UnreachableError
from karmada_vc_agent.kube.flows import measured
from karmada_vc_agent.kube.tasks import LogOnce
from karmada_vc_agent.kube.work_queue import ControllerInstrument, WorkQueue

P = ParamSpec("P")


class Signal(Generic[P]):
    """Calls its handlers in the order of subscription; raises the first failure after all."""

    def __init__(self) -> None:
        self._handlers: list[Callable[P, object]] = []

    def subscribe(self, handler: Callable[P, object]) -> None:
        """Call `handler` from now on."""
        self._handlers.append(handler)

    def emit(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call all handlers."""
        failures: list[Exception] = []
        for handler in self._handlers:
            try:
                handler(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - one listener must not cost the others
                failures.append(error)
        if failures:
            raise failures[0]


def same(keys: Iterable[Any]) -> Iterable[Any]:
    """Return the keys of virtual clusters where they are their names."""
    return keys


def itself(key: Any) -> tuple[Any]:
    """Return the keys of a change that is a key itself."""
    return (key,)


def first_of(key: Any, *_: Any) -> tuple[Any]:
    """Return the keys of a change whose first part is the key."""
    return (key,)


K = TypeVar("K", bound=Hashable)

RETRIES_EVERY_S = 0.5
"""Changes within that time are passed on as one, however often a tenant changes something."""

Subscribe = Callable[[Callable[..., None]], object]
"""Takes a handler: the `add_handler` of a store, the `subscribe` of a signal."""


@dataclass(frozen=True, slots=True)
class Enqueues(Generic[K]):
    """keys: maps a change to the keys to enqueue. after_s: delay, to let changes settle."""

    subscribe: Subscribe
    keys: Callable[..., Iterable[K]]
    after_s: float = 0.0

    def connect(self, queue: WorkQueue[K]) -> None:
        """Start to enqueue."""

        def changed(*change: object) -> None:
            for key in self.keys(*change):
                queue.add_after(key, self.after_s)

        self.subscribe(changed)


@dataclass(frozen=True, slots=True)
class Retries(Generic[K]):
    """Retries the keys that wait for what changed; subscribe: of a signal of such dependencies."""

    subscribe: Subscribe

    def connect(self, queue: WorkQueue[K]) -> None:
        """Start to retry."""
        collected: set[Hashable] = set()
        next_at = -math.inf

        def pass_on() -> None:
            nonlocal next_at
            next_at = asyncio.get_running_loop().time() + RETRIES_EVERY_S
            dependencies = collected.copy()
            collected.clear()
            queue.changed(dependencies)

        def changed(dependencies: Collection[Hashable]) -> None:
            is_scheduled = bool(collected)
            collected.update(dependencies)
            if collected and not is_scheduled:
                loop = asyncio.get_running_loop()
                if loop.time() < next_at:
                    loop.call_at(next_at, pass_on)
                else:
                    pass_on()

        self.subscribe(changed)


Source = Enqueues[K] | Retries[K]
"""Connects changes to a queue."""


_log = logging.getLogger(__name__)


RELIEVED_AFTER_S = 1.0
"""A key that takes longer is slow; another one may be worked on in its place."""


@dataclass(frozen=True, slots=True)
class Requeue:
    """Reconcile the same key again after a delay.

    math.inf: only when its group or one of its dependencies changes.
    """

    after_s: float = math.inf
    dependencies: tuple[Hashable, ...] = ()


class RetryError(Exception):
    """Something is not as required yet; the key backs off. `str()` says what.

    dependencies: what other keys wait for as well; all that wait for one share one back-off.
    is_own: whether there is also a reason specific to this key, with a back-off of its own.
    """

    def __init__(
        self, text: str, dependencies: Iterable[Hashable] = (), *, is_own: bool | None = None
    ) -> None:
        super().__init__(text)
        self.dependencies = tuple(dependencies)
        self.is_own = not self.dependencies if is_own is None else is_own


class NotReadyError(RetryError):
    """The server behind the key is not ready; logged once for all keys."""


async def _at_once() -> None:
    return


@dataclass(frozen=True, slots=True)
class ControllerSpec(Generic[K]):
    """All that there is to say of a controller.

    workers: how many keys are worked on at once; slow ones do not count where the queue has a bound
    for each group (`at_once`). switch: the name by which it is switched off; None = it always runs.
    by_cluster: whether the group of a key is a virtual cluster. initial_keys, initial_delay_s: what
    is enqueued at the start, and after how long. settles_s: how long keys wait that no change
    enqueues. sources: what enqueues keys. resync_keys: all keys of some groups, for when nothing
    cached of them is valid any more. ready: what is waited for at the start. runs: what else runs
    for it, from before that; name -> coroutine.
    """

    name: str
    queue: WorkQueue[K]
    reconcile: Callable[[K], Coroutine[Any, Any, Requeue | None]]
    workers: int = 1
    switch: str | None = None
    by_cluster: bool = True
    initial_keys: Callable[[], Iterable[K]] = tuple
    initial_delay_s: float = 0.0
    settles_s: float = 0.0
    sources: tuple[Source[K], ...] = ()
    resync_keys: Callable[[Iterable[str]], Iterable[K]] = lambda _groups: ()
    ready: Callable[[], Awaitable[None]] = _at_once
    runs: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)


KEYS_REMEMBERED = 65536
"""Keys that back off at the same time, of which each reason is logged once."""


class Controller(Generic[K]):
    """Runs `reconcile` for the keys of a queue; the only place that logs its failures.

    What is not logged for each key, as an outage, is in `failed_by`.
    """

    def __init__(self, spec: ControllerSpec[K]) -> None:
        self.spec = spec
        self.name = spec.name
        self.queue = spec.queue
        self._reconcile = spec.reconcile
        self.workers = spec.workers
        self.instrument = ControllerInstrument()
        self._logged = LogOnce(_log, KEYS_REMEMBERED)
        self.succeeded = 0
        """The number of keys that were reconciled without an error."""
        self.failed_by = ""
        """Why the last key was not, "" if it was."""

    def connect(self) -> None:
        """Enqueue for changes from now on."""
        for source in self.spec.sources:
            source.connect(self.queue)

    def enqueue_initial(self) -> None:
        """Enqueue the initial keys."""
        for key in self.spec.initial_keys():
            self.queue.add_after(key, self.spec.initial_delay_s or self.spec.settles_s)

    def resync(self, groups: Iterable[str]) -> None:
        """Enqueue all there is of some groups."""
        for key in self.spec.resync_keys(groups):
            self.queue.add_after(key, self.spec.settles_s)

    async def run(self) -> None:
        """Work until cancelled, or until the queue is closed and its last keys are done."""
        await self.spec.ready()
        slots = asyncio.Semaphore(self.workers)
        async with asyncio.TaskGroup() as group:
            await slots.acquire()
            while (key := await self.queue.take()) is not None:
                group.create_task(self._work(key, slots), name=self.name)
                await slots.acquire()

    async def _work(self, key: K, slots: asyncio.Semaphore) -> None:
        """Reconcile a key; a slow one gives its slot to another, if there are several groups."""
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None

        def relieve() -> None:
            nonlocal timer
            if self.queue.at_once:
                timer = None
                slots.release()
            else:
                timer = loop.call_later(RELIEVED_AFTER_S, relieve)

        timer = loop.call_later(RELIEVED_AFTER_S, relieve)
        started = time.monotonic()
        result = "error"
        try:
            result = await self._once(key)
        finally:
            if timer is not None:
                timer.cancel()
                slots.release()
            self.queue.done(key)
            self.instrument.ended(result, time.monotonic() - started)

    async def _once(self, key: K) -> str:
        """Reconcile once; return the result for ControllerInstrument."""
        try:
            with flows.of(self._flow_of(key)):
                outcome = await measured(self._reconcile(key))
        except (ConflictError, NotReadyError, UnreachableError) as error:
            # Conflicts are not logged; an outage is logged once, not for each key.
            _log.debug("Backing off", extra=self._about(key, str(error)))
            self.failed_by = str(error)
            self._back_off(key, error)
            return "error"
        except (KubeError, RetryError) as error:
            self._logged.info("Backing off", about=key, **self._about(key, str(error)))
            self._back_off(key, error)
            return "error"
        except Exception as error:  # noqa: BLE001 - one key must not stop the others
            about = self._about(key, "a bug")
            self._logged.bug("Failed to reconcile", error, about=key, **about)
            self._back_off(key, error)
            return "panic"
        self._logged.ended(key)
        self.succeeded += 1
        self.failed_by = ""
        if outcome is not None and outcome.after_s == math.inf:
            self.queue.rest(key, outcome.dependencies)
            return "success"
        self.queue.forget(key)
        if outcome is None:
            return "success"
        self.queue.add_after(key, outcome.after_s)
        return "requeue_after"

    def _flow_of(self, key: K) -> Hashable:
        return self.queue.group_of(key) if self.spec.by_cluster else flows.OWN

    def _back_off(self, key: K, error: Exception) -> None:
        """Enqueue a key with back-off: its own, or the one of a dependency that it shares."""
        if isinstance(error, RetryError) and error.dependencies:
            self.queue.wait_for(key, error.dependencies)
        else:
            self.queue.wait_alone(key)
        if not isinstance(error, RetryError) or error.is_own:
            self.queue.add_rate_limited(key)

    def _about(self, key: K, reason: str) -> dict[str, str]:
        text = "/".join(map(str, key)) if isinstance(key, tuple) else str(key)
        return {"controller": self.name, "key": text, "reason": reason}
