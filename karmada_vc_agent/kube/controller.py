"""Controllers: workers of one queue of keys, and the changes that enqueue these."""

import asyncio
import itertools
import logging
import math
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar

from cachetools import LRUCache

from karmada_vc_agent.kube import flows
from karmada_vc_agent.kube.errors import ConflictError, KubeError, UnreachableError
from karmada_vc_agent.kube.flows import LogOnce, LoopTime, TokenBucket, measured

K = TypeVar("K", bound=Hashable)

SENT_AFTER_SUCCESS = 2
"""So many try after each that succeeds, not all: it may just have been deleted."""


@dataclass(eq=False, repr=False)
class _SharedBackOff(Generic[K]):
    """The keys that wait for each dependency; one of them, each time another, checks for all."""

    base_delay_s: float
    max_delay_s: float
    send: Callable[[K], None]
    is_pending: Callable[[K], bool]

    def __post_init__(self) -> None:
        self._keys: defaultdict[Hashable, dict[K, None]] = defaultdict(dict)
        self._checks: dict[Hashable, asyncio.TimerHandle] = {}
        self.waits_for: dict[K, Hashable] = {}

    def failed(self, key: K, dependency: Hashable) -> None:
        """Let a key wait for a dependency; another one that it waited for may be met."""
        if self.waits_for.get(key, dependency) != dependency:
            self.leave(key, is_met=True)
        self.waits_for[key] = dependency
        self._keys[dependency][key] = None
        if dependency not in self._checks:
            self._check_later(dependency, self.base_delay_s)

    def leave(self, key: K, *, is_met: bool) -> None:
        """Remove a key. is_met: its dependency may be met, so others that wait for it try."""
        if key not in self.waits_for:
            return
        dependency = self.waits_for.pop(key)
        others = self._keys[dependency]
        del others[key]
        if is_met or not others:
            self._checks.pop(dependency).cancel()
        if not others:
            del self._keys[dependency]
        elif is_met:
            sent = [self._send_next(others) for _ in range(SENT_AFTER_SUCCESS)]
            self._check_later(dependency, self.base_delay_s, sent)

    def _check_later(self, dependency: Hashable, delay_s: float, sent: Iterable[K] = ()) -> None:
        loop = asyncio.get_running_loop()
        delay_s = min(delay_s, self.max_delay_s)
        self._checks[dependency] = loop.call_later(delay_s, self._check, dependency, delay_s, sent)

    def _check(self, dependency: Hashable, delay_s: float, sent: Iterable[K]) -> None:
        """Send the next key unless one that was sent still holds a worker; later check again."""
        if not any(map(self.is_pending, sent)):
            sent = (self._send_next(self._keys[dependency]),)
        self._check_later(dependency, 2 * delay_s, sent)

    def _send_next(self, keys: dict[K, None]) -> K:
        key = next(iter(keys))
        keys[key] = keys.pop(key)
        self.send(key)
        return key


SHARED_MAX_DELAY_S = 10.0
"""Maximum pause of a dependency: one key checks for all, so it may check often."""

GROUPS_REMEMBERED = 1024
"""Groups whose rate of retries is kept; one that is dropped may retry a burst at once."""

HELD_CHECK_S = 0.05
"""How often groups that are held are checked: what they computed lately counts less and less."""

TICK_S, LONG_TICKS = 0.25, 20
"""Keys that wait for so many ticks are due with the next one: the loop wakes once for many."""

LOW_EVERY = 8
"""One key of so many is of the backlog while there is one, and one of so many of each group."""


@dataclass(slots=True)
class ControllerInstrument:
    """Hooks for the metrics of a queue and of the reconciles of its keys; these do nothing.

    added, retried: a key. taken, done: how many seconds a key waited, and was processed. ended: a
    reconcile; result: success, requeue_after, error, panic; and its seconds.
    """

    added: Callable[[], None] = lambda: None
    retried: Callable[[], None] = lambda: None
    taken: Callable[[float], None] = lambda _waited_s: None
    done: Callable[[float], None] = lambda _worked_s: None
    ended: Callable[[str, float], None] = lambda _result, _took_s: None


_Groups = OrderedDict[Hashable, OrderedDict[K, float]]
"""Group -> its keys, with since when they wait; each in their order."""


