"""Holds deletions that are too many at once, until confirmed or ended (ADR 76).

Before the objects of a Work are removed, all deletions that wait are counted together with those
of the window. After a start, or a list of the hub, these are all that it has.
"""

import hashlib
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from karmada_vc_agent.cluster.agent_state import AgentState
from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.config.settings import Fields
from karmada_vc_agent.kube.controller import NotReadyError, RetryError, Signal
from karmada_vc_agent.model.domain import DOMAIN
from karmada_vc_agent.model.karmada import EXECUTION_FINALIZER, is_report
from karmada_vc_agent.model.kinds import NAMESPACE
from karmada_vc_agent.model.objects import Object, gvk_of, uid_of
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.model.setting import Range
from karmada_vc_agent.work.work_finalizer import WorkFinalizer
from karmada_vc_agent.work.works import Works, is_trimmed, manifests_of

RECORD_PREFIX = "deletions."
"""In the ConfigMap with the agent's state, then a virtual cluster: the record of what is held."""
CONFIRM_PREFIX = f"confirm-deletions.{DOMAIN}/"
"""On that ConfigMap, by an administrator, then a virtual cluster: which list, and what with it."""
KEEP = "keep "
"""Before the digest: delete the Works alone, and keep their objects on the host."""
_NAMED = 20
"""Works that a record names; those of all virtual clusters are in one ConfigMap."""


