"""One back-off for all keys that wait for the same dependency.

They wait together, and one of them, the probe, is retried to check the dependency; each time
another one. A key that succeeds shows only that its dependencies may be met: it may just have been
deleted. So it sends two probes immediately, and each of these that succeeds sends two more.
"""

import itertools
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

SENT_AFTER_SUCCESS = 2
DEPENDENCIES_OF_ONE_KEY = 8
"""A key with more waits for these only; it is reconciled again anyway."""


@dataclass(slots=True)
class _Waiters(Generic[K]):
    """keys: the waiting ones, in the order in which they are sent. probes: those that were sent."""

    keys: dict[K, None] = field(default_factory=dict)
    probes: set[K] = field(default_factory=set)
    failures: int = 0


class SharedBackOff(Generic[K]):
    """The keys that wait for each dependency.

    send: called to enqueue a key after so many seconds.
    """

    def __init__(
        self, base_delay_s: float, max_delay_s: float, send: Callable[[K, float], None]
    ) -> None:
        self._base_delay_s = base_delay_s
        self._max_delay_s = max_delay_s
        self._send = send
        self._waiters: dict[Hashable, _Waiters[K]] = {}
        self._of_key: dict[K, tuple[Hashable, ...]] = {}

    def waiting(self) -> Iterable[K]:
        """Return the keys that wait for any dependency."""
        return list(self._of_key)

    def failed(self, key: K, dependencies: Iterable[Hashable]) -> None:
        """Let a key wait for its dependencies; those it no longer has may be met."""
        now = tuple(dict.fromkeys(dependencies))[:DEPENDENCIES_OF_ONE_KEY]
        for dependency in self._of_key.get(key, ()):
            if dependency not in now:
                self._leave(key, dependency)
        self._of_key[key] = now
        for dependency in now:
            waiters = self._waiters.setdefault(dependency, _Waiters())
            waiters.keys.setdefault(key)
            waiters.probes.discard(key)
            if not waiters.probes:
                delay_s = self._delay_s(waiters)
                waiters.failures += 1
                self._send_next(waiters, 1, delay_s)

    def succeeded(self, key: K) -> None:
        """Remove a key that succeeded; others of its dependencies check whether they do, too."""
        for dependency in self._of_key.pop(key, ()):
            self._leave(key, dependency)

    def dropped(self, keys: Iterable[K]) -> None:
        """Remove keys without a conclusion about their dependencies; the others check instead."""
        dependencies_of = {key: self._of_key.pop(key, ()) for key in keys}
        for key, dependencies in dependencies_of.items():
            for dependency in dependencies:
                del self._waiters[dependency].keys[key]
                self._waiters[dependency].probes.discard(key)
        for dependency in dict.fromkeys(itertools.chain(*dependencies_of.values())):
            waiters = self._waiters[dependency]
            if not waiters.keys:
                del self._waiters[dependency]
            elif not waiters.probes:
                self._send_next(waiters, 1, self._delay_s(waiters))

    def _leave(self, key: K, dependency: Hashable) -> None:
        waiters = self._waiters[dependency]
        del waiters.keys[key]
        waiters.probes.discard(key)
        if waiters.keys:
            waiters.failures = 0
            self._send_next(waiters, SENT_AFTER_SUCCESS, 0.0)
        else:
            del self._waiters[dependency]

    def _delay_s(self, waiters: _Waiters[K]) -> float:
        delay_s: float = self._base_delay_s * 2 ** min(waiters.failures, 60)
        return min(delay_s, self._max_delay_s)

    def _send_next(self, waiters: _Waiters[K], count: int, delay_s: float) -> None:
        for _ in range(min(count, len(waiters.keys))):
            key = next(iter(waiters.keys))
            del waiters.keys[key]
            waiters.keys[key] = None
            waiters.probes.add(key)
            self._send(key, delay_s)