class WorkQueue(Generic[K]):
    """Keys waiting to be processed; one that is added meanwhile waits until that is done.

    Groups alternate. What `flows.low_priority` or a requeue enqueues is the backlog, with retries,
    until it is done or a change enqueues it. A key that fails is retried when its group or one of
    its dependencies changes. Meanwhile it backs off by itself, with the keys of its group that wait
    for the same dependency, or not at all.

    base_delay_s, max_delay_s: the back-off of add_rate_limited, doubled by each failure.
    new_retries: creates the rate limit for retries of one group. at_once: how many keys of one
    group are processed concurrently; 0 = no limit. loop_time: a group that exceeds its share of it
    waits while another group, that does not, has a key here.
    """

    def __init__(
        self,
        group_of: Callable[[K], Hashable],
        base_delay_s: float = 0.005,
        max_delay_s: float = 1000.0,
        new_retries: Callable[[], TokenBucket] | None = None,
        clock: Callable[[], float] = time.monotonic,
        at_once: int = 0,
        loop_time: LoopTime | None = None,
    ) -> None:
        self.group_of = group_of
        self._base_delay_s = base_delay_s
        self._max_delay_s = max_delay_s
        self._new_retries = new_retries or (lambda: TokenBucket(0.0, 1, clock))
        self._retries: LRUCache[Hashable, TokenBucket] = LRUCache(GROUPS_REMEMBERED)
        self.at_once = at_once
        self._loop_time = loop_time
        self._held_check: asyncio.TimerHandle | None = None
        self._clock = clock
        self._ready: _Groups[K] = OrderedDict()
        self._backlog: _Groups[K] = OrderedDict()
        self._since_backlog = 0
        self._since_own: dict[Hashable, int] = {}
        self._queued: dict[K, Hashable] = {}
        self._low: set[K] = set()  # those of the backlog that are not queued
        self._working: dict[K, tuple[float, Hashable]] = {}
        self._working_of: Counter[Hashable] = Counter()
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._shared: _SharedBackOff[K] = _SharedBackOff(
            base_delay_s, min(max_delay_s, SHARED_MAX_DELAY_S), self._send_check, self._is_pending
        )
        self._dependencies: dict[K, frozenset[Hashable]] = {}
        self._waiting: defaultdict[Hashable, dict[K, None]] = defaultdict(dict)
        self._changed: dict[K, set[Hashable]] = {}
        self._due: dict[K, asyncio.TimerHandle] = {}
        self.reasons: dict[K, object] = {}
        """The last reason of keys that wait for such a one alone; others are processed in full."""
        self._may_take = asyncio.Event()
        self._closed = False
        self.instrument = ControllerInstrument()

    def close(self) -> None:
        self._closed = True
        self._may_take.set()

    def __len__(self) -> int:
        return len(self._queued)

    def waiting(self) -> dict[Hashable, tuple[int, float]]:
        """Return, for each group, the number of ready keys and how many seconds the first waits."""
        now, waiting = self._clock(), dict[Hashable, tuple[int, float]]()
        for group, keys in (*self._ready.items(), *self._backlog.items()):
            count, longest_s = waiting.get(group, (0, 0.0))
            waiting[group] = count + len(keys), max(longest_s, now - next(iter(keys.values())))
        return waiting

    def working_s(self) -> list[float]:
        return [self._clock() - started for started, _ in self._working.values()]

    def add(self, key: K) -> None:
        """Enqueue a key now; one that is queued already keeps its place, unless it is lifted."""
        self.add_after(key, 0.0)

    def is_low(self, key: K) -> bool:
        """Return whether a key is of the backlog."""
        return key in self._low or key in self._backlog.get(self._queued.get(key), ())

    def _set_priority(self, key: K) -> None:
        """Count a key among the backlog if it is new here, no longer if a change enqueues it."""
        if flows.is_low_priority():
            if not (self._is_pending(key) or self._is_waiting(key)):
                self._low.add(key)
        elif self.is_low(key):
            self._low.discard(key)
            if (group := self._queued.get(key)) is not None:
                since = _pop(self._backlog, group, key)
                self._ready.setdefault(group, OrderedDict())[key] = since

    def _enqueue(self, key: K) -> None:
        if (timer := self._due.pop(key, None)) is not None:
            timer.cancel()
        if key in self._working:
            self._again.add(key)
            return
        if key in self._queued:
            return  # if its group changed meanwhile, two workers would process it
        group = self._queued[key] = self.group_of(key)
        ready = self._backlog if key in self._low else self._ready
        self._low.discard(key)
        ready.setdefault(group, OrderedDict())[key] = self._clock()
        self.instrument.added()
        self._may_take.set()

    def add_after(self, key: K, delay_s: float, reason: object = None) -> None:
        """Enqueue a key after a delay; of several delays of one key the shortest counts."""
        is_due = self._is_pending(key) or self._is_waiting(key) or key in self._failures
        had_reason = self.reasons.pop(key, None) is not None
        if reason is not None and (had_reason or not is_due):
            self.reasons[key] = reason
        self._set_priority(key)
        self._enqueue_after(key, delay_s)

    def _enqueue_after(self, key: K, delay_s: float) -> None:
        if delay_s <= 0:
            self._enqueue(key)
            return
        loop = asyncio.get_running_loop()
        if (timer := self._due.get(key)) is not None:
            if timer.when() <= loop.time() + delay_s:
                return
            timer.cancel()
        due = loop.time() + delay_s
        if delay_s >= TICK_S * LONG_TICKS:
            due = math.ceil(due / TICK_S) * TICK_S
        self._due[key] = loop.call_at(due, self._enqueue, key)

    def requeue_after(self, key: K, delay_s: float) -> None:
        """Enqueue a key that was processed, of the backlog unless it changed meanwhile."""
        if not (key in self._again or key in self._due):
            self._low.add(key)
        self._enqueue_after(key, delay_s)

    def add_rate_limited(self, key: K) -> None:
        if key not in self._dependencies:
            self._wait(key, ())
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay_s = min(self._max_delay_s, self._base_delay_s * 2 ** min(failures, 60))
        self.instrument.retried()
        self._enqueue_after(key, max(delay_s, self._retries_of(key).reserve()))

    def wait_for(self, key: K, dependencies: Iterable[Hashable]) -> None:
        """Let a key wait for dependencies; keys of its group share the back-off of the first."""
        shared = tuple(dependencies)
        if shared:
            self._shared.failed(key, (self.group_of(key), shared[0]))
        else:
            self._shared.leave(key, is_met=False)
        self._wait(key, shared)
        if shared and self._is_outdated(key):
            self.add_rate_limited(key)

    def rest(self, key: K, dependencies: Iterable[Hashable]) -> None:
        """Retry a key only when a dependency changes; if one did meanwhile, it backs off."""
        self._shared.leave(key, is_met=True)
        self._wait(key, dependencies)
        if self._is_outdated(key):
            self.add_rate_limited(key)
        else:
            self._failures.pop(key, None)

    def changed(self, dependencies: Collection[Hashable]) -> None:
        for changed in self._changed.values():
            changed.update(dependencies)
        waiting = [self._waiting.get(dependency, ()) for dependency in dependencies]
        self._retry(dict.fromkeys(itertools.chain(*waiting)))

    def forget(self, key: K) -> None:
        self._failures.pop(key, None)
        self._shared.leave(key, is_met=True)
        self._end_wait(key)

    def retry_failed(self) -> None:
        """Enqueue every key that failed the last time; scheduled ones stay delayed."""
        failed = [key for key in self._failures if key in self._due]
        self._retry(dict.fromkeys((*failed, *self._shared.waits_for)))

    def _retry(self, keys: Collection[K]) -> None:
        for key in keys:
            self._shared.leave(key, is_met=False)
            self._failures.pop(key, None)
            self._end_wait(key)
            self._enqueue(key)

    def _wait(self, key: K, dependencies: Iterable[Hashable]) -> None:
        self._end_wait(key)
        self._dependencies[key] = frozenset((self.group_of(key), *dependencies))
        for dependency in self._dependencies[key]:
            self._waiting[dependency][key] = None

    def _is_outdated(self, key: K) -> bool:
        return not self._dependencies[key].isdisjoint(self._changed.get(key, ()))

    def _end_wait(self, key: K) -> None:
        for dependency in self._dependencies.pop(key, ()):
            self._waiting[dependency].pop(key, None)
            if not self._waiting[dependency]:
                del self._waiting[dependency]

    def _send_check(self, key: K) -> None:
        """Enqueue a key as its group may retry it, unless it is due before that anyway."""
        retries, timer = self._retries_of(key), self._due.get(key)
        after_s = retries.reserve()
        is_soon = timer and timer.when() <= asyncio.get_running_loop().time() + after_s
        if self._is_pending(key) or is_soon:
            retries.give_back()
            return
        self.instrument.retried()
        self._enqueue_after(key, after_s)

    def _is_pending(self, key: K) -> bool:
        return key in self._queued or key in self._working

    def _is_waiting(self, key: K) -> bool:
        return key in self._due or key in self._dependencies

    def _retries_of(self, key: K) -> TokenBucket:
        return self._retries.setdefault(self.group_of(key), self._new_retries())

    async def take(self) -> K | None:
        """Wait for the next key, None once the queue is closed; `done` must follow."""
        while not self._closed:
            is_due = self._since_backlog >= LOW_EVERY - 1
            for ready in (self._backlog, self._ready) if is_due else (self._ready, self._backlog):
                # The longest waiting group below its limit of workers.
                group = next(filter(self._may_have_another, ready), None)
                if group is not None:
                    return self._take_of(ready, group)
            self._may_take.clear()
            await self._may_take.wait()
        return None

    def _may_have_another(self, group: Hashable) -> bool:
        """Return False above its workers, or its share of the loop while another one is below."""
        loop_time = self._loop_time
        if self.at_once and self._working_of[group] >= self.at_once:
            return False
        if loop_time is None or not loop_time.is_over(group):
            return True
        active = {*self._ready, *self._backlog, *self._working_of} - {group}
        if all(map(loop_time.is_over, active)):
            return True
        loop_time.held(group)
        if self._held_check is None:
            loop = asyncio.get_running_loop()
            self._held_check = loop.call_later(HELD_CHECK_S, self._check_held)
        return False

    def _check_held(self) -> None:
        self._held_check = None
        self._may_take.set()

    def _take_of(self, ready: _Groups[K], group: Hashable) -> K:
        ready.move_to_end(group)
        is_low, since_own = ready is self._backlog, self._since_own.pop(group, 0)
        self._since_backlog = 0 if is_low or not self._backlog else self._since_backlog + 1
        if not is_low and group in self._backlog:
            # If its changes hold all of its workers, others with a backlog are always before it.
            is_low = since_own >= LOW_EVERY - 1
            self._since_own[group] = (since_own + 1) % LOW_EVERY
        ready = self._backlog if is_low else ready
        key = next(iter(ready[group]))
        if is_low:
            self._low.add(key)
        since = _pop(ready, group, key)
        del self._queued[key]
        now = self._clock()
        self._working[key] = (now, group)
        self._working_of[group] += 1
        self._changed[key] = set()
        self._end_wait(key)
        self.instrument.taken(now - since)
        return key

    def done(self, key: K) -> None:
        taken = self._working.pop(key, None)
        self._changed.pop(key, None)
        if taken is not None:
            started, group = taken  # the key may belong to another group by now
            self.instrument.done(self._clock() - started)
            self._working_of[group] -= 1
            if not self._working_of[group]:
                del self._working_of[group]
            self._may_take.set()  # its group may have had its maximum, another one was held
        if key in self._again:
            self._again.discard(key)
            self._enqueue(key)
        elif key not in self._due and key not in self._dependencies:
            self._low.discard(key)


