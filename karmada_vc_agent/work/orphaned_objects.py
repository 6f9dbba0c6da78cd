"""Host objects whose Work the hub does not list: how many, and the first ones."""

from collections.abc import Mapping, Sequence

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

    def counts(self) -> Mapping[str, int]:
        """Return virtual cluster -> how many there are."""
        return {cluster: count for cluster, (count, _) in self._counted.items()}

    def note(self, cluster: str, names: Sequence[str]) -> None:
        """Take the result of a count."""
        before, _ = self.of(cluster)
        self._counted[cluster] = len(names), sorted(names)[:NAMED]
        if before != len(names):
            self.changed.emit(cluster)
