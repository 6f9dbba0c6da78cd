"""Whether an API server answers, according to all of its clients."""

import time
from collections.abc import Callable, Sequence

from karmada_vc_agent.kube.client import ApiClient

NEVER = float("inf")


class Reachability:
    """The latest evidence of several clients of one API server.

    An idle client knows of an old outage but not of its end, so all of them count.
    """

    def __init__(
        self, lanes: Sequence[ApiClient], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lanes = lanes
        self._clock = clock
        self._since = clock()
        for client in lanes:
            client.on_recovery(self._recovered)

    @property
    def is_reachable(self) -> bool:
        """Whether the last finished request got an answer; True before the first one."""
        lost = [client.lost_at for client in self._lanes if client.lost_at is not None]
        answered = [client.answered_at for client in self._lanes if client.answered_at is not None]
        return not lost or max(answered, default=-NEVER) >= max(lost)

    @property
    def since(self) -> float:
        """Return since when all lanes get answers, by the clock; NEVER in an outage."""
        return self._since if self.is_reachable else NEVER

    def _recovered(self) -> None:
        self._since = self._clock()
