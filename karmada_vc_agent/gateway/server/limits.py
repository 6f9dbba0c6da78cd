"""How much one virtual cluster may ask at once, so that the others are not kept waiting (8)."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from karmada_vc_agent.gateway.server.statuses import RefusalError

SHORT, LONG = 200, 1000
"""Requests of one virtual cluster at once; long: watches, logs that are followed, upgrades."""


class Limits:
    """Counts the requests in progress. most_short, most_long: of each virtual cluster."""

    def __init__(self, most_short: int = SHORT, most_long: int = LONG) -> None:
        self._most = {False: most_short, True: most_long}
        self._in_progress: Counter[tuple[str, bool]] = Counter()

    @contextmanager
    def slot(self, cluster: str, *, is_long: bool) -> Iterator[None]:
        """Have a place while a request is in progress. Raises RefusalError."""
        key = (cluster, is_long)
        if self._in_progress[key] >= self._most[is_long]:
            what = "watches and other long requests" if is_long else "requests"
            counted = "too-many-long" if is_long else "too-many"
            raise RefusalError(429, f"too many {what} at once; try again", counted=counted)
        self._in_progress[key] += 1
        try:
            yield
        finally:
            self._in_progress[key] -= 1
            if not self._in_progress[key]:
                del self._in_progress[key]

    def in_progress(self) -> dict[tuple[str, bool], int]:
        """Return (virtual cluster, whether long) -> requests now."""
        return dict(self._in_progress)
