"""A queue of keys: each at most once, with delays, back-off and fair queuing."""

import asyncio
import itertools
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Generic, TypeVar

from cachetools import LRUCache

from karmada_vc_agent.kube.flows import LoopTime, TokenBucket

K = TypeVar("K", bound=Hashable)

DEPENDENCIES_OF_ONE_KEY = 8
"""A key with more shares the back-off of these only; it is reconciled again anyway."""


class _SharedBackOff(Generic[K]):
    """The keys that wait for each dependency; one of them, each time another, checks for all."""

    def __init__(self, base_delay_s: float, max_delay_s: float, send: Callable[[K], None]) -> None:
        self._base_delay_s = base_delay_s
        self._max_delay_s = max_delay_s
        self._send = send
        self._keys: defaultdict[Hashable, dict[K, None]] = defaultdict(dict)
        self._checks: dict[Hashable, asyncio.TimerHandle] = {}
        self._of_key: dict[K, tuple[Hashable, ...]] = {}

    def waiting(self) -> Iterable[K]:
        """Return the keys that wait for any dependency."""
        return list(self._of_key)

    def failed(self, key: K, dependencies: Iterable[Hashable]) -> None:
        """Let a key wait for its dependencies; those it no longer has may be met."""
        now = tuple(dict.fromkeys(dependencies))[:DEPENDENCIES_OF_ONE_KEY]
        for dependency in self._of_key.get(key, ()):
            if dependency not in now:
                self._leave(key, dependency, is_met=True)
        self._of_key[key] = now
        for dependency in now:
            self._keys[dependency][key] = None
            if dependency not in self._checks:
                self._check_later(dependency, self._base_delay_s)

    def succeeded(self, key: K) -> None:
        """Remove a key: its dependencies may be met, so the others that wait for them try."""
        for dependency in self._of_key.pop(key, ()):
            self._leave(key, dependency, is_met=True)

    def dropped(self, keys: Iterable[K]) -> None:
        """Remove keys without a conclusion about their dependencies."""
        for key in keys:
            for dependency in self._of_key.pop(key, ()):
                self._leave(key, dependency, is_met=False)

    def _leave(self, key: K, dependency: Hashable, *, is_met: bool) -> None:
        others = self._keys[dependency]
        del others[key]
        if is_met or not others:
            self._checks.pop(dependency).cancel()
        if not others:
            del self._keys[dependency]
        elif is_met:
            self._check_later(dependency, self._base_delay_s)
            for other in others:
                self._send(other)

    def _check_later(self, dependency: Hashable, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        delay_s = min(delay_s, self._max_delay_s)
        self._checks[dependency] = loop.call_later(delay_s, self._check, dependency, delay_s)

    def _check(self, dependency: Hashable, delay_s: float) -> None:
        """Send the next key, and another one after twice the delay."""
        keys = self._keys[dependency]
        key = next(iter(keys))
        keys[key] = keys.pop(key)
        self._send(key)
        self._check_later(dependency, 2 * delay_s)


SHARED_MAX_DELAY_S = 10.0
"""Maximum pause of a dependency: one key checks for all, so it may check often."""

GROUPS_REMEMBERED = 1024
"""Groups whose rate of retries is kept; one that is dropped may retry a burst at once."""


HELD_CHECK_S = 0.05
"""How often groups that are held are checked: what they computed lately counts less and less."""


class ControllerInstrument:
    """Hooks for the metrics of a queue and of the reconciles of its keys; these do nothing."""

    def added(self) -> None:
        """Count a key added."""

    def retried(self) -> None:
        """Count a retry of a key."""

    def taken(self, waited_s: float) -> None:
        """Record how long a key waited."""

    def done(self, worked_s: float) -> None:
        """Record how long a key was processed."""

    def ended(self, result: str, took_s: float) -> None:
        """Count a reconcile; result: success, requeue_after, error, panic."""


class WorkQueue(Generic[K]):
    """Keys waiting to be processed; one that is added meanwhile waits until that is done.

    Groups alternate. A key that fails waits for its group and what else it names, its dependencies,
    and is retried when one of these changes. Meanwhile it backs off by itself, or with the keys of
    its group that wait for the same dependency, or it is not retried at all.

    base_delay_s, max_delay_s: the back-off of add_rate_limited, doubled by each failure.
    new_retries: creates the rate limit for retries of one group. at_once: how many keys of one
    group are processed concurrently; 0 = no limit. clock: for metrics. loop_time: a group that
    exceeds its share of it waits while another group, that does not, has a key here.
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
        self._ready: OrderedDict[Hashable, OrderedDict[K, float]] = OrderedDict()
        self._queued: set[K] = set()
        self._working: dict[K, tuple[float, Hashable]] = {}
        self._working_of: Counter[Hashable] = Counter()
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._shared: _SharedBackOff[K] = _SharedBackOff(
            base_delay_s, min(max_delay_s, SHARED_MAX_DELAY_S), self._send_check
        )
        self._dependencies: dict[K, frozenset[Hashable]] = {}
        self._waiting: defaultdict[Hashable, dict[K, None]] = defaultdict(dict)
        self._changed: dict[K, set[Hashable]] = {}
        self._due: dict[K, asyncio.TimerHandle] = {}
        self._may_take = asyncio.Event()
        self._closed = False
        self.instrument = ControllerInstrument()

    def close(self) -> None:
        """Close the queue: no key is taken any more."""
        self._closed = True
        self._may_take.set()

    def __len__(self) -> int:
        """Return the number of ready keys."""
        return sum(len(keys) for keys in self._ready.values())

    def waiting(self) -> dict[Hashable, tuple[int, float]]:
        """Return, for each group, the number of ready keys and how many seconds the first waits."""
        now = self._clock()
        return {
            group: (len(keys), now - next(iter(keys.values())))
            for group, keys in self._ready.items()
        }

    def working_s(self) -> list[float]:
        """Return for how many seconds each key in progress has been processed."""
        now = self._clock()
        return [now - started for started, _ in self._working.values()]

    def add(self, key: K) -> None:
        """Enqueue a key now; one that is queued already keeps its place."""
        if (timer := self._due.pop(key, None)) is not None:
            timer.cancel()
        if key in self._working:
            self._again.add(key)
            return
        if key in self._queued:
            return  # if its group changed meanwhile, two workers would process it
        group = self.group_of(key)
        self._queued.add(key)
        self._ready.setdefault(group, OrderedDict())[key] = self._clock()
        self.instrument.added()
        self._may_take.set()

    def add_after(self, key: K, delay_s: float) -> None:
        """Enqueue a key after a delay; of several delays of one key the shortest counts."""
        if delay_s <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        if (timer := self._due.get(key)) is not None:
            if timer.when() <= loop.time() + delay_s:
                return
            timer.cancel()
        self._due[key] = loop.call_later(delay_s, self.add, key)

    def add_rate_limited(self, key: K) -> None:
        """Enqueue a key after its back-off, and double that."""
        if key not in self._dependencies:
            self._wait(key, ())
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay_s = min(self._max_delay_s, self._base_delay_s * 2 ** min(failures, 60))
        self.instrument.retried()
        self.add_after(key, max(delay_s, self._retries_of(key).reserve()))

    def wait_for(self, key: K, dependencies: Iterable[Hashable]) -> None:
        """Let a key wait for dependencies; all keys of its group that do share one back-off."""
        shared, group = tuple(dependencies), self.group_of(key)
        self._shared.failed(key, [(group, dependency) for dependency in shared])
        self._wait(key, shared)
        if self._is_outdated(key):
            self.add_rate_limited(key)

    def wait_alone(self, key: K) -> None:
        """Remove a key from what it shares: it fails for a reason of its own."""
        self._shared.dropped((key,))
        self._wait(key, ())

    def rest(self, key: K, dependencies: Iterable[Hashable]) -> None:
        """Retry a key only when a dependency changes; if one did meanwhile, it backs off."""
        self._shared.succeeded(key)
        self._wait(key, dependencies)
        if self._is_outdated(key):
            self.add_rate_limited(key)
        else:
            self._failures.pop(key, None)

    def changed(self, dependencies: Collection[Hashable]) -> None:
        """Retry the keys that wait for something that changed."""
        for changed in self._changed.values():
            changed.update(dependencies)
        waiting = [self._waiting.get(dependency, ()) for dependency in dependencies]
        self._retry(dict.fromkeys(itertools.chain(*waiting)))

    def forget(self, key: K) -> None:
        """Reset the back-off of a key: it succeeded."""
        self._failures.pop(key, None)
        self._shared.succeeded(key)
        self._end_wait(key)

    def retry_failed(self) -> None:
        """Enqueue every key that failed the last time; scheduled ones stay delayed."""
        failed = [key for key in self._failures if key in self._due]
        self._retry(dict.fromkeys((*failed, *self._shared.waiting())))

    def _retry(self, keys: Collection[K]) -> None:
        self._shared.dropped(keys)
        for key in keys:
            self._failures.pop(key, None)
            self._end_wait(key)
            self.add(key)

    def _wait(self, key: K, dependencies: Iterable[Hashable]) -> None:
        self._end_wait(key)
        self._dependencies[key] = frozenset((self.group_of(key), *dependencies))
        for dependency in self._dependencies[key]:
            self._waiting[dependency][key] = None

    def _is_outdated(self, key: K) -> bool:
        """Return whether a dependency changed while the key was processed."""
        return not self._dependencies[key].isdisjoint(self._changed.get(key, ()))

    def _end_wait(self, key: K) -> None:
        for dependency in self._dependencies.pop(key, ()):
            self._waiting[dependency].pop(key, None)
            if not self._waiting[dependency]:
                del self._waiting[dependency]

    def _send_check(self, key: K) -> None:
        """Enqueue a key as its group may retry it, unless it is due before that anyway."""
        retries = self._retries_of(key)
        after_s = retries.reserve()
        due = asyncio.get_running_loop().time() + after_s
        timer = self._due.get(key)
        is_soon = timer is not None and timer.when() <= due
        if key in self._queued or key in self._working or is_soon:
            retries.give_back()
            return
        self.instrument.retried()
        self.add_after(key, after_s)

    def _retries_of(self, key: K) -> TokenBucket:
        """Return the limit for retries of the group of a key."""
        group = self.group_of(key)
        if group not in self._retries:
            self._retries[group] = self._new_retries()
        return self._retries[group]

    async def take(self) -> K | None:
        """Wait for the next key, None once the queue is closed; `done` must follow."""
        while not self._closed:
            group = self._next_group()
            if group is not None:
                return self._take_of(group)
            self._may_take.clear()
            await self._may_take.wait()
        return None

    def _next_group(self) -> Hashable | None:
        """Return the longest waiting group below its limit of workers."""
        return next(filter(self._may_have_another, self._ready), None)

    def _may_have_another(self, group: Hashable) -> bool:
        is_below = not self.at_once or self._working_of[group] < self.at_once
        return is_below and not self._is_held(group)

    def _is_held(self, group: Hashable) -> bool:
        """Return whether a group exceeds its share of the loop while another one does not."""
        loop_time = self._loop_time
        if loop_time is None or not loop_time.is_over(group):
            return False
        active = (other for other in (*self._ready, *self._working_of) if other != group)
        if all(map(loop_time.is_over, active)):
            return False
        loop_time.held(group)
        if self._held_check is None:
            loop = asyncio.get_running_loop()
            self._held_check = loop.call_later(HELD_CHECK_S, self._check_held)
        return True

    def _check_held(self) -> None:
        self._held_check = None
        self._may_take.set()

    def _take_of(self, group: Hashable) -> K:
        keys = self._ready[group]
        key, since = keys.popitem(last=False)
        self._queued.discard(key)
        if keys:
            self._ready.move_to_end(group)
        else:
            del self._ready[group]
        now = self._clock()
        self._working[key] = (now, group)
        self._working_of[group] += 1
        self._changed[key] = set()
        self._end_wait(key)
        self.instrument.taken(now - since)
        return key

    def done(self, key: K) -> None:
        """Mark a key as processed."""
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
            self.add(key)
