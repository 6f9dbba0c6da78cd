"""What of the checkpoint cannot be written, why, and when it is tried again."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from karmada_vc_agent.kube.errors import KubeError

FIRST_S = 10.0
"""The first repetition is that of the next look, 5 s later: most refusals pass by then."""
LONGEST_S = 300.0
"""To encode 10,000 Works takes 2 s, and a host that refuses them once mostly goes on to."""


@dataclass(frozen=True, slots=True)
class _Failure:
    error: KubeError
    times: int
    due_at: float


class Failures:
    """The last error of each write: of a virtual cluster, or what else is written."""

    def __init__(self) -> None:
        self._found: dict[str, _Failure] = {}

    @property
    def errors(self) -> Mapping[str, KubeError]:
        """Return what cannot be written -> why."""
        return {what: failure.error for what, failure in self._found.items()}

    def is_due(self, what: str) -> bool:
        """Whether it is to be tried now."""
        failure = self._found.get(what)
        return failure is None or _now() >= failure.due_at

    def failed(self, what: str, error: KubeError) -> int:
        """Take note of an error; return how many there were in a row."""
        known = self._found.get(what)
        times = known.times + 1 if known is not None else 1
        pause_s = 0.0 if times == 1 else min(LONGEST_S, FIRST_S * 2.0 ** min(times - 2, 10))
        self._found[what] = _Failure(error, times, _now() + pause_s)
        return times

    def forget_all_but(self, known: Collection[str]) -> None:
        """Forget what is not to be written any more."""
        self._found = {what: each for what, each in self._found.items() if what in known}

    def passed(self, what: str) -> None:
        """Take note that it was written."""
        self._found.pop(what, None)


def _now() -> float:
    return asyncio.get_running_loop().time()
