"""How much one virtual cluster may ask at once, so that the others are not kept waiting (8)."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from karmada_vc_agent.features.gateway.server.statuses import RefusalError
from karmada_vc_agent.kube.flows import FairSlots
from karmada_vc_agent.kube.open_files import ENDPOINTS, MOST_FILES, RESERVED, endpoint_connections

SHORT, LONG = 200, 1000
"""Requests of one virtual cluster at once; long: watches, logs that are followed, upgrades."""


FILES_OF_REQUEST = 2
"""The connection of the client, and that to the host."""


class Limits:
    """Counts the requests in progress. most_short, most_long: of each virtual cluster.

    files: the limit of open files, which virtual clusters share. are_several: whether they do.
    """

    def __init__(
        self,
        most_short: int = SHORT,
        most_long: int = LONG,
        files: int = MOST_FILES,
        are_several: Callable[[], bool] = lambda: True,
    ) -> None:
        self._most = {False: most_short, True: most_long}
        left = files - RESERVED - ENDPOINTS * endpoint_connections(files)
        self._slots = FairSlots(max(2, left // FILES_OF_REQUEST), are_several)
        self._in_progress: Counter[tuple[str, bool]] = Counter()

    @contextmanager
    def slot(self, cluster: str, *, is_long: bool) -> Iterator[None]:
        """Have a place while a request is in progress. Raises RefusalError."""
        key = (cluster, is_long)
        if self._in_progress[key] >= self._most[is_long] or not self._slots.try_take(cluster):
            what = "watches and other long requests" if is_long else "requests"
            counted = "too-many-long" if is_long else "too-many"
            raise RefusalError(429, f"too many {what} at once; try again", counted=counted)
        self._in_progress[key] += 1
        try:
            yield
        finally:
            self._slots.give_back(cluster)
            self._in_progress[key] -= 1
            if not self._in_progress[key]:
                del self._in_progress[key]

    def active(self) -> Iterator[str]:
        """Yield the virtual clusters that wait for an answer: watches wait for none."""
        return (cluster for cluster, is_long in self._in_progress if not is_long)

    def in_progress(self) -> dict[tuple[str, bool], int]:
        """Return (virtual cluster, whether long) -> requests now."""
        return dict(self._in_progress)
