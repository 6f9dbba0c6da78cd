"""Work -> host objects, conditions, manifestStatuses, finalizer (contract 5, 6).

One reconcile handles a whole Work, whatever enqueued it: a change on the hub, a change of one of
its objects on the host, a retry. So each Work has one writer, and one report.

    read    the Work, its Cluster, the live objects
    decide  translate each manifest, plan its write
    write   the host objects; then report one status with Dispatching, Applied, manifestStatuses

Of an applied manifest only the result is kept: neither its translation nor its object, for memory.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter

from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.interpretation.interpreter import Interpreter
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import NotReadyError, Requeue, RetryError
from karmada_vc_agent.kube.errors import ConflictError, KubeError, NotFoundError, TooLargeError
from karmada_vc_agent.kube.flows import FairSlots, retry_on_conflict
from karmada_vc_agent.kube.store import Store, is_echo
from karmada_vc_agent.model.objects import OBJECT_BYTES, SMALL_BYTES, Object, bytes_of, uid_of
from karmada_vc_agent.model.quantity import WindowState
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.vocabulary import execution_namespace
from karmada_vc_agent.translation.kind_policy import Code, Refusal
from karmada_vc_agent.work import reporting, works
from karmada_vc_agent.work.host_objects import Applied, reading_at_most
from karmada_vc_agent.work.manifests import Manifests
from karmada_vc_agent.work.memory_bounds import KeepStatus, WorkBounds, held_bytes, keep_all
from karmada_vc_agent.work.removal import WorkFinalizer
from karmada_vc_agent.work.rules import apply_plan
from karmada_vc_agent.work.work_watches import HeldChanges
from karmada_vc_agent.work.works import ManifestStatus, WorkKey, WorkMemory, Works, dispatched

_Identity = tuple[str, bool]
"""The uid of a Work, and whether it is being deleted: what is reported of one is of no other."""


@dataclass(eq=False)
class WorkStatuses:
    """Reads Works in full, keeps the newest report of each; the only writer of Work.status.

    Execution does not wait for that, so no repair waits for a hub that does not answer. due: called
    with the Works to write. kept: see KeptObjects.take_status().
    """

    hub: ApiClient
    works: Works
    bounds: WorkBounds
    held_changes: HeldChanges
    due: Callable[[WorkKey], None]
    now: Callable[[], str]
    scopes: Scopes
    kept: KeepStatus = keep_all

    def __post_init__(self) -> None:
        self._reports: dict[WorkKey, tuple[_Identity, Object]] = self.scopes.keep_by(itemgetter(0))

    def report(
        self, work: Object, conditions: list[Condition], entries: list[ManifestStatus]
    ) -> None:
        """Have conditions and entries written if they differ; not of a checkpoint's Work."""
        if not works.is_listed(work):
            return
        key = works.key_of_work(work)
        before = self.with_reported_status(work).get("status")  # what is not written yet, as well
        manifests = works.manifests_of(work)
        status = works.compose_work_status(before, conditions, entries, manifests, self.now())
        kept = self.kept(key[0], uid_of(work), status)
        status = works.without_reflected(status) if kept is None else kept
        if status != (before or {}):
            self._reports[key] = _identity(work), status
            self.due(key)

    def with_reported_status(self, work: Object) -> Object:
        """Return a Work with the status that the hub is to have of it."""
        identity, status = self._reports.get(works.key_of_work(work), (None, {}))
        return {**work, "status": status} if identity == _identity(work) else work

    def forget(self, key: WorkKey) -> None:
        """Forget a Work that is deleted or being deleted."""
        self._reports.pop(key, None)

    async def whole(self, work: Object) -> Object | None:
        """Return a copy of a Work in full; None if it was deleted or replaced."""
        if not works.is_trimmed(work):
            return dict(work)
        whole = await self._reread(work)
        if whole is None or _identity(whole) != _identity(work):
            return None
        whole["metadata"].pop("managedFields", None)
        self._keep(dict(whole), Store.complete)
        return whole

    async def write(self, key: WorkKey) -> None:
        """Write the newest report of one Work. Raises KubeError, RetryError."""
        report, cached = self._reports.get(key), self.works.get(*key)
        if report is None:
            return
        identity, status = report
        if cached is not None and identity == _identity(cached):
            self.held_changes.writing[key] = status
            try:
                if work := await self.whole(cached):
                    await self._write(work, status)
            finally:
                del self.held_changes.writing[key]
        if self._reports.get(key) is report:  # there may be a newer one
            del self._reports[key]

    async def _write(self, work: Object, reported: Object) -> None:
        async def write(current: Object | None) -> None:
            if current is None or _identity(current) != _identity(work):
                return  # the watch will report another Work, or a deletion
            manifests = works.manifests_of(current)
            status = works.reported_over(current.get("status"), reported, manifests)
            if status == (current.get("status") or {}):
                return
            with suppress(NotFoundError):  # the Work is deleted; the watch will report it
                answer = await works.put_status(self.hub, current, status)
                if current is work:  # after a conflict the change is still to arrive by the watch
                    self._wrote(answer)

        # After a conflict the status still describes what was applied.
        try:
            await retry_on_conflict(work, write, partial(self._reread, work), ConflictError)
        except ConflictError:
            text = f"work {works.id_of_work(work)} changes faster than its status is written"
            raise RetryError(text) from None

    def _wrote(self, answer: Object) -> None:
        key = works.key_of_work(answer)
        self.held_changes.saw(key, answer)
        self._keep(answer, Store.observe)
        stored = self.works.get(*key)
        if stored is not None and not is_echo(stored, answer):
            # A sync of that change took the status for written, but the change may have removed it.
            self.held_changes.changed(key, stored)

    async def _reread(self, work: Object) -> Object | None:
        metadata = work["metadata"]
        return await self.hub.find(works.work_path(metadata["namespace"], metadata["name"]))

    def _keep(self, work: Object, put: Callable[[Store[Object], Object], object]) -> None:
        namespace, name = work["metadata"]["namespace"], work["metadata"]["name"]
        store = self.works.store_of_namespace(namespace)
        if store is None:
            return
        self.bounds.observe(work)  # before it is stored: it may be trimmed
        put(store, work)
        stored = store.get(namespace, name)
        if stored is None:
            self.bounds.remove(work)
        elif stored is not work:
            self.bounds.observe(stored, None)


