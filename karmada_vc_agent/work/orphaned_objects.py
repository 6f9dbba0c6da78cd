"""Host objects whose Work the hub does not list: how many, and the first ones."""

from collections.abc import Sequence

from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.kube.signal import Signal

NAMED = 10
"""Objects of a virtual cluster that are remembered by name."""


class OrphanedObjects:
    """By virtual cluster, as of the last look; changed: one of which the number differs."""

    def __init__(self, scopes: Scopes) -> None:
        self._counted: dict[str, tuple[int, list[str]]] = scopes.keep()
        self.changed: Signal[[str]] = Signal()

    def of(self, cluster: str) -> tuple[int, list[str]]:
        """Return how many there are, and the names of the first ones."""
        return self._counted.get(cluster, (0, []))

    def note(self, cluster: str, names: Sequence[str]) -> bool:
        """Take what a look has as result; return whether the number differs from that before."""
        before, _ = self.of(cluster)
        self._counted[cluster] = len(names), sorted(names)[:NAMED]
        if before == len(names):
            return False
        self.changed.emit(cluster)
        return True
