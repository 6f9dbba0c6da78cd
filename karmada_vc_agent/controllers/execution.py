"""Work -> host objects, conditions, manifestStatuses, finalizer (contract 5, 6).

One reconcile handles a whole Work, whatever enqueued it: a change on the hub, a change
of one of its objects on the host, a retry. So each Work has one writer and one write.

    read    the Work, its Cluster, the live objects
    decide  translate each manifest, plan its write
    write   the host objects, then one status with Dispatching, Applied, manifestStatuses
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from karmada_vc_agent.apply import causes
from karmada_vc_agent.apply.affected_works import healed_by_kinds, healed_by_object
from karmada_vc_agent.apply.bugs import Bugs
from karmada_vc_agent.apply.causes import READY, Cause
from karmada_vc_agent.apply.failure import Failure
from karmada_vc_agent.apply.held_changes import HeldChanges
from karmada_vc_agent.apply.host_objects import Applied
from karmada_vc_agent.apply.manifests import Manifests
from karmada_vc_agent.apply.reflection import WorkStatus
from karmada_vc_agent.apply.work_applier import WorkApplier
from karmada_vc_agent.apply.work_events import WorkEvents
from karmada_vc_agent.apply.work_finalizer import WorkFinalizer
from karmada_vc_agent.apply.work_memory import WorkMemory
from karmada_vc_agent.apply.work_outcome import WorkOutcome, is_recreation
from karmada_vc_agent.apply.work_statuses import put_status
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import ControllerSpec, NotReadyError, RetryError
from karmada_vc_agent.kube.errors import ConflictError, KubeError, NotFoundError
from karmada_vc_agent.kube.retries import retry_on_conflict
from karmada_vc_agent.kube.sources import Enqueues, Heals, Source
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.model.switches import EXECUTION
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.parts.keys import itself
from karmada_vc_agent.parts.parts import Parts
from karmada_vc_agent.parts.retry_sources import retries
from karmada_vc_agent.status import work_conditions
from karmada_vc_agent.status.conditions import Condition
from karmada_vc_agent.status.manifest_status import ManifestStatus
from karmada_vc_agent.status.work_status import (
    applied_condition,
    applied_of,
    compose_work_status,
    dispatching_of,
)
from karmada_vc_agent.translation.refusal import Refusal
from karmada_vc_agent.views.hub_clusters import HubClusters
from karmada_vc_agent.views.work_bounds import WorkBounds
from karmada_vc_agent.views.works import (
    WorkKey,
    Works,
    id_of_work,
    is_suspended,
    is_trimmed,
    key_of_work,
    manifests_of,
    work_path,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Collaborators:
    """The collaborators of execution; `setup` passes them in.

    work_status: None if controller workStatus is disabled: no manifestStatuses are written.
    """

    hub: ApiClient
    clusters: HubClusters
    works: Works
    manifests: Manifests
    finalizer: WorkFinalizer
    work_status: WorkStatus | None
    events: WorkEvents
    now: Callable[[], str]
    held_changes: HeldChanges
    bounds: WorkBounds = field(default_factory=lambda: WorkBounds({}))
    memory: WorkMemory = field(default_factory=WorkMemory)
    measure: Callable[[str, float], None] = lambda *_: None
    """Called after each sync of a Work with success or error, and its duration in seconds."""


class ExecutionController:
    """Syncs Works; the only writer of the objects it creates and of Work.status."""

    def __init__(
        self, virtual_clusters: Mapping[str, VirtualCluster], others: Collaborators
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._o = others
        self._memory = others.memory
        self._bugs = Bugs()
        self._applier = WorkApplier(
            others.manifests,
            others.work_status,
            others.events,
            others.bounds,
            others.held_changes,
            self._bugs,
        )

    async def reconcile(self, key: WorkKey) -> None:
        """Align host and status with one Work."""
        cluster, name = key
        vc = self._virtual_clusters.get(cluster)
        work = self._o.works.get(cluster, name)
        if vc is None or work is None or self._o.clusters.ours(cluster) is None:
            self._forget(key)
            return
        self._o.held_changes.begin(key)
        self._memory.begin(key)
        try:
            await self._reconcile(key, vc, work)
        except (KubeError, RetryError):
            raise
        except Exception as error:
            await self._report_bug(vc, work, error)
            raise
        finally:
            self._memory.end(key)
            self._o.held_changes.end(key)

    async def _reconcile(self, key: WorkKey, vc: VirtualCluster, known: Object) -> None:
        cluster = vc.name
        refusal = self._o.bounds.refusal(known)
        if (
            refusal is not None
            and not _is_suspended(vc, known)
            and not self._o.finalizer.is_due(cluster, known)
        ):
            await self._refuse(vc, known, refusal)
            return
        work = await self._whole(known)
        if work is None:
            return
        if self._o.finalizer.is_due(cluster, work):
            await self._o.finalizer.finalise(vc, work)
            self._memory.forget(key)
        elif _is_suspended(vc, work):
            await self._suspend(vc, work)
        elif self._o.clusters.is_ready(cluster):
            await self._sync(vc, work)
        else:
            raise NotReadyError(f"cluster({cluster}) not ready", [Cause(cluster, READY, cluster)])

    def _forget(self, key: WorkKey) -> None:
        self._memory.forget(key)
        self._o.finalizer.forget(key)

    # --- apply --------------------------------------------------------------------------

    async def _sync(self, vc: VirtualCluster, work: Object) -> None:
        started = time.monotonic()
        outcome = await self._applier.apply(vc, work)
        self._o.measure("error" if outcome.errors else "success", time.monotonic() - started)
        is_new = self._memory.is_new(work)
        before = applied_of(work.get("status"))
        conditions = [
            work_conditions.dispatching(suspended=False),
            applied_condition(
                before,
                len(manifests_of(work)),
                outcome.errors,
                was_recreated=outcome.was_recreated,
                is_new=is_new,
            ),
        ]
        self._report_dispatching(work, conditions[0])
        if outcome.was_recreated and not is_new:
            self._report_recreation(vc, outcome)
        elif is_new or outcome.errors or before is None or before["status"] != "True":
            self._write_events(vc, work, outcome)
        await self._write_status(work, conditions, outcome.entries)
        depends_on = outcome.depends_on if outcome.is_refused else ()
        is_outdated = self._memory.note(work, outcome.codes, depends_on)
        if is_outdated:
            raise RetryError("a cause of its refusal changed during the sync")
        if outcome.errors and not outcome.is_refused:
            raise outcome.retry(work_conditions.aggregate(outcome.errors))
        if outcome.unreadable and not outcome.is_refused:
            raise outcome.retry(outcome.unreadable)

    def _write_events(self, vc: VirtualCluster, work: Object, outcome: WorkOutcome) -> None:
        """Write the events of the Work and each of its manifests, also of success."""
        for manifest, result in outcome.results:
            if isinstance(result, Applied):
                for notice in result.notices:
                    self._o.events.noticed(work, notice)
                self._o.events.applied(manifest, vc.name)
                continue
            if result.code is not None:
                self._o.events.refused(work, result.code, result.text)
            self._o.events.not_applied(manifest, vc.name, result.text)
        if outcome.errors:
            error = work_conditions.aggregate(outcome.errors)
            self._o.events.sync_failed(work, vc.name, error)
        else:
            self._o.events.synced(work, vc.name)

    def _report_recreation(self, vc: VirtualCluster, outcome: WorkOutcome) -> None:
        """Write events on the templates only, as Karmada does: the Work did not change."""
        for manifest, result in outcome.results:
            if is_recreation(result):
                error = result.text if isinstance(result, Failure) else None
                self._o.events.recreated(manifest, vc.name, error)

    def _report_dispatching(self, work: Object, condition: Condition) -> None:
        before = dispatching_of(work.get("status"))
        if before is None or before["status"] != condition["status"]:
            self._o.events.dispatching(work, condition["message"])

    async def _report_bug(self, vc: VirtualCluster, work: Object, error: Exception) -> None:
        """Report that a Work is not applied: its old status must not stay on the hub."""
        text = self._bugs.note(id_of_work(work), error)
        try:
            self._o.events.sync_failed(work, vc.name, text)
            if not self._o.finalizer.is_due(vc.name, work) and not _is_suspended(vc, work):
                whole = await self._whole(work)
                condition = work_conditions.applied(len(manifests_of(whole or work)), [text])
                if whole is not None:
                    await self._write_status(whole, [condition], [])
        except Exception:  # noqa: BLE001 - the first bug is the one to report
            _log.debug("Failing to report a bug", exc_info=True, extra={"work": id_of_work(work)})

    # --- bounds -------------------------------------------------------------------------

    async def _whole(self, work: Object) -> Object | None:
        """Return a Work in full; None if it is gone or replaced.

        A copy, since the stored one may be trimmed meanwhile.
        """
        if not is_trimmed(work):
            return dict(work)
        metadata = work["metadata"]
        whole = await self._reread(metadata["namespace"], metadata["name"])
        if whole is None or not _is_same(whole, work):
            return None
        whole["metadata"].pop("managedFields", None)
        self._keep(dict(whole), Store.complete)
        return whole

    def _keep(self, work: Object, put: Callable[[Store[Object], Object], None]) -> None:
        """Store the hub's answer to a write of a Work, within the bounds; not if it is gone."""
        namespace, name = work["metadata"]["namespace"], work["metadata"]["name"]
        store = self._o.works.store_of_namespace(namespace)
        if store is None:
            return
        self._o.bounds.note(work)  # before it is stored: it may be trimmed
        put(store, work)
        stored = store.get(namespace, name)
        if stored is None:
            self._o.bounds.gone(work)
        elif stored is not work:
            self._o.bounds.note(stored)

    async def _refuse(self, vc: VirtualCluster, work: Object, refusal: Refusal) -> None:
        """Report that a Work over a bound is not applied; what it created stays."""
        text = refusal.text(vc.name, "Work", "", work["metadata"]["name"])
        condition = work_conditions.applied(1, [text])
        before = applied_of(work.get("status"))
        if before is None or before["message"] != condition["message"]:
            whole = await self._whole(work)
            if whole is None:
                return
            if self._o.bounds.refusal(whole) is None:
                raise ConflictError(409, "Conflict", "the Work became smaller meanwhile")
            conditions = [work_conditions.dispatching(suspended=False), condition]
            self._report_dispatching(whole, conditions[0])
            self._o.events.refused(whole, refusal.code, text)
            await self._write_status(whole, conditions, [])
        self._memory.note(work, (str(refusal.code),))

    # --- suspend ------------------------------------------------------------------------

    async def _suspend(self, vc: VirtualCluster, work: Object) -> None:
        """Write nothing to the host, but keep reporting its state (contract 5.3, 6.2)."""
        self._memory.forget_predecessor(work)
        outcome = await self._applier.observe(vc, work)
        condition = work_conditions.dispatching(suspended=True)
        self._report_dispatching(work, condition)
        await self._write_status(work, [condition], outcome.entries)
        if outcome.unreadable:
            raise outcome.retry(outcome.unreadable)

    # --- status -------------------------------------------------------------------------

    async def _write_status(
        self, work: Object, conditions: list[Condition], entries: list[ManifestStatus]
    ) -> None:
        """PUT conditions and entries if anything differs."""
        namespace, name = work["metadata"]["namespace"], work["metadata"]["name"]

        async def write(current: Object | None) -> None:
            if current is None or not _is_same(current, work):
                return  # the watch will report another Work, or a deletion
            live = current.get("status")
            status = compose_work_status(
                live, conditions, entries, manifests_of(current), self._o.now()
            )
            if status == (live or {}):
                return
            with suppress(NotFoundError):  # the Work is gone; the watch will report it
                answer = await put_status(self._o.hub, current, status)
                if current is work:
                    # Not after a conflict: the change is still to arrive by the watch.
                    self._observe(answer)

        # After a conflict the status still describes what was applied.
        reread = partial(self._reread, namespace, name)
        try:
            await retry_on_conflict(work, write, reread, ConflictError)
        except ConflictError:
            text = f"work {namespace}/{name} changes faster than its status is written"
            raise RetryError(text) from None

    async def _reread(self, namespace: str, name: str) -> Object | None:
        try:
            return await self._o.hub.get(work_path(namespace, name))
        except NotFoundError:
            return None

    def _observe(self, work: Object) -> None:
        self._o.held_changes.saw(key_of_work(work), work)
        work["metadata"].pop("managedFields", None)
        self._keep(work, Store.observe)


