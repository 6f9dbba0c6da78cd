"""Tasks: the flow that each is for, fair shares, supervision, retries, threads."""

import asyncio
import logging
import math
import random
import resource
import time
import types
from collections import Counter, OrderedDict, deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Hashable,
    Iterable,
    Iterator,
)
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import partial, partialmethod
from threading import Thread
from typing import Any, TypeVar

from cachetools import LRUCache
from tenacity import AsyncRetrying, retry_if_exception_type, wait_exponential, wait_fixed

from karmada_vc_agent.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    KubeError,
    NotFoundError,
    UnreachableError,
)

T = TypeVar("T")

OWN = ""
"""The flow of what the agent does for itself."""

_flow: ContextVar[Hashable] = ContextVar("flow", default=OWN)


def current() -> Hashable:
    return _flow.get()


@contextmanager
def of(flow: Hashable) -> Iterator[None]:
    """Have this task, and those that it starts, belong to a flow, which shares what is limited."""
    token = _flow.set(flow or OWN)
    try:
        yield
    finally:
        _flow.reset(token)


async def run(flow: Hashable, work: Callable[[], Awaitable[T]]) -> T:
    with of(flow):
        return await work()


class _Enqueueing:
    is_low = False


@contextmanager
def low_priority(*, is_low: bool = True) -> Iterator[None]:
    """Enqueue behind what changes; in a block that does not wait, so no task inherits it."""
    before, _Enqueueing.is_low = _Enqueueing.is_low, is_low
    try:
        yield
    finally:
        _Enqueueing.is_low = before


def is_low_priority() -> bool:
    return _Enqueueing.is_low


class SharedLock(asyncio.Lock):
    """A lock of several flows, whose holder counts as the agent itself.

    Otherwise all that wait for the lock would wait for a slot of the one flow that holds it.
    """

    _token: Token[Hashable]

    async def __aenter__(self) -> None:
        await super().__aenter__()
        self._token = _flow.set(OWN)

    async def __aexit__(self, *exc: object) -> None:
        _flow.reset(self._token)
        self.release()


class FairSlots:
    """A semaphore that flows share: waiters of each in rotation, and the agent itself after any.

    A flow may hold no more than is free at that time; one that is alone (is_shared is False) all
    but one, as the agent itself always may. of_own: slots that only the agent itself may take.
    """

    def __init__(
        self, total: int, is_shared: Callable[[], bool] = lambda: True, of_own: int = 0
    ) -> None:
        self.free = total
        self._is_shared = is_shared
        self._of_own = of_own
        self.held: Counter[Hashable] = Counter()
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def hold(self, flow: Hashable | None = None) -> AsyncIterator[None]:
        """Wait for a slot and hold it; flow: None = that of the running task."""
        flow = current() if flow is None else flow
        if flow in self._waiting or not self.try_take(flow):
            await self._wait(flow)
        try:
            yield
        finally:
            self.give_back(flow)

    def try_take(self, flow: Hashable) -> bool:
        """Take a slot if the flow may have one now; `give_back` must follow."""
        if not self._may_take(flow):
            return False
        self.free -= 1
        self.held[flow] += 1
        return True

    def give_back(self, flow: Hashable) -> None:
        self.free += 1
        self.held[flow] -= 1
        if not self.held[flow]:
            del self.held[flow]
        self.admit()

    def _may_take(self, flow: Hashable) -> bool:
        held = self.held[flow]
        if flow == OWN:
            return self.free > min(held, 1)
        return self.free > max(held if self._is_shared() else min(held, 1), self._of_own)

    async def _wait(self, flow: Hashable) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(flow, deque()).append(future)
        self.admit()  # those in front may have been cancelled
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.give_back(flow)
            raise

    def admit(self, more: int = 0) -> None:
        """Admit waiters, one of each flow in rotation, and the agent itself after any of them.

        more: so many slots that are not free; none is free until they are given back.
        """
        self.free += more
        while (flow := self._next()) is not None:
            futures = self._waiting[flow]
            future = futures.popleft()
            if futures:
                self._waiting.move_to_end(flow)
            else:
                del self._waiting[flow]
            if flow != OWN and OWN in self._waiting:
                self._waiting.move_to_end(OWN, last=False)
            if not future.cancelled() and self.try_take(flow):
                future.set_result(None)
        self.free -= more

    def _next(self) -> Hashable | None:
        """Return the next flow; there may be a thousand, of which none may take one."""
        is_left = self.free > self._of_own
        waiting = self._waiting if is_left else self._waiting.keys() & {OWN}
        return next(filter(self._may_take, waiting), None)


