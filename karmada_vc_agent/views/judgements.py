"""Which Clusters are Ready by the agent's own judgement, and what the hub accepts of it.

The agent judges by its own probe of the host. What the hub writes beside it (Unknown, when it
has not heard of the agent) says something about the way to the hub and nothing about the host.
"""

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.status.conditions import Condition

T = TypeVar("T")

STATUS, LEASE = "status", "Lease"


class Judgements:
    """The Ready condition of each virtual cluster as the agent sees it."""

    def __init__(self) -> None:
        self._conditions: dict[str, Condition] = {}
        self._listeners: list[Callable[[str], None]] = []

    def add_listener(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with each virtual cluster of which another status is held."""
        self._listeners.append(listener)

    def of(self, name: str) -> Condition | None:
        """Return the condition that was judged last, or None before the first probe."""
        return self._conditions.get(name)

    def is_ready(self, name: str) -> bool:
        """Whether the host can take what is sent to a virtual cluster."""
        judged = self._conditions.get(name)
        return judged is not None and judged["status"] == "True"

    def judge(self, name: str, ready: Condition) -> None:
        """Hold a condition; who waits for it is told where its status is another."""
        before = self._conditions.get(name)
        self._conditions[name] = ready
        if before is None or before["status"] != ready["status"]:
            for listener in self._listeners:
                listener(name)

    def forget(self, name: str) -> None:
        """Drop what was held of a Cluster that is not ours any more."""
        self._conditions.pop(name, None)


class HubContact:
    """When the hub last accepted Lease and status of each Cluster, and what it says instead.

    Being answered is not enough: with an expired certificate every request is, by 401, while
    watches that are open live on.
    patience_s: how long it may accept nothing; after that it takes the agent for dead.
    """

    def __init__(self, patience_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience_s = patience_s
        self._clock = clock
        self._accepted_at: dict[tuple[str, str], float] = {}
        self._reasons: dict[tuple[str, str], str] = {}

    def accepted(self, name: str, what: str) -> None:
        """Note that the hub has STATUS or LEASE of a Cluster as the agent wants it."""
        self._accepted_at[name, what] = self._clock()
        self._reasons.pop((name, what), None)

    def forget(self, name: str) -> None:
        """Expect nothing of a Cluster that is not ours to report."""
        for what in (STATUS, LEASE):
            self._accepted_at.pop((name, what), None)
            self._reasons.pop((name, what), None)

    async def noting(self, name: str, what: str, write: Awaitable[T]) -> T:
        """Wait for a write; note why the hub does not accept it. Raises what `write` does."""
        self._accepted_at.setdefault((name, what), self._clock())
        try:
            return await write
        except KubeError as error:
            self._reasons[name, what] = str(error)
            raise

    def is_accepted(self, name: str) -> bool:
        """Whether the hub has heard of a Cluster within its patience."""
        return not any(late == name for late, _, _ in self._late())

    def trouble(self) -> str | None:
        """Return what the hub has not accepted for too long, and why, or None."""
        late = self._late()
        if not late:
            return None
        name, what, since = late[0]
        reason = self._reasons.get((name, what))
        others = len({cluster for cluster, _, _ in late}) - 1
        more = f" (and {others} more)" if others else ""
        seconds = round(self._clock() - since)
        because = f": {reason}" if reason else ""
        return f"the hub has accepted no {what} of Cluster {name}{more} for {seconds} s{because}"

    def _late(self) -> list[tuple[str, str, float]]:
        """Return (virtual cluster, what, since when), those that wait longest first."""
        limit = self._clock() - self._patience_s
        late = [(*key, at) for key, at in self._accepted_at.items() if at < limit]
        return sorted(late, key=lambda entry: entry[2])