def _pop(groups: _Groups[K], group: Hashable, key: K) -> float:
    since = groups[group].pop(key)
    if not groups[group]:
        del groups[group]
    return since


P = ParamSpec("P")


class Signal(Generic[P]):
    """Calls its handlers in the order of subscription; raises the first failure after all."""

    def __init__(self) -> None:
        self._handlers: list[Callable[P, object]] = []

    def subscribe(self, handler: Callable[P, object]) -> None:
        self._handlers.append(handler)

    def emit(self, *args: P.args, **kwargs: P.kwargs) -> None:
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


def itself(key: Any, *_: Any) -> tuple[Any]:
    """Return the keys of a change that is a key itself, or whose first part is."""
    return (key,)


RETRIES_EVERY_S = 0.5
"""Changes within that time are passed on as one, however often a tenant changes something."""

Subscribe = Callable[[Callable[..., None]], object]
"""Takes a handler: the `add_handler` of a store, the `subscribe` of a signal."""


@dataclass(frozen=True, slots=True)
class Enqueues(Generic[K]):
    """keys: maps a change to the keys to enqueue. after_s: delay, to let changes settle.

    is_reason: the last part of a change is what keys are enqueued for, see WorkQueue.reasons.
    """

    subscribe: Subscribe
    keys: Callable[..., Iterable[K]]
    after_s: float = 0.0
    is_reason: bool = False

    def connect(self, queue: WorkQueue[K]) -> None:
        def changed(*change: object) -> None:
            for key in self.keys(*change):
                queue.add_after(key, self.after_s, change[-1] if self.is_reason else None)

        self.subscribe(changed)


