"""How many Works of each virtual cluster are applied, counted as they change."""

from collections import defaultdict

from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.features.objects.virtual_cluster_status import (
    APPLIED,
    FAILED,
    NAMED,
    PENDING,
    WorkCounts,
    applied_state,
)
from karmada_vc_agent.kube.signal import Signal
from karmada_vc_agent.model.objects import Object


class WorkTally:
    """Counts without looking at Works that did not change: there may be very many.

    works: (virtual cluster, old, new) of each Work that changes. changed: emits the virtual cluster
    whose counts changed.
    """

    def __init__(self, works: Signal[[str, Object | None, Object | None]], scopes: Scopes) -> None:
        self._states: dict[str, dict[str, str]] = defaultdict(dict)
        self._names: dict[str, dict[str, set[str]]] = {}
        self.changed: Signal[[str]] = Signal()
        works.subscribe(self._work_changed)
        scopes.ended.subscribe(self._end)

    def of(self, cluster: str) -> WorkCounts:
        """Return the counts of a virtual cluster."""
        names = self._names.get(cluster)
        if names is None:
            return WorkCounts()
        failing = names[FAILED]
        first = tuple(sorted(failing)[:NAMED]) if failing else ()
        return WorkCounts(len(names[APPLIED]), len(failing), len(names[PENDING]), first)

    def _end(self, cluster: str) -> None:
        self._states.pop(cluster, None)
        if self._names.pop(cluster, None) is not None:
            self.changed.emit(cluster)

    def _work_changed(self, cluster: str, old: Object | None, new: Object | None) -> None:
        work = new or old
        if work is None:
            return
        name = str(work["metadata"]["name"])
        before = self._states[cluster].get(name)
        after = applied_state(new) if new is not None else None
        if before == after:
            return
        names = self._names.setdefault(cluster, {s: set() for s in (APPLIED, FAILED, PENDING)})
        if before is not None:
            names[before].discard(name)
            del self._states[cluster][name]
        if after is not None:
            names[after].add(name)
            self._states[cluster][name] = after
        self.changed.emit(cluster)
