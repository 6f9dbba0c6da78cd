"""Distinguishes our own writes from changes by others that arrive while a Work is synced.

Watches are often faster than the responses to writes. A change is held until the sync ends: then
either the sync has seen it, or its Work is enqueued again.
"""

from collections.abc import Callable

from karmada_vc_agent.kube.store import is_echo
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.work.works import WorkKey

_OF_EACH_WRITE = frozenset(("resourceVersion", "managedFields"))
_Version = tuple[str, str]
"""(uid, resourceVersion)"""


class HeldChanges:
    """Holds changes for Works being synced; keys are (virtual cluster, name of the Work)."""

    def __init__(self, enqueue: Callable[[WorkKey], None]) -> None:
        self._enqueue = enqueue
        self._held: dict[WorkKey, set[_Version]] = {}
        self._seen: dict[WorkKey, set[_Version]] = {}
        self._statuses: dict[WorkKey, tuple[set[_Version], set[_Version]]] = {}

    def begin(self, key: WorkKey) -> None:
        """Start to hold changes that concern a Work; its sync begins."""
        self._held[key], self._seen[key] = set(), set()

    def work_changed(self, cluster: str, old: Object | None, new: Object | None) -> None:
        """Enqueue a Work that was added, changed or deleted, unless its sync has seen that."""
        work = new or old
        if work is None or is_echo(old, new):
            return
        key = (cluster, work["metadata"]["name"])
        if new is not None and key in self._statuses:
            # A sync meanwhile takes the status for written, though it may be changed again.
            self._statuses[key][0].add(_version_of(new))
            if _is_of_status(old, new):
                return
        self.changed(key, new)

    def begin_status(self, key: WorkKey) -> None:
        """Start to hold what changes of the status of a Work; ours is being written."""
        self._statuses[key] = (set(), set())

    def end_status(self, key: WorkKey) -> None:
        """Enqueue a Work after its status was written if another writer did, too."""
        held, seen = self._statuses.pop(key, (set(), set()))
        if held - seen:
            self._enqueue(key)

    def changed(self, key: WorkKey, obj: Object | None) -> None:
        """Enqueue a Work because it or an object of it changed; if it is being synced, at the end.

        obj: its current state; None = deleted.
        """
        held = self._held.get(key)
        if held is None or obj is None:
            self._enqueue(key)
        else:
            held.add(_version_of(obj))

    def saw(self, key: WorkKey, obj: Object) -> None:
        """Record that the sync of a Work, or who writes its status, knows this version."""
        if key in self._seen:
            self._seen[key].add(_version_of(obj))
        if key in self._statuses:
            self._statuses[key][1].add(_version_of(obj))

    def end(self, key: WorkKey) -> None:
        """Enqueue a Work after its sync if anything changed that the sync did not see."""
        if self._held.pop(key, set()) - self._seen.pop(key, set()):
            self._enqueue(key)


def _is_of_status(old: Object | None, new: Object) -> bool:
    """Return whether a Work differs from before in its status at most."""
    return old is not None and _fixed_metadata_of(old) == _fixed_metadata_of(new)


def _fixed_metadata_of(work: Object) -> Object:
    return {key: value for key, value in work["metadata"].items() if key not in _OF_EACH_WRITE}


def _version_of(obj: Object) -> _Version:
    return uid_of(obj), str(obj["metadata"].get("resourceVersion") or "")