class TokenBucket:
    """Lets callers pass, those that wait of each flow in rotation; qps <= 0 means no limit."""

    def __init__(self, qps: float, burst: int, clock: Callable[[], float]) -> None:
        self._qps = qps
        self._burst = max(burst, 1)
        self._clock = clock
        self._tokens = float(self._burst)
        self._updated = clock()
        self._next: FairSlots | None = None

    def reserve(self) -> float:
        """Take one token and return the seconds to wait before using it."""
        if self._qps <= 0:
            return 0.0
        self._refill()
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._qps)

    def _refill(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._updated) * self._qps)
        self._updated = now

    def try_take(self, *, owes: bool = False) -> bool:
        """Take one token if there is one now; owes: owe it otherwise, up to a burst."""
        if self.reserve() <= 0:
            return True
        self._tokens = max(self._tokens, -float(self._burst)) if owes else self._tokens + 1.0
        return False

    def give_back(self) -> None:
        self._tokens += 1.0

    async def wait(self) -> None:
        if (self._next is None or self._next.free > 0) and self.try_take():
            return
        if self._next is None:  # few buckets are waited for
            self._next = FairSlots(1, is_shared=lambda: False)
        async with self._next.hold():
            if delay_s := self.reserve():
                await asyncio.sleep(delay_s)
                self._refill()
            self._next.admit(int(self._tokens))  # a busy loop takes as long for one as for all


SHORT_WATCH_S = 10


class WatchSlots(asyncio.Semaphore):
    """Limits open watches. Each is an open file: if there are few, requests always have theirs."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._few = limit / 4

    @property
    def are_scarce(self) -> bool:
        """Return whether a watch that starts now should end soon; it resumes where it was."""
        return self._value < self._few


MOST_FILES = 65_536
RESERVED_FILES = 16
"""For regular files, the event loop, the log and the helper processes."""
ENDPOINTS = 2
ENDPOINT_CONNECTIONS = 32
"""Connections at once of one address. Scrapers and kubelets have one or two."""


def raise_file_limit() -> int:
    """Raise the limit of open files as far as allowed and sensible; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    infinite = resource.RLIM_INFINITY
    soft_limit, most = (MOST_FILES if each == infinite else each for each in (soft, hard))
    limit = min(most, MOST_FILES)
    if soft_limit < limit:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return limit
    return soft_limit


DECAY_S = 1.0
"""After this time, what was used counts as 1/e of it."""
REPORTED_EVERY_S = 60.0
SLOWED = 8
"""A step counts as so many times its CPU at most: other processes may have the core."""
BRIEF_S = 0.0002
"""To read the CPU is a system call: shorter steps do without, and others read it as seldom."""


