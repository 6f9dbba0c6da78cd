"""Deletions by the hub that are too many at once wait for a confirmation (ADR 76).

Before the objects of a Work are removed, all deletions that wait are counted together with those
of the window. After a start, or a list of the hub, these are all that it has.
"""

import asyncio
import hashlib
import logging
import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import msgspec

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown
from karmada_vc_agent.config.settings import Fields
from karmada_vc_agent.kube.controller import (
    ControllerSpec,
    Enqueues,
    NotReadyError,
    Requeue,
    RetryError,
    Signal,
    itself,
)
from karmada_vc_agent.model.objects import Object, annotations_of, decode_as, gvk_of, uid_of
from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.model.user_text import listed
from karmada_vc_agent.model.virtual_cluster import Range
from karmada_vc_agent.model.vocabulary import DOMAIN, EXECUTION_FINALIZER, NAMESPACE, is_report
from karmada_vc_agent.runner.parts import ConditionSpec, Feature, Parts
from karmada_vc_agent.telemetry.metrics import Sample
from karmada_vc_agent.work.reporting import WARNING
from karmada_vc_agent.work.works import is_trimmed, manifests_of

_log = logging.getLogger(__name__)

RECORD_PREFIX = "deletions."
"""In the ConfigMap with the agent's state, then a virtual cluster: the record of what is held."""
CONFIRM_PREFIX = f"confirm-deletions.{DOMAIN}/"
"""On that ConfigMap, by an administrator, then a virtual cluster: which list, and what with it."""
KEEP = "keep "
"""Before the digest: delete the Works alone, and keep their objects on the host."""
_NAMED = 10
"""Works that a record names at most."""
_STATE_BYTES, _WITHOUT_NAMES_BYTES, _NAME_BYTES = 2**20, 400, 256
"""What a ConfigMap may have; what each virtual cluster has in it, names of Works aside; a name."""


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


class Deletion(NamedTuple):
    """A Work that is being deleted; objects: how many of the host are deleted with it."""

    uid: str
    work: str
    objects: int


class Record(msgspec.Struct, frozen=True):
    """The held deletions of a virtual cluster, as recorded on the host.

    removed: objects deleted within the window before. objects: those held. total: all objects,
    removed ones included. works: names of some held Works. count: how many are held.
    """

    digest: str
    removed: int
    objects: int
    total: int
    works: tuple[str, ...] = ()
    count: int = 0


