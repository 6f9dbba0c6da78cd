"""The writes of the checkpoint that fail, why, and when they are retried."""

import asyncio
from collections.abc import Collection

from karmada_vc_agent.kube.errors import KubeError

FIRST_S = 10.0
"""The first retry is that of the next write, 5 s later: most refusals end by then."""
LONGEST_S = 300.0
"""To encode 10,000 Works takes 2 s, and a host that refuses them once mostly continues to."""


class Failures:
    """The last error of each write: of a virtual cluster, or of another key."""

    def __init__(self) -> None:
        self.errors: dict[str, KubeError] = {}
        self._times: dict[str, int] = {}
        self._due_at: dict[str, float] = {}

    def is_due(self, key: str) -> bool:
        """Return whether to try it now."""
        return key not in self.errors or _now() >= self._due_at[key]

    def failed(self, key: str, error: KubeError) -> int:
        """Note an error; return how many there were in a row."""
        times = self._times[key] = self._times.get(key, 0) + 1
        pause_s = 0.0 if times == 1 else min(LONGEST_S, FIRST_S * 2.0 ** min(times - 2, 10))
        self.errors[key], self._due_at[key] = error, _now() + pause_s
        return times

    def forget_all_but(self, keys: Collection[str]) -> None:
        """Forget what is not to be written any more."""
        for key in self.errors.keys() - keys:
            self.passed(key)

    def passed(self, key: str) -> None:
        """Note that it was written."""
        self.errors.pop(key, None)
        self._times.pop(key, None)


def _now() -> float:
    return asyncio.get_running_loop().time()
