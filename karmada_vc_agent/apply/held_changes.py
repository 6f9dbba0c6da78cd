"""Tells our own writes from changes by others that a watch tells while their Work is synced.

Watches are often faster than the answers to what they tell of. A change is held until the sync
ends; then it is one that the sync has seen, which needs no other, or its Work is enqueued again.
"""

from collections.abc import Callable

from karmada_vc_agent.kube.store import is_echo
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.views.works import WorkKey

_Version = tuple[str, str]
"""uid, resourceVersion"""


class HeldChanges:
    """Holds changes by the Work that is synced; keys are (virtual cluster, name of the Work)."""

    def __init__(self, enqueue: Callable[[WorkKey], None]) -> None:
        self._enqueue = enqueue
        self._held: dict[WorkKey, set[_Version]] = {}
        self._seen: dict[WorkKey, set[_Version]] = {}

    def begin(self, key: WorkKey) -> None:
        """Hold changes that concern a Work, whose sync begins."""
        self._held[key], self._seen[key] = set(), set()

    def work_changed(self, cluster: str, old: Object | None, new: Object | None) -> None:
        """Enqueue a Work that came, changed or went, unless it is known by an answer already."""
        work = new or old
        if work is not None and not is_echo(old, new):
            self.changed((cluster, work["metadata"]["name"]), new)

    def changed(self, key: WorkKey, obj: Object | None) -> None:
        """Enqueue a Work since it or an object of it changed; if it is synced now, at the end.

        obj: as it is now; None where it is gone.
        """
        held = self._held.get(key)
        if held is None or obj is None:
            self._enqueue(key)
        else:
            held.add(_version_of(obj))

    def saw(self, key: WorkKey, obj: Object) -> None:
        """Note that the sync of a Work knows an object as it is now."""
        if key in self._seen:
            self._seen[key].add(_version_of(obj))

    def end(self, key: WorkKey) -> None:
        """Enqueue a Work whose sync has ended, if anything changed that the sync did not see."""
        if self._held.pop(key, set()) - self._seen.pop(key, set()):
            self._enqueue(key)


def _version_of(obj: Object) -> _Version:
    return uid_of(obj), str(obj["metadata"].get("resourceVersion") or "")