def record_of(
    deletions: Iterable[Deletion], removed: int, total: int, virtual_clusters: int = 1
) -> Record:
    """Return the record of held deletions, in any order; Works without objects are in no list."""
    space = max(0, _STATE_BYTES // max(1, virtual_clusters) - _WITHOUT_NAMES_BYTES)
    held = sorted((each for each in deletions if each.objects), key=lambda each: each.work)
    uids = "\n".join(sorted(each.uid for each in held))
    digest = hashlib.sha256(uids.encode()).hexdigest()[:16]
    names = tuple(each.work for each in held[: min(_NAMED, space // _NAME_BYTES)])
    return Record(digest, removed, count(held), total, names, len(held))


def count(deletions: Iterable[Deletion]) -> int:
    """Return how many objects are deleted."""
    return sum(each.objects for each in deletions)


COUNTED_FOR_S = 1.0
"""How long a count of Works is used; what is removed meanwhile is added to it."""
CHECK_S = 5.0
"""How often it is checked whether held deletions are confirmed, or taken back."""
READ_S = 1.0
"""All whose record is written share what was read of the host's state for so long: it is large."""
SETTLES_S = 1.0
"""Works are deleted one after the other; the record is not written for each of them."""
COMPONENT = "deletion-brake"


@dataclass(slots=True)
class _Counted:
    """The deletions of one virtual cluster.

    removed: objects deleted within the window when the hold began; None = nothing is held. recent:
    (monotonic time, objects) of each deletion within the window. permitted: Works whose objects may
    be removed, uid -> name. pending: the other ones that are being deleted, by uid. shown: uids of
    those with an event. remaining: objects but those of permitted Works.
    """

    removed: int | None = None
    recent: deque[tuple[float, int]] = field(default_factory=deque)
    is_leaving: bool = False
    permitted: dict[str, str] = field(default_factory=dict)
    pending: dict[str, Deletion] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    remaining: int = 0
    counted_at: float = -math.inf

    def permit(self, deletion: Deletion) -> None:
        """Have the objects of a Work removed."""
        self.permitted[deletion.uid] = deletion.work
        if self.pending.pop(deletion.uid, None) is not None:
            self.remaining -= deletion.objects


class DeletionBrake:
    """Decides which Works wait; as a controller, it records them and reads whether to go on.

    Its keys are virtual clusters. changed: emits one whose deletions to check. reported: emits one
    whose record on the host changed.
    """

    def __init__(self, parts: Parts) -> None:
        common, works = parts.common, parts.works
        self._limits = common.config.of(DeletionBrakeFields).deletion_brake
        self._state = common.state
        self._hub_clusters = common.stores.clusters
        self._everywhere = common.virtual_clusters.everywhere
        self._works = works.watches.works
        self._finalizer = works.finalizer
        self._recorder = works.recorder
        self._work_due = common.signals.work_due
        self._monotonic = common.clock.monotonic
        self._read_at = -math.inf
        self._clusters: dict[str, _Counted] = common.scopes.keep()
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
            removed = self._recently(counted)
            counted.pending[deletion.uid] = deletion
            if not self._is_too_much(counted, removed):
                counted.permit(deletion)
                counted.recent.append((now, deletion.objects))
                return
            counted.removed = removed
        if counted.pending.setdefault(deletion.uid, deletion) is deletion:
            self.changed.emit(cluster)
        # It says nothing of the other Works, as NotReadyError would.
        text = f"deletions are held: karmada-vc-agent confirm-deletions {cluster} lists them"
        raise RetryError(text, [("deletions", cluster)])

    def recorded_of(self, cluster: str) -> Record | None:
        """Return what is recorded as held, None = nothing that can be read."""
        return decode_as(Record, self._state.value(RECORD_PREFIX + cluster))

    async def reconcile(self, name: str) -> Requeue | None:
        """Record what is held; release what is confirmed, or not deleted any more."""
        if self._hub_clusters.ours(name) is None:
            if self._hub_clusters.store.is_synced:
                await self._state.write(RECORD_PREFIX + name, None)
            return None
        held, recorded = self._held(name), self.recorded_of(name)
        counted = self._of(name)
        pending = list(counted.pending.values())
        time = asyncio.get_running_loop().time  # that of the timers by which it is checked again
        is_recent = held == recorded and time() - self._read_at < READ_S
        if held is not None or recorded is not None:
            state = await self._state.read_again(name, is_recent=is_recent)
            self._read_at = self._read_at if is_recent else time()
            counted.is_leaving |= state is not None and state.has_left
        confirmed = annotations_of(self._state.live).get(CONFIRM_PREFIX + name, "")
        if recorded is not None and confirmed == KEEP + recorded.digest:
            return await self._keep(name, pending)
        if held is None or counted.is_leaving:
            await self._release(name)
            return None
        is_new = recorded is None or recorded.digest != held.digest
        if confirmed == held.digest and not is_new:
            extra = {"virtual_cluster": name, "objects": held.objects, "digest": confirmed}
            _log.info("Deleting what was confirmed", extra=extra)
            await self._state.annotate({CONFIRM_PREFIX + name: None})
            await self._release(name, pending)
            return None
        if is_new and confirmed:  # of another list, or of this one when it was held before
            await self._state.annotate({CONFIRM_PREFIX + name: None})
            self._read_at = -math.inf
        await self._state.write(RECORD_PREFIX + name, msgspec.json.encode(held).decode())
        if held != recorded:
            self.reported.emit(name)
        self._show(name, held)
        return Requeue(CHECK_S)

    async def _keep(self, name: str, pending: list[Deletion]) -> Requeue | None:
        """Have Works deleted without their objects; it is confirmed until none of them is left."""
        for deletion in pending:
            self._finalizer.abandon(name, deletion.work, deletion.uid)
            self._work_due.emit((name, deletion.work))
        if pending:
            return Requeue(SETTLES_S)
        _log.info("Kept the objects of deleted Works", extra={"virtual_cluster": name})
        await self._state.annotate({CONFIRM_PREFIX + name: None})
        await self._release(name)
        return None

    async def _release(self, name: str, confirmed: Iterable[Deletion] = ()) -> None:
        """Hold nothing; permit what is confirmed, uncounted, but not what was added meanwhile."""
        counted = self._of(name)
        waiting = [each.work for each in counted.pending.values()]
        counted.removed, counted.counted_at = None, -math.inf
        for deletion in confirmed:
            counted.recent.clear()
            counted.permit(deletion)
        if self.recorded_of(name) is not None:
            await self._state.write(RECORD_PREFIX + name, None)
            self.reported.emit(name)
        for work in waiting:
            self._work_due.emit((name, work))

    def _show(self, name: str, record: Record) -> None:
        counted = self._of(name)
        text = (
            f"not deleting from cluster({name}): {record.objects} of {record.total} objects "
            "are being deleted at once, which an administrator of the host has to confirm"
        )
        for uid, deletion in counted.pending.items():
            work = self._works.get(name, deletion.work)
            if uid not in counted.shown and work is not None:
                self._recorder.record(COMPONENT, work, WARNING, "DeletionHeld", text)
        counted.shown = set(counted.pending)

    def _held(self, cluster: str) -> Record | None:
        """Count what is held, None = nothing. Raises NotReadyError while Works are not listed."""
        counted = self._of(cluster)
        store = self._works.store(cluster)
        if counted.removed is None:
            return None
        if store is None or not store.is_synced:
            raise NotReadyError(f"the Works of cluster({cluster}) are not listed")
        self._count(cluster, counted)
        is_held = count(counted.pending.values()) and self._is_too_much(counted, counted.removed)
        if not is_held or self._is_exempt(cluster, counted):
            return None
        total = counted.removed + counted.remaining
        return record_of(counted.pending.values(), counted.removed, total, len(self._everywhere))

    def _of(self, cluster: str) -> _Counted:
        """Return what is counted; what an earlier process held is held again."""
        if cluster not in self._clusters:
            record = self.recorded_of(cluster)
            self._clusters[cluster] = _Counted(record.removed if record is not None else None)
        return self._clusters[cluster]

    def _is_exempt(self, cluster: str, counted: _Counted) -> bool:
        is_off = self._limits.share >= 1
        return is_off or counted.is_leaving or self._finalizer.is_removing(cluster)

    def _recently(self, counted: _Counted) -> int:
        while counted.recent and counted.recent[0][0] <= self._monotonic() - self._limits.window:
            counted.recent.popleft()
        return sum(objects for _, objects in counted.recent)

    def _is_too_much(self, counted: _Counted, removed: int) -> bool:
        deleted = removed + count(counted.pending.values())
        return is_too_much(self._limits, deleted, removed + counted.remaining)

    def _count(self, cluster: str, counted: _Counted) -> None:
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
        if not self._finalizer.is_due(cluster, work) or self._finalizer.preserves(cluster, work):
            return False
        metadata = work["metadata"]
        is_finalised = EXECUTION_FINALIZER not in (metadata.get("finalizers") or ())
        return not (metadata.get("deletionTimestamp") and is_finalised)


def _deletion_of(work: Object) -> Deletion:
    """Return the deletion of a Work; a Namespace counts by the Works that have objects in it."""
    if (measure := is_trimmed(work)) is not None:
        objects = measure.manifest_count
    else:
        objects = sum(gvk_of(each).group_kind != NAMESPACE for each in manifests_of(work))
    return Deletion(uid_of(work), work["metadata"]["name"], objects)


def setup(parts: Parts) -> ControllerSpec[str]:
    brake = parts.common.part(DeletionBrake)
    return ControllerSpec(
        "deletion-brake",
        parts.common.queues.by_name(),
        brake.reconcile,
        initial_keys=lambda: list(parts.common.state.values(RECORD_PREFIX)),
        sources=(
            Enqueues(brake.changed.subscribe, itself, SETTLES_S),
            Enqueues(parts.common.scopes.ended.subscribe, itself, SETTLES_S),
        ),
    )


DELETIONS_HELD = ConditionType(
    "DeletionsHeld",
    "The hub deletes so much at once that the agent deletes nothing "
    "([ADR 76](adr/0076-deletion-brake.md)).",
    normal="False",
    idle="NothingHeld",
    on_object=Shown.UNLESS_IDLE,
    has_event=True,
    warning="Holding deletions; karmada-vc-agent confirm-deletions lists them",
)


def text_of(record: Record | None, shown: int = 3) -> str:
    """Return what is held, None = nothing. shown: names at most; a large fleet records none."""
    if record is None:
        return "no deletion waits for a confirmation"
    named = f" (Works {listed(record.works, shown, record.count)})" if record.works else ""
    deleted = f"{record.objects + record.removed} of {record.total} objects at once"
    return f"the hub deletes {deleted}; the agent holds {record.objects} deletions{named}"


def deletions_held(cluster: str, record: Record | None) -> Condition:
    """Return the condition; record: of what is held, None = nothing."""
    if record is None:
        return DELETIONS_HELD.false("NothingHeld", text_of(record))
    who = "until the hub takes them back, or an administrator of the host runs"
    text = f"{text_of(record)} {who} karmada-vc-agent confirm-deletions {cluster}"
    return DELETIONS_HELD.true("TooManyDeletions", text)


CONDITIONS = (
    ConditionSpec(
        DELETIONS_HELD,
        lambda parts, vc: deletions_held(
            vc.name, parts.common.part(DeletionBrake).recorded_of(vc.name)
        ),
        lambda parts: ((parts.common.part(DeletionBrake).reported.subscribe, itself),),
    ),
)


def _connect(parts: Parts) -> None:
    common = parts.common
    brake = DeletionBrake(parts)

    def samples() -> Iterator[Sample]:
        for name in filter(common.stores.clusters.ours, common.virtual_clusters):
            record = brake.recorded_of(name)
            objects = record.objects if record is not None else 0
            yield Sample("virtual_cluster_deletions_held", (name,), objects)

    common.provide(brake)
    common.metrics.add_source(samples)
    parts.works.finalizer.before_removal.append(brake.check)


FEATURE = Feature(
    "deletion_brake",
    settings=DeletionBrakeFields,
    connect=_connect,
    controllers=(setup,),
    conditions=CONDITIONS,
    metrics="features/deletion_brake/metrics.yaml",
    commands={"confirm-deletions": "karmada_vc_agent.features.deletion_brake.command"},
)