class DeletionBrakeSettings(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """When deletions by the hub are held."""

    share: Annotated[float, Range(zero="any")] = 0.3
    """Share of the objects of a virtual cluster: if the hub deletes more than that within the
    window, the agent holds the deletions ([ADR 76](adr/0076-deletion-brake.md)). 1: none is held,
    as for clusters of tests that are emptied again and again."""
    at_least: Annotated[int, Range(1)] = 10
    """Fewer deletions than that are never held."""
    window: Annotated[Duration, Range(is_open=True)] = Duration(300)
    """Within that time deletions are counted together."""


class DeletionBrakeFields(Fields, frozen=True):
    """What the settings have of it."""

    deletion_brake: DeletionBrakeSettings = DeletionBrakeSettings()
    """When deletions wait for a confirmation."""


def is_too_much(limits: DeletionBrakeSettings, deleted: int, total: int) -> bool:
    """Return whether so many deletions are held; total: all objects, those deleted included."""
    return deleted >= limits.at_least and deleted > limits.share * total


@dataclass(frozen=True, slots=True)
class Deletion:
    """A Work that is being deleted; objects: how many of the host are deleted with it."""

    uid: str
    work: str
    objects: int


class Record(msgspec.Struct, frozen=True):
    """The held deletions of a virtual cluster, as recorded on the host.

    removed: objects deleted within the window before. objects: those held. total: all objects,
    removed ones included. works: names of some held Works.
    """

    digest: str
    removed: int
    objects: int
    total: int
    works: tuple[str, ...] = ()


def record_of(deletions: Iterable[Deletion], removed: int, total: int) -> Record:
    """Return the record of held deletions; Works without objects are in no list."""
    held = sorted((each for each in deletions if each.objects), key=lambda each: each.work)
    names = tuple(each.work for each in held[:_NAMED])
    return Record(digest_of(held), removed, count(held), total, names)


def read_record(text: str) -> Record | None:
    """Return a record; None if there is none, or a malformed one."""
    try:
        return msgspec.json.decode(text, type=Record) if text else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def state_path(namespace: str, agent: str) -> str:
    """Return the path of the ConfigMap with the agent's state."""
    return f"/api/v1/namespaces/{namespace}/configmaps/{agent}-state"


def digest_of(deletions: Iterable[Deletion]) -> str:
    """Return the digest of a list, whatever its order."""
    uids = sorted(each.uid for each in deletions)
    return hashlib.sha256("\n".join(uids).encode()).hexdigest()[:16]


def count(deletions: Iterable[Deletion]) -> int:
    """Return how many objects are deleted."""
    return sum(each.objects for each in deletions)


class Recent:
    """The number of objects deleted within the window; times are monotonic seconds."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._deleted: deque[tuple[float, int]] = deque()
        self._count = 0

    def add(self, objects: int, now: float) -> None:
        """Add deleted objects."""
        self._deleted.append((now, objects))
        self._count += objects

    def count(self, now: float) -> int:
        """Return how many there were."""
        while self._deleted and self._deleted[0][0] <= now - self._window_s:
            self._count -= self._deleted.popleft()[1]
        return self._count


COUNTED_FOR_S = 1.0
"""How long a count of Works is used; what is removed meanwhile is added to it."""


@dataclass(slots=True)
class _Counted:
    """The deletions of one virtual cluster.

    removed: objects deleted within the window when the hold began; None = nothing is held. report:
    the record on the host. permitted: Works whose objects may be removed, uid -> name.
    pending: the other ones that are being deleted, by uid. shown: uids of those with an event.
    remaining: objects but those of permitted Works.
    """

    recent: Recent
    removed: int | None = None
    report: Record | None = None
    is_leaving: bool = False
    permitted: dict[str, str] = field(default_factory=dict)
    pending: dict[str, Deletion] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    remaining: int = 0
    counted_at: float = -math.inf


class DeletionBrake:
    """Decides which Works wait.

    changed: emits a virtual cluster whose deletions to check. reported: emits one whose reported
    record changed.
    """

    def __init__(
        self,
        limits: DeletionBrakeSettings,
        works: Works,
        finalizer: WorkFinalizer,
        state: AgentState,
        scopes: Scopes,
        monotonic: Callable[[], float],
    ) -> None:
        self._limits = limits
        self._works = works
        self._finalizer = finalizer
        self._state = state
        self._monotonic = monotonic
        self._clusters = scopes.keep_each(lambda: _Counted(Recent(limits.window)))
        self._seen: dict[str, None] = scopes.keep()
        self.changed: Signal[[str]] = Signal()
        self.reported: Signal[[str]] = Signal()

    async def check(self, cluster: str, work: Object) -> None:
        """Pass a Work whose objects may be removed. Raises RetryError while they are held."""
        counted, deletion = self._of(cluster), _deletion_of(work)
        is_counted = not is_report(work) and not self._finalizer.preserves(cluster, work)
        if not is_counted or deletion.uid in counted.permitted or self._is_exempt(cluster, counted):
            return
        if counted.removed is None:
            now = self._monotonic()
            if now - counted.counted_at >= COUNTED_FOR_S:
                self._count(cluster, counted)
            removed = counted.recent.count(now)
            counted.pending[deletion.uid] = deletion
            if not self._is_too_much(counted, removed):
                _permit(counted, deletion)
                counted.recent.add(deletion.objects, now)
                return
            counted.removed = removed
            self.changed.emit(cluster)
        elif deletion.uid not in counted.pending:
            counted.pending[deletion.uid] = deletion
            self.changed.emit(cluster)
        raise _held(cluster)

    def held(self, cluster: str) -> Record | None:
        """Count what is held; None = nothing is, or not any more.

        Raises NotReadyError while the Works are not listed.
        """
        counted = self._of(cluster)
        store = self._works.store(cluster)
        if counted.removed is None:
            return None
        if store is None or not store.is_synced:
            raise NotReadyError(f"the Works of cluster({cluster}) are not listed")
        self._count(cluster, counted)
        is_over = not count(counted.pending.values()) or not self._is_too_much(
            counted, counted.removed
        )
        if is_over or self._is_exempt(cluster, counted):
            return None
        total = counted.removed + counted.remaining
        return record_of(counted.pending.values(), counted.removed, total)

    def pending(self, cluster: str) -> list[Deletion]:
        """Return what was held when it was counted last."""
        return list(self._of(cluster).pending.values())

    def report(self, cluster: str, record: Record) -> list[Deletion]:
        """Show what is held; return what of it was not shown before."""
        counted = self._of(cluster)
        if counted.report != record:
            counted.report = record
            self.reported.emit(cluster)
        new = [each for uid, each in counted.pending.items() if uid not in counted.shown]
        counted.shown = set(counted.pending)
        return new

    def release(self, cluster: str) -> list[str]:
        """Hold nothing any more; return the Works that waited."""
        counted = self._of(cluster)
        waiting = [each.work for each in counted.pending.values()]
        counted.removed, counted.counted_at = None, -math.inf
        if counted.report is not None:
            counted.report = None
            self.reported.emit(cluster)
        return waiting

    def permit(self, cluster: str, confirmed: list[Deletion]) -> list[str]:
        """Permit what is confirmed, and count none of it; return the Works that waited.

        What was added to the list meanwhile is not among it.
        """
        counted = self._of(cluster)
        counted.recent = Recent(self._limits.window)
        waiting = self.release(cluster)
        for deletion in confirmed:
            _permit(counted, deletion)
        return waiting

    def leaves(self, cluster: str) -> None:
        """Hold nothing of a virtual cluster that an administrator removes with `leave`."""
        self._of(cluster).is_leaving = True

    def reported_of(self, cluster: str) -> Record | None:
        """Return what is reported as held, None = nothing."""
        return self._of(cluster).report if cluster in self._clusters else None

    def recorded(self) -> list[str]:
        """Return the virtual clusters with a record on the host."""
        return list(self._state.values(RECORD_PREFIX))

    def _of(self, cluster: str) -> _Counted:
        counted = self._clusters[cluster]
        if cluster not in self._seen:
            self._seen[cluster] = None
            counted.report = read_record(self._state.value(RECORD_PREFIX + cluster))
            counted.removed = counted.report.removed if counted.report is not None else None
        return counted

    def _is_exempt(self, cluster: str, counted: _Counted) -> bool:
        return counted.is_leaving or self._finalizer.is_removing(cluster)

    def _is_too_much(self, counted: _Counted, removed: int) -> bool:
        deleted = removed + count(counted.pending.values())
        return is_too_much(self._limits, deleted, removed + counted.remaining)

    def _count(self, cluster: str, counted: _Counted) -> None:
        """Count the Works of a virtual cluster as they are now."""
        works = [work for work in self._works.of(cluster) if not is_report(work)]
        listed = {uid_of(work) for work in works}

        def is_taken(uid: str, name: str) -> bool:
            taken = self._finalizer.taken((cluster, name))
            return uid not in listed and taken is not None and uid_of(taken) == uid

        counted.permitted = {
            uid: name
            for uid, name in counted.permitted.items()
            if uid in listed or is_taken(uid, name)
        }
        pending = {uid: each for uid, each in counted.pending.items() if is_taken(uid, each.work)}
        counted.remaining = count(pending.values())
        for work in works:
            deletion = _deletion_of(work)
            if deletion.uid in counted.permitted:
                continue
            counted.remaining += deletion.objects
            if self._is_pending(cluster, work):
                pending[deletion.uid] = deletion
        counted.pending, counted.counted_at = pending, self._monotonic()

    def _is_pending(self, cluster: str, work: Object) -> bool:
        """Return whether the agent is to remove the objects of a Work."""
        if not self._finalizer.is_due(cluster, work) or self._finalizer.preserves(cluster, work):
            return False
        metadata = work["metadata"]
        is_finalised = EXECUTION_FINALIZER not in (metadata.get("finalizers") or ())
        return not (metadata.get("deletionTimestamp") and is_finalised)


def _permit(counted: _Counted, deletion: Deletion) -> None:
    counted.permitted[deletion.uid] = deletion.work
    if counted.pending.pop(deletion.uid, None) is not None:
        counted.remaining -= deletion.objects


def _deletion_of(work: Object) -> Deletion:
    """Return the deletion of a Work; a Namespace counts by the Works that have objects in it."""
    measure = is_trimmed(work)
    objects = (
        sum(gvk_of(manifest).group_kind != NAMESPACE for manifest in manifests_of(work))
        if measure is None
        else measure.manifest_count
    )
    return Deletion(uid_of(work), work["metadata"]["name"], objects)


def _held(cluster: str) -> RetryError:
    """Return why a Work waits; it says nothing of the other Works, as NotReadyError would."""
    text = f"deletions are held: karmada-vc-agent confirm-deletions {cluster} lists them"
    return RetryError(text, [("deletions", cluster)])