@dataclass(frozen=True, slots=True)
class Retries(Generic[K]):
    """Retries the keys that wait for what changed; subscribe: of a signal of such dependencies."""

    subscribe: Subscribe

    def connect(self, queue: WorkQueue[K]) -> None:
        collected: set[Hashable] = set()
        next_at = -math.inf

        def pass_on() -> None:
            nonlocal next_at
            next_at = asyncio.get_running_loop().time() + RETRIES_EVERY_S
            queue.changed(set(collected))
            collected.clear()

        def changed(dependencies: Collection[Hashable]) -> None:
            loop, is_scheduled = asyncio.get_running_loop(), bool(collected)
            collected.update(dependencies)
            if is_scheduled or not collected:
                return
            if loop.time() < next_at:
                loop.call_at(next_at, pass_on)
            else:
                pass_on()

        self.subscribe(changed)


Source = Enqueues[K] | Retries[K]


_log = logging.getLogger(__name__)


RELIEVED_AFTER_S = 1.0
"""A key that takes longer is slow; another one may be worked on in its place."""


@dataclass(frozen=True, slots=True)
class Requeue:
    """Reconcile the key again after a delay; math.inf: when its group or a dependency changes."""

    after_s: float = math.inf
    dependencies: tuple[Hashable, ...] = ()


