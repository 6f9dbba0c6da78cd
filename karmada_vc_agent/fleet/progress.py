"""When something was last attempted for each virtual cluster: tells stuck from slow."""

import time
from collections.abc import Callable


class Progress:
    """Notes attempts, however they ended."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._noted: dict[str, float] = {}

    def note(self, name: str) -> None:
        """Note an attempt."""
        self._noted[name] = self._clock()

    def forget(self, name: str) -> None:
        """Expect no more attempts."""
        self._noted.pop(name, None)

    def late(self, limit_s: float, possible_since: float) -> list[str]:
        """Return whose last attempt is longer ago than `limit_s`.

        possible_since: by the same clock, since when attempts could end; inf in an outage.
        """
        now = self._clock()
        noted = self._noted.items()
        return sorted(name for name, at in noted if now - max(at, possible_since) > limit_s)