def _is_suspended(vc: VirtualCluster, work: Object) -> bool:
    """Whether nothing of a Work may be written to the host now."""
    return vc.paused or is_suspended(work)


def _is_same(fresh: Object, work: Object) -> bool:
    """Whether a result for a Work also applies to its current version: same uid, still wanted."""
    marks = [bool(each["metadata"].get("deletionTimestamp")) for each in (fresh, work)]
    return uid_of(fresh) == uid_of(work) and marks[0] == marks[1]


def setup(parts: Parts) -> ControllerSpec[WorkKey]:
    """Declare the controller; no workload comes before what keeps its pods in place."""
    common, works = parts.common, parts.works
    controller = ExecutionController(
        common.virtual_clusters,
        Collaborators(
            hub=common.clients.hub,
            clusters=common.stores.clusters,
            works=works.watches.works,
            manifests=works.manifests,
            finalizer=works.finalizer,
            work_status=works.work_status,
            events=works.events,
            now=common.clock.now,
            held_changes=common.held_changes,
            measure=common.metrics.work_synced,
            bounds=works.bounds,
            memory=works.memory,
        ),
    )
    return ControllerSpec(
        "execution",
        works.queue,
        controller.reconcile,
        common.config.concurrent_work_syncs,
        switch=EXECUTION,
        sources=(*_of_each_work(parts), *_of_other_works(parts), *retries(parts)),
        resync_keys=works.affected.of_clusters,
        ready=parts.placement.wait_settled,
    )


