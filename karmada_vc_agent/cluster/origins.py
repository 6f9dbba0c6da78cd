"""Origins of virtual clusters that are discovered: neither in the file nor objects."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from karmada_vc_agent.kube.signal import Signal


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of one.

    text: `NodeGroup shop-a`. is_label: it is a label that nodes have. absence: why that is not
    there any more, and the consequence; "" while it is there.
    """

    text: str
    is_label: bool = False
    absence: str = ""


class Origins:
    """Origins by virtual cluster, and what was discovered but is not served.

    source: of the settings, `nodeGroups`. changed: a virtual cluster whose origin changed.
    """

    def __init__(self) -> None:
        self._origins: dict[tuple[str, str], Origin] = {}
        self._by_cluster: dict[str, Origin] = {}
        self._refused: dict[tuple[str, str], str] = {}
        self.changed: Signal[[str]] = Signal()

    def of(self, cluster: str) -> Origin | None:
        """Return the origin of a virtual cluster; None for one of the file, or an object."""
        return self._by_cluster.get(cluster)

    def note(self, source: str, cluster: str, origin: Origin | None) -> None:
        """Record the origin of one that a source defines, None if it defines none of this name."""
        before = self._origins.pop((source, cluster), None)
        if origin is not None:
            self._origins[source, cluster] = self._by_cluster[cluster] = origin
        elif before is not None and self._by_cluster.get(cluster) == before:
            del self._by_cluster[cluster]
        if origin != before:
            self.changed.emit(cluster)

    def refuse(self, source: str, cluster: str, problem: str) -> bool:
        """Record why one is not served as discovered, "" if it is; return True if that is new."""
        before = self._refused.pop((source, cluster), "")
        if problem:
            self._refused[source, cluster] = problem
        return problem != before

    def refusals(self) -> list[str]:
        """Return why what was discovered is not served, each in a text."""
        return list(self._refused.values())

    def refused(self) -> Mapping[str, int]:
        """Return how many are not served: source -> number."""
        return Counter(source for source, _ in self._refused)
