"""The Ready of Clusters in the agent's own judgement, and what the hub accepts of it.

The agent judges by its own probe of the host. What the hub writes into the condition (Unknown, if
it has not heard of the agent) is about the connection to the hub, not about the host.
"""

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.signal import Signal

T = TypeVar("T")

REPORTS = STATUS, LEASE = "status", "Lease"


class Judgements:
    """The Ready condition of each virtual cluster as judged by the agent.

    changed: a virtual cluster whose status changed.
    """

    def __init__(self, scopes: Scopes) -> None:
        self._conditions: dict[str, Condition] = scopes.keep()
        self.changed: Signal[[str]] = Signal()

    def of(self, name: str) -> Condition | None:
        """Return the last judged condition, or None before the first probe."""
        return self._conditions.get(name)

    def is_ready(self, name: str) -> bool:
        """Return True if the host can take writes for a virtual cluster."""
        judged = self._conditions.get(name)
        return judged is not None and judged["status"] == "True"

    def judge(self, name: str, ready: Condition) -> None:
        """Store a condition; listeners are called if its status changed."""
        before = self._conditions.get(name)
        self._conditions[name] = ready
        if before is None or before["status"] != ready["status"]:
            self.changed.emit(name)


class HubContact:
    """The times at which the hub last accepted Lease and status of each Cluster.

    An answer is not enough: with an expired certificate every request is answered by 401, while
    open watches live on.
    patience_s: how long it may accept nothing; after that it considers the agent dead.
    changed: a Cluster of which the hub accepted something for the first time, or again after it was
    late. It becomes late without a signal.
    """

    def __init__(
        self, patience_s: float, scopes: Scopes, clock: Callable[[], float] = time.monotonic
    ) -> None:
        scopes.ended.subscribe(self.forget)
        self._patience_s = patience_s
        self._clock = clock
        self._accepted_at: dict[tuple[str, str], float] = {}
        self._heard_at: dict[tuple[str, str], float] = {}
        self._reasons: dict[tuple[str, str], str] = {}
        self.changed: Signal[[str]] = Signal()

    def accepted(self, name: str, what: str) -> None:
        """Record that the hub has accepted STATUS or LEASE of a Cluster."""
        before = (self.silent_s(name) is None, self.problem_of(name))
        self._accepted_at[name, what] = self._heard_at[name, what] = self._clock()
        self._reasons.pop((name, what), None)
        if before != (False, self.problem_of(name)):
            self.changed.emit(name)

    def forget(self, name: str) -> None:
        """Drop a Cluster that is not ours to report."""
        for what in REPORTS:
            self._accepted_at.pop((name, what), None)
            self._heard_at.pop((name, what), None)
            self._reasons.pop((name, what), None)

    async def track(self, name: str, what: str, write: Awaitable[T]) -> T:
        """Await a write; record the error if the hub rejects it. Raises what `write` raises."""
        self._accepted_at.setdefault((name, what), self._clock())
        try:
            return await write
        except KubeError as error:
            self._reasons[name, what] = str(error)
            raise

    def is_accepted(self, name: str) -> bool:
        """Return True if the hub has accepted writes for a Cluster within its patience."""
        return not self._late_of(name)

    def silent_s(self, name: str) -> float | None:
        """Return how many seconds ago the hub last had STATUS or LEASE of a Cluster as desired.

        None where it never had, or where that is not ours to report.
        """
        times = [self._heard_at[name, what] for what in REPORTS if (name, what) in self._heard_at]
        return self._clock() - max(times) if times else None

    def problem_of(self, name: str) -> str | None:
        """Return what the hub has not accepted of a Cluster for too long, and why, or None.

        The same text for as long as it lasts: it becomes part of a status.
        """
        late = self._late_of(name)
        if not late:
            return None
        return f"the hub accepts no {late[0][1]} of Cluster {name}{self._why(late[0])}"

    def problem(self) -> str | None:
        """Return what the hub has not accepted for too long, and why, or None."""
        late = self._late()
        if not late:
            return None
        others = len({cluster for cluster, _, _ in late}) - 1
        return self._problem(late[0], f" (and {others} more)" if others else "")

    def accepts_others(self) -> bool:
        """Return True if the hub accepts all of some Clusters, beside those that are late."""
        late = {cluster for cluster, _, _ in self._late()}
        return any(cluster not in late for cluster, _ in self._accepted_at)

    def _problem(self, late: tuple[str, str, float], more: str) -> str:
        name, what, since = late
        seconds = round(self._clock() - since)
        why = self._why(late)
        return f"the hub has accepted no {what} of Cluster {name}{more} for {seconds} s{why}"

    def _why(self, late: tuple[str, str, float]) -> str:
        reason = self._reasons.get(late[:2])
        return f": {reason}" if reason else ""

    def _late_of(self, name: str) -> list[tuple[str, str, float]]:
        """Return what is late of one virtual cluster; called for each of many."""
        return self._late_among((name, what) for what in REPORTS)

    def _late(self) -> list[tuple[str, str, float]]:
        return self._late_among(self._accepted_at)

    def _late_among(self, keys: Iterable[tuple[str, str]]) -> list[tuple[str, str, float]]:
        """Return (virtual cluster, what, since when), longest first."""
        limit = self._clock() - self._patience_s
        since = [(*key, at) for key in keys if (at := self._accepted_at.get(key)) is not None]
        return sorted((each for each in since if each[2] < limit), key=lambda entry: entry[2])