def _of_each_work(parts: Parts) -> tuple[Source[WorkKey], ...]:
    """Return what brings up a Work: itself, its objects, its Cluster."""
    signals, affected = parts.common.signals, parts.works.affected
    return (
        Enqueues(signals.work_due.subscribe, itself),
        Enqueues(signals.work_affected.subscribe, affected.by_id),
        Enqueues(parts.common.stores.clusters.store.add_handler, affected.by_cluster),
    )


def _of_other_works(parts: Parts) -> tuple[Source[WorkKey], ...]:
    """Return what brings up Works for something that they depend on."""
    signals, stores, affected = parts.common.signals, parts.common.stores, parts.works.affected
    by_meaning = partial(affected.by_meaning, parts.common.virtual_clusters)
    return (
        Enqueues(signals.work.subscribe, affected.by_work),
        Enqueues(signals.meaning.subscribe, by_meaning),
        Enqueues(stores.namespaces.add_handler, affected.by_namespace),
        Enqueues(stores.membership.changed.subscribe, affected.by_nodes),
        Enqueues(signals.node_group.subscribe, affected.by_node_group),
        Enqueues(signals.served.subscribe, affected.by_served_kinds),
        Heals(signals.served.subscribe, healed_by_kinds),
        Heals(signals.own_object.subscribe, healed_by_object),
        Heals(signals.hook_answers.subscribe, causes.answering),
    )