def _identity(work: Object) -> _Identity:
    return uid_of(work), bool(work["metadata"].get("deletionTimestamp"))


LARGE_AT_ONCE = 2
"""Large manifests that are applied concurrently, of all virtual clusters.

They bound what is in memory: small ones are bounded by the number of workers. A manifest whose
object on the host turns out to be large is applied again among the large ones.
"""

_Result = tuple[reporting.Done, WindowState | None]
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class ExecutionController:
    """Syncs Works; the only writer of their objects. interpreter: None = reports no status."""

    virtual_clusters: Mapping[str, VirtualCluster]
    clusters: HubClusters
    works: Works
    statuses: WorkStatuses
    manifests: Manifests
    finalizer: WorkFinalizer
    interpreter: Interpreter | None
    events: reporting.WorkEvents
    held_changes: HeldChanges
    scopes: Scopes
    memory: WorkMemory
    bounds: WorkBounds
    large_slots: FairSlots
    changed_objects: dict[WorkKey, object]
    """Host objects of which the status alone changed, and nothing else of their Works."""
    measure: Callable[[str, float], None]
    """Called after each sync with success or error, and its seconds."""

    async def reconcile(self, key: WorkKey) -> Requeue | None:
        """Align host and status with one Work; return what it waits for if it is refused."""
        cluster, name = key
        vc, changed = self.virtual_clusters.get(cluster), self.changed_objects.pop(key, None)
        work = self.works.get(cluster, name) or self.finalizer.taken(key)
        if vc is None or work is None or not self._is_served(cluster):
            self._forget(key)
            return None
        is_current = self.held_changes.begin(key)
        try:
            reported = self.statuses.with_reported_status(work)
            if is_current and isinstance(changed, dict):
                if await self._reflect_alone(vc, reported, changed):
                    return None
                changed = None
            return await self._reconcile(key, vc, reported)
        except (KubeError, RetryError):
            raise
        except Exception as error:
            await self._report_bug(vc, work, error)
            raise
        finally:
            self.held_changes.end(key)
            if not self._is_served(cluster):
                self.scopes.end(cluster)  # it was deleted meanwhile

    def _is_served(self, cluster: str) -> bool:
        return cluster in self.virtual_clusters and self.clusters.ours(cluster) is not None

    async def _reconcile(self, key: WorkKey, vc: VirtualCluster, cached: Object) -> Requeue | None:
        refusal, is_due = self.bounds.refusal(cached), self.finalizer.is_due(vc.name, cached)
        if refusal is not None and not is_due and not _is_suspended(vc, cached):
            await self._refuse(vc, cached, refusal)
            return None
        whole = await self.statuses.whole(cached)
        if whole is None:
            return None
        work = self.statuses.with_reported_status(whole)
        if self.finalizer.is_due(vc.name, work):
            self.statuses.forget(key)
            await self.finalizer.finalise(vc, work)
            self.memory.forget(key)
            # Another one may have its name already.
            self.manifests.forget_work(works.id_of_work(work))
        elif _is_suspended(vc, work):
            await self._suspend(vc, work)
        elif self.clusters.is_ready(vc.name):
            return await self._sync(vc, work)
        else:
            raise NotReadyError(f"cluster({vc.name}) not ready", [vc.name])
        return None

    async def _reflect_alone(self, vc: VirtualCluster, work: Object, live: Object) -> bool:
        """Report the status of the one object of an applied Work; return whether that is all."""
        is_as_synced = (
            not self.memory.is_new(work)
            and works.is_applied(work)
            and not works.is_trimmed(work)
            and held_bytes(live) <= SMALL_BYTES
            and self.clusters.is_ready(vc.name)
            and not (_is_suspended(vc, work) or self.finalizer.is_due(vc.name, work))
        )
        items = _items(vc, work) if is_as_synced else []
        if len(items) != 1 or not self.manifests.is_settled(items[0], live):
            return False
        self.held_changes.saw(works.key_of_work(work), live)
        entry, problem, _ = await self._reflect(work, items[0], live) or (None, "", None)
        if entry is None or problem:
            return False
        self.statuses.report(work, [], [entry])
        return True

    def _forget(self, key: WorkKey) -> None:
        self.held_changes.current.discard(key)
        self.memory.forget(key)
        self.statuses.forget(key)
        self.finalizer.forget(key)
        self.manifests.forget_work(f"{execution_namespace(key[0])}/{key[1]}")

    async def _sync(self, vc: VirtualCluster, work: Object) -> Requeue | None:
        started = time.monotonic()
        outcome = await self._apply_all(vc, work)
        self.measure("error" if outcome.errors else "success", time.monotonic() - started)
        was_synced = self.memory.knows(works.key_of_work(work))
        was_reported = not was_synced and works.is_applied(work) and outcome.is_as_it_was
        is_new = self.memory.is_new(work) and not was_reported  # by another process
        conditions = _conditions(vc, work, outcome, is_new=is_new)
        self.events.dispatching(work, conditions[0])
        reporting.report_sync(self.events, vc.name, work, outcome, is_new=is_new)
        self.statuses.report(work, conditions, outcome.entries)
        # What was written for a Work of the checkpoint is reported once the hub lists it.
        is_done = not outcome.waiting and (outcome.is_as_it_was or works.is_listed(work))
        failures = outcome.failures
        codes = tuple(str(each.code) for each in failures if each.code is not None)
        self.memory.note(work, codes, is_done=is_done)
        if failures and all(each.is_final for each in failures):
            if waits_for := tuple(each for failure in failures for each in failure.waits_for):
                return Requeue(dependencies=waits_for)
        elif problem := works.aggregate(outcome.errors) if failures else outcome.unreadable:
            raise outcome.retry(problem)
        return Requeue() if outcome.waiting else None

    async def _apply_all(self, vc: VirtualCluster, work: Object) -> reporting.WorkOutcome:
        """Apply all manifests, and read the status of their objects. Raises UnreachableError."""
        items, are_small = _items(vc, work), self.bounds.byte_count(work) <= SMALL_BYTES
        settled = {
            place: await self._settle(work, items[place], is_small=are_small)
            for place in apply_plan.in_order([item.manifest for item in items])
        }
        outcome = reporting.WorkOutcome()
        for place, item in enumerate(items):
            (done, window), reflection = settled[place]
            if done is not None or window is not None:
                outcome.results.append((item.manifest, done, window))
            outcome.reflected(reflection)
        return outcome

    async def _settle(
        self, work: Object, item: reporting.WorkManifest, *, is_small: bool
    ) -> tuple[_Result, reporting.Reflection | None]:
        size = 0 if is_small else bytes_of(item.manifest)
        if size > OBJECT_BYTES:
            return _too_large(item, "it holds")
        first: _Result | None = None
        if size <= SMALL_BYTES:
            with suppress(TooLargeError), reading_at_most(SMALL_BYTES):
                first, live = await self._apply(work, item)
                if live is None or held_bytes(live) <= SMALL_BYTES:
                    return first, await self._reflect(work, item, live)
            live = None
        async with self.large_slots.hold():
            try:
                with reading_at_most(OBJECT_BYTES):
                    result, live = await self._apply(work, item)
                    if first and isinstance(first[0], Applied) and isinstance(result[0], Applied):
                        result = first  # it may have written what the second attempt reads
                    return result, await self._reflect(work, item, live)
            except TooLargeError:
                return _too_large(item, "its object on the host holds")

    async def _apply(
        self, work: Object, item: reporting.WorkManifest
    ) -> tuple[_Result, Object | None]:
        done: reporting.Done
        window, refusal = None, self.bounds.refusal_of(item.vc.name, item.manifest)
        if refusal is not None:
            done = reporting.refused(item.vc, item.manifest, refusal)
        else:
            result = await reporting.unless_bug(item, self.manifests.apply(item))
            done, window = (result, None) if isinstance(result, reporting.Failure) else result
        if isinstance(done, Applied):
            self.held_changes.saw(works.key_of_work(work), done.live)
            return (replace(done, live={}), window), done.live
        if done is None and window is None:
            return (None, None), None
        # What could not be changed keeps running (contract 6.2); it may be newer than the
        # object that was decided on, so it is reflected and not marked as seen.
        return (done, window), await self._cached(item)

    async def _cached(self, item: reporting.WorkManifest) -> Object | None:
        live = await reporting.unless_bug(item, self.manifests.cached(item))
        return None if isinstance(live, reporting.Failure) else live

    async def _reflect(
        self, work: Object, item: reporting.WorkManifest, live: Object | None
    ) -> reporting.Reflection | None:
        item.translation = None
        if self.interpreter is None or live is None:
            return None
        context = self.manifests.context_for(item.vc, item.work)
        reflection = await reporting.unless_bug(
            item, reporting.reflect(self.interpreter, self.events, work, item, live, context)
        )
        if isinstance(reflection, reporting.Failure):
            self.events.reflected(work, item.manifest, reflection.text)
            return None, reflection.text, None
        return reflection

    async def _report_bug(self, vc: VirtualCluster, work: Object, error: Exception) -> None:
        """Report that a Work is not applied: its old status must not stay on the hub."""
        text = reporting.note_bug(works.id_of_work(work), error)
        try:
            self.events.sync_failed(work, vc.name, text)
            is_idle = self.finalizer.is_due(vc.name, work) or _is_suspended(vc, work)
            if not is_idle and (whole := await self.statuses.whole(work)) is not None:
                condition = works.applied(len(works.manifests_of(whole)), [text])
                self.statuses.report(whole, [condition], [])
        except Exception:  # noqa: BLE001 - the first bug is the one to report
            extra = {"work": works.id_of_work(work)}
            _log.debug("Failing to report a bug", exc_info=True, extra=extra)

    async def _refuse(self, vc: VirtualCluster, work: Object, refusal: Refusal) -> None:
        """Report that a Work over a bound is not applied; what it created stays."""
        text = refusal.text(vc.name, "Work", "", work["metadata"]["name"])
        condition = works.applied(1, [text])
        before = works.applied_of(work.get("status"))
        if before is None or before["message"] != condition["message"]:
            whole = await self.statuses.whole(work)
            if whole is None:
                return
            if self.bounds.refusal(whole) is None:
                raise ConflictError(409, "Conflict", "the Work became smaller meanwhile")
            conditions = [works.dispatching(suspended=False), condition]
            self.events.dispatching(whole, conditions[0])
            self.events.warned(whole, refusal.code, text)
            self.events.sync_failed(whole, vc.name, text)
            self.statuses.report(whole, conditions, [])
        self.memory.note(work, (str(refusal.code),))

    async def _suspend(self, vc: VirtualCluster, work: Object) -> None:
        """Write nothing to the host, but keep reporting its state (contract 5.3, 6.2)."""
        self.memory.forget_predecessor(work)
        outcome = reporting.WorkOutcome()
        for item in _items(vc, work):
            outcome.reflected(await self._reflect(work, item, await self._cached(item)))
        condition = works.dispatching(suspended=True)
        self.events.dispatching(work, condition)
        self.statuses.report(work, [condition], outcome.entries)
        if outcome.unreadable:
            raise outcome.retry(outcome.unreadable)