@dataclass(eq=False, repr=False)
class LoopTime:
    """The time that flows compute in the event loop.

    share_of: flow -> seconds of each second that it may compute while others wait; 0 = no bound,
    None = not counted. on_held: called with a flow that waits, once in REPORTED_EVERY_S.
    """

    share_of: Callable[[Hashable], float | None]
    on_held: Callable[[Hashable], None] = lambda _: None
    clock: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.thread_time

    def __post_init__(self) -> None:
        self._read_at, self._lag_s = -math.inf, 0.0
        self._recent: dict[Hashable, tuple[float, float]] = {}
        self._reported_at: dict[Hashable, float] = {}
        self.used: dict[Hashable, float] = {}

    def spend(self, flow: Hashable, seconds: float) -> None:
        if self.share_of(flow) is None:
            return
        self.used[flow] = self.used.get(flow, 0.0) + seconds
        self._recent[flow] = self.recent(flow) + seconds, self.clock()

    def recent(self, flow: Hashable) -> float:
        """Return the seconds that a flow computed lately: the more recent, the more they count."""
        seconds, at = self._recent.get(flow) or (0.0, 0.0)
        return seconds * math.exp((at - self.clock()) / DECAY_S)

    def is_over(self, flow: Hashable) -> bool:
        share = self.share_of(flow) or 0.0
        return share > 0 and self.recent(flow) > share * DECAY_S

    def held(self, flow: Hashable) -> None:
        """Report that a flow waits, because it exceeds its share and others are active."""
        now = self.clock()
        if now - self._reported_at.get(flow, -math.inf) >= REPORTED_EVERY_S:
            self._reported_at[flow] = now
            self.on_held(flow)

    def forget(self, flow: Hashable) -> None:
        for kept in (self.used, self._recent, self._reported_at):
            kept.pop(flow, None)

    @types.coroutine
    def measured(self, flow: Hashable, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        step: Callable[[], Any] = partial(work.send, None)
        while True:
            began = self.clock()
            if began - self._read_at > BRIEF_S:
                self._read_at, self._lag_s = began, began - self.cpu()
            cpu = began - self._lag_s  # at most: as if this thread computed since it was read
            try:
                waits_for = step()
            except StopIteration as ended:
                result: T = ended.value
                return result
            finally:
                took_s = self.clock() - began
                if took_s > BRIEF_S:
                    took_s = min(took_s, SLOWED * max(0.0, self.cpu() - cpu))
                self.spend(flow, took_s)
            try:
                step = partial(work.send, (yield waits_for))
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is meant for work
                step = partial(work.throw, error)


_meter: ContextVar[LoopTime | None] = ContextVar("loop_time", default=None)


def measure_with(meter: LoopTime) -> None:
    _meter.set(meter)


async def measured(work: Coroutine[Any, Any, T]) -> T:
    """Run work of the current flow; measured, unless nothing measures this task."""
    meter = _meter.get()
    return await (work if meter is None else meter.measured(current(), work))


LOGGED_AT_MOST = 4096


class LogOnce:
    """Logs what is said of something if it is not what was said of it last."""

    def __init__(self, log: logging.Logger, remembered: int = LOGGED_AT_MOST) -> None:
        self._log = log
        self._said: LRUCache[Hashable, tuple[str, str]] = LRUCache(remembered)

    def log(
        self,
        level: int,
        message: str,
        bug: BaseException | None = None,
        *,
        about: Hashable = "",
        **extra: object,
    ) -> None:
        """Log unless that was said last, with that reason; bug: logged with its traceback."""
        reason = str(extra.get("reason", "")) if bug is None else repr(bug)
        if self._said.get(about) != (message, reason):
            self._said[about] = (message, reason)
            self._log.log(level, message, exc_info=bug, extra=extra)

    info = partialmethod(log, logging.INFO)
    warning = partialmethod(log, logging.WARNING)
    error = bug = partialmethod(log, logging.ERROR)

    def ended(self, about: Hashable = "") -> bool:
        """Log whatever is said next: the state is over; return whether it had been logged."""
        return about in self._said and bool(self._said.pop(about))


def in_daemon_thread(function: Callable[[], T], name: str) -> Future[T]:
    """Start a function in a thread of its own. Raises RuntimeError if there is no thread left."""
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()  # who waits no more cancels nothing

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 - for who waits for it
            result.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return result


_log = logging.getLogger(__name__)

RESTART_BACKOFF_S = (0.5, 60.0)
CALM_S = 300.0
"""A part that ran this long before it failed is restarted without back-off."""


class Supervisor:
    """Runs parts; logs failures, and restarts after a pause. on_restart: called with the kind."""

    def __init__(self, on_restart: Callable[[str], None] = lambda _: None) -> None:
        self._on_restart = on_restart

    def start(
        self,
        group: asyncio.TaskGroup,
        kind: str,
        run: Callable[[], Awaitable[None]],
        name: str = "",
    ) -> asyncio.Task[None]:
        return group.create_task(self.keep(kind, run, name), name=name or kind)

    async def keep(self, kind: str, run: Callable[[], Awaitable[None]], name: str = "") -> None:
        """Run a part until it ends by itself or is cancelled. kind: counted. name: for the log."""
        failures = 0
        while True:
            started = time.monotonic()
            try:
                return await run()
            except Exception:  # noqa: BLE001 - a part must not cost the others
                failures = 0 if time.monotonic() - started > CALM_S else failures
                low, high = RESTART_BACKOFF_S
                pause_s = min(high, low * 2 ** min(failures, 10))
                failures += 1
                self._on_restart(kind)
                extra = {"part": name or kind, "pause_s": pause_s}
                _log.exception("Restarting a part that failed", extra=extra)
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter


ALONE = Supervisor()


Live = TypeVar("Live")
RetriedErrors = type[KubeError] | tuple[type[KubeError], ...]


RETRY_BACKOFF = wait_exponential(multiplier=0.5, max=5.0)
WRITE_ATTEMPTS = 5
"""Attempts of a write after conflicts, as in Karmada."""
MET_ANOTHER = (AlreadyExistsError, ConflictError, NotFoundError)
"""Another writer created, changed or deleted the object meanwhile."""


async def retry_on_conflict(
    live: Live | None,
    write: Callable[[Live | None], Awaitable[T]],
    read: Callable[[], Awaitable[Live | None]],
    errors: RetriedErrors = MET_ANOTHER,
) -> T:
    """Write according to the live object; on a conflict read it again and retry, without a pause.

    live: None if there is no object; then NotFoundError is about its resource or namespace. Raises
    it, the error of the last of `WRITE_ATTEMPTS`, and whatever else the calls raise.
    """
    for _ in range(WRITE_ATTEMPTS - 1):
        try:
            return await write(live)
        except errors as error:
            if live is None and isinstance(error, NotFoundError):
                raise
        live = await read()
    return await write(live)


async def retry_until_done(what: str, call: Callable[[], Awaitable[T]]) -> T:
    """Retry a call until the server does it; a new reason why not is logged. what: for the log."""
    once = LogOnce(_log)
    retry = retry_if_exception_type(KubeError)
    async for attempt in AsyncRetrying(sleep=asyncio.sleep, wait=RETRY_BACKOFF, retry=retry):
        with attempt:
            try:
                return await call()
            except KubeError as error:
                if not isinstance(error, UnreachableError):
                    once.warning("Waiting for API server", to=what, reason=str(error))
                raise
    raise AssertionError("unreachable")


async def retry_on(
    errors: RetriedErrors, attempts: float, call: Callable[[], Awaitable[T]], pause_s: float = 0.0
) -> T:
    """Retry a call that meets one of `errors`, which the last of `attempts` raises."""
    async for attempt in AsyncRetrying(
        sleep=asyncio.sleep,
        wait=wait_fixed(pause_s),
        stop=lambda state: state.attempt_number >= attempts,
        retry=retry_if_exception_type(errors),
        reraise=True,
    ):
        with attempt:
            return await call()
    raise AssertionError("unreachable")


R = TypeVar("R")


async def for_each(items: Iterable[T], call: Callable[[T], Awaitable[R]]) -> list[R]:
    """Return the results in order; one that fails stops no other, but an outage does.

    Raises that at once, at the end the first error; one that is intended only without any other.
    """
    results: list[R] = []
    errors: list[Exception] = []
    for item in items:
        try:
            results.append(await call(item))
        except UnreachableError:
            raise
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)
    if errors:
        raise min(errors, key=lambda error: getattr(error, "is_intended", False))
    return results
