"""One back-off for all keys that fail for the same cause.

The keys of a cause wait together, and one of them, the scout, checks whether it still holds; each
time another one. A key that succeeds shows only that its causes may be over: it may just have been
deleted. So it sends two scouts immediately, and each of these that succeeds sends two more.
"""

import itertools
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

SENT_AFTER_SUCCESS = 2
CAUSES_OF_ONE_KEY = 8
"""A key with more waits for these only; it is reconciled again anyway."""


@dataclass(slots=True)
class _Cause(Generic[K]):
    """keys: the waiting ones, in the order in which they are sent. scouts: those that were sent."""

    keys: dict[K, None] = field(default_factory=dict)
    scouts: set[K] = field(default_factory=set)
    failures: int = 0


class SharedBackOff(Generic[K]):
    """Which keys wait for which causes.

    send: called to enqueue a key after so many seconds.
    """

    def __init__(
        self, base_delay_s: float, max_delay_s: float, send: Callable[[K, float], None]
    ) -> None:
        self._base_delay_s = base_delay_s
        self._max_delay_s = max_delay_s
        self._send = send
        self._causes: dict[Hashable, _Cause[K]] = {}
        self._of_key: dict[K, tuple[Hashable, ...]] = {}

    def waiting(self) -> Iterable[K]:
        """Return the keys that wait for any cause."""
        return list(self._of_key)

    def blame(self, key: K, causes: Iterable[Hashable]) -> None:
        """Let a key wait for its causes; those it no longer has may be over."""
        now = tuple(dict.fromkeys(causes))[:CAUSES_OF_ONE_KEY]
        for cause in self._of_key.get(key, ()):
            if cause not in now:
                self._leave(key, cause)
        self._of_key[key] = now
        for cause in now:
            found = self._causes.setdefault(cause, _Cause())
            found.keys.setdefault(key)
            found.scouts.discard(key)
            if not found.scouts:
                delay_s = self._delay_s(found)
                found.failures += 1
                self._send_next(found, 1, delay_s)

    def succeeded(self, key: K) -> None:
        """Remove a key that succeeded; others of its causes check whether they do, too."""
        for cause in self._of_key.pop(key, ()):
            self._leave(key, cause)

    def dropped(self, keys: Iterable[K]) -> None:
        """Remove keys without a conclusion about their causes; those left check in their place."""
        causes_of = {key: self._of_key.pop(key, ()) for key in keys}
        for key, causes in causes_of.items():
            for cause in causes:
                del self._causes[cause].keys[key]
                self._causes[cause].scouts.discard(key)
        for cause in dict.fromkeys(itertools.chain(*causes_of.values())):
            found = self._causes[cause]
            if not found.keys:
                del self._causes[cause]
            elif not found.scouts:
                self._send_next(found, 1, self._delay_s(found))

    def _leave(self, key: K, cause: Hashable) -> None:
        found = self._causes[cause]
        del found.keys[key]
        found.scouts.discard(key)
        if found.keys:
            found.failures = 0
            self._send_next(found, SENT_AFTER_SUCCESS, 0.0)
        else:
            del self._causes[cause]

    def _delay_s(self, cause: _Cause[K]) -> float:
        delay_s: float = self._base_delay_s * 2 ** min(cause.failures, 60)
        return min(delay_s, self._max_delay_s)

    def _send_next(self, cause: _Cause[K], count: int, delay_s: float) -> None:
        for _ in range(min(count, len(cause.keys))):
            key = next(iter(cause.keys))
            del cause.keys[key]
            cause.keys[key] = None
            cause.scouts.add(key)
            self._send(key, delay_s)