class RetryError(Exception):
    """Something is not as required yet; the key backs off. `str()` says what.

    dependencies: what other keys wait for as well; those with the same first one share a back-off.
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


@dataclass(frozen=True, slots=True)
class ControllerSpec(Generic[K]):
    """All that there is to say of a controller.

    workers: keys worked on at once; slow ones do not count where the queue has `at_once`. switch:
    the name by which it is switched off; None = it always runs. by_cluster: whether the group of a
    key is a virtual cluster. of_all: also of those of other processes. settles_s: how long keys
    wait that no change enqueues, the first ones among them. resync_keys: all keys of some groups,
    for when nothing cached of them is valid any more. ready: what is waited for at the start. runs:
    what else runs for it, from before that; name -> coroutine.
    """

    name: str
    queue: WorkQueue[K]
    reconcile: Callable[[K], Coroutine[Any, Any, Requeue | None]]
    workers: int = 1
    switch: str | None = None
    by_cluster: bool = True
    of_all: bool = False
    initial_keys: Callable[[], Iterable[K]] = tuple
    settles_s: float = 0.0
    sources: tuple[Source[K], ...] = ()
    resync_keys: Callable[[Iterable[str]], Iterable[K]] = lambda _groups: ()
    ready: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0)
    runs: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)


KEYS_REMEMBERED = 65536
"""Keys that back off at the same time, of which each reason is logged once."""


class Controller(Generic[K]):
    """Runs `reconcile` for the keys of a queue; the only place that logs its failures."""

    def __init__(self, spec: ControllerSpec[K]) -> None:
        self.spec = spec
        self.name = spec.name
        self.queue = spec.queue
        self.instrument = ControllerInstrument()
        self._logged = LogOnce(_log, KEYS_REMEMBERED)
        self.failed_by = ""
        """Why the last key was not, "" if it was; an outage is not logged for each key."""

    def connect(self) -> None:
        for source in self.spec.sources:
            source.connect(self.queue)

    @flows.low_priority()
    def enqueue_initial(self) -> None:
        for key in self.spec.initial_keys():
            self.queue.add_after(key, self.spec.settles_s)

    def resync(self, groups: Iterable[str]) -> None:
        for key in self.spec.resync_keys(groups):
            self.queue.add_after(key, self.spec.settles_s)

    async def run(self) -> None:
        """Work until cancelled, or until the queue is closed and its last keys are done."""
        await self.spec.ready()
        slots = asyncio.Semaphore(self.spec.workers)
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
            with flows.of(self.queue.group_of(key) if self.spec.by_cluster else flows.OWN):
                outcome = await measured(self.spec.reconcile(key))
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
        self.failed_by = ""
        if outcome is not None and outcome.after_s == math.inf:
            self.queue.rest(key, outcome.dependencies)
            return "success"
        self.queue.forget(key)
        if outcome is None:
            return "success"
        self.queue.requeue_after(key, outcome.after_s)
        return "requeue_after"

    def _back_off(self, key: K, error: Exception) -> None:
        retry = error if isinstance(error, RetryError) else RetryError("")
        self.queue.wait_for(key, retry.dependencies)
        if retry.is_own:
            self.queue.add_rate_limited(key)

    def _about(self, key: K, reason: str) -> dict[str, str]:
        text = "/".join(map(str, key)) if isinstance(key, tuple) else str(key)
        return {"controller": self.name, "key": text, "reason": reason}
