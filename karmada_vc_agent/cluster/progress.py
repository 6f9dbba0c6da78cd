"""Records the last attempt for each virtual cluster, to distinguish stuck from slow."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any


class Progress:
    """Records attempts, whatever their result."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._noted: dict[str, float] = {}

    def note(self, name: str) -> None:
        """Record an attempt."""
        self._noted[name] = self._clock()

    def forget(self, name: str) -> None:
        """Expect no more attempts."""
        self._noted.pop(name, None)

    def late(self, limit_s: float, possible_since: float) -> list[str]:
        """Return the virtual clusters whose last attempt is longer ago than `limit_s`.

        possible_since: since when attempts could finish, by the same clock; inf in an outage.
        """
        now = self._clock()
        noted = self._noted.items()
        return sorted(name for name, at in noted if now - max(at, possible_since) > limit_s)


def vital_checks(
    tasks: Iterable[asyncio.Task[Any]], leases: Progress, limit_s: float, hub_answers_since: float
) -> dict[str, str | None]:
    """Return the liveness checks: name -> None, or a failure that only a restart can fix.

    tasks: those that must run until cancelled. leases: attempts to renew, and `limit_s` after which
    one is overdue; see Progress.late.
    """
    ended = ", ".join(task.get_name() for task in tasks if task.done())
    late = ", ".join(leases.late(limit_s, hub_answers_since))
    return {
        "tasks": f"ended unexpectedly: {ended}" if ended else None,
        "leases": f"no attempt to renew for {limit_s:g}s: {late}" if late else None,
    }