def _too_large(item: reporting.WorkManifest, what: str) -> tuple[_Result, None]:
    detail = f"{what} more than {OBJECT_BYTES} bytes of memory; divide it"
    return (
        reporting.refused(item.vc, item.manifest, Refusal(Code.BOUND_EXCEEDED, "", detail)),
        None,
    ), None


def _items(vc: VirtualCluster, work: Object) -> list[reporting.WorkManifest]:
    manifests, ordinals = works.manifests_of(work), works.ordinals(works.manifests_of(work))
    dispatched = works.were_dispatched(work, ordinals)
    return [
        reporting.WorkManifest(vc, manifest, works.id_of_work(work), ordinal, ordinal in dispatched)
        for manifest, ordinal in zip(manifests, ordinals, strict=True)
    ]


def _conditions(
    vc: VirtualCluster, work: Object, outcome: reporting.WorkOutcome, *, is_new: bool
) -> list[Condition]:
    generation, total = work["metadata"].get("generation") or 0, len(works.manifests_of(work))
    errors, before = outcome.errors, works.applied_of(work.get("status"))
    if outcome.waiting:
        waits = works.waiting(generation, outcome.waiting.text)
        return [waits, works.applied(total, errors)] if errors else [waits]
    was_recreated = outcome.was_recreated
    return [
        dispatched(generation) if vc.window else works.dispatching(suspended=False),
        works.applied_condition(before, total, errors, was_recreated=was_recreated, is_new=is_new),
    ]


def _is_suspended(vc: VirtualCluster, work: Object) -> bool:
    return vc.paused or works.is_suspended(work)
