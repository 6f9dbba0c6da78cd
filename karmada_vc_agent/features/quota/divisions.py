"""The state of the division of each quota: what it waits for, and since when."""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from karmada_vc_agent.features.quota.shares import Pending
from karmada_vc_agent.work.namespaces.default_objects import NamespaceShares

STALLED_AFTER_S = 10.0
"""A division in progress waits for the server now and then, each time for less than a second."""


class Divisions(NamespaceShares):
    """The state of each division: what it waits for; a long wait is a stall."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: dict[str, tuple[Pending, float] | None] = {}
        self._new: dict[str, dict[str, asyncio.Event]] = {}

    def note(self, cluster: str, pending: Pending | None) -> None:
        """Record what a division waits for; None = it is complete."""
        waiting = self._waiting.get(cluster)
        if pending is None or waiting is None or waiting[0] != pending:
            self._waiting[cluster] = (pending, self._clock()) if pending else None

    def forget(self, cluster: str) -> None:
        """Forget a virtual cluster that has no quota any more, or is not served."""
        self._waiting.pop(cluster, None)
        self.settle(cluster, tuple(self._new.get(cluster, ())))

    def expect(self, cluster: str, namespace: str) -> None:
        """Record a host namespace whose quota was just created, and has no share yet."""
        self._new.setdefault(cluster, {}).setdefault(namespace, asyncio.Event())

    def settle(self, cluster: str, namespaces: Iterable[str]) -> None:
        """Record namespaces in which the host enforces their shares."""
        new = self._new.get(cluster, {})
        for namespace in namespaces:
            if namespace in new:
                new.pop(namespace).set()

    async def share(self, cluster: str, namespace: str) -> None:
        """Wait until a new namespace has its share, no longer than until a division stalls."""
        event = self._new.get(cluster, {}).get(namespace)
        if event is None or self.stalled(cluster) is not None:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), STALLED_AFTER_S)
        self.settle(cluster, [namespace])

    def is_checked(self, cluster: str) -> bool:
        """Return whether the quota of a virtual cluster was checked yet."""
        return cluster in self._waiting

    def stalled(self, cluster: str) -> Pending | None:
        """Return what a division has been waiting for too long, or None."""
        waiting = self._waiting.get(cluster)
        if waiting is None or self._clock() - waiting[1] < STALLED_AFTER_S:
            return None
        return waiting[0]

    def all(self) -> dict[str, bool]:
        """Return virtual cluster -> whether the division of its quota is stalled."""
        return {cluster: self.stalled(cluster) is not None for cluster in self._waiting}
