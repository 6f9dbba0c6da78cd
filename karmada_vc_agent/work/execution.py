"""Work -> host objects, conditions, manifestStatuses, finalizer (contract 5, 6).

One reconcile handles a whole Work, whatever enqueued it: a change on the hub, a change
of one of its objects on the host, a retry. So each Work has one writer, and one report.

    read    the Work, its Cluster, the live objects
    decide  translate each manifest, plan its write
    write   the host objects; then tell one status with Dispatching, Applied, manifestStatuses
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from karmada_vc_agent.cluster.hub_clusters import HubClusters
from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.kube.controller import ControllerSpec, NotReadyError, RetryError
from karmada_vc_agent.kube.errors import ConflictError, KubeError
from karmada_vc_agent.kube.sources import Enqueues, Heals, Source
from karmada_vc_agent.model.karmada import execution_namespace
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.switches import EXECUTION
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.keys import itself
from karmada_vc_agent.runner.parts import Parts
from karmada_vc_agent.runner.retry_sources import retries
from karmada_vc_agent.translation.refusal import Refusal
from karmada_vc_agent.work import causes
from karmada_vc_agent.work.affected_works import healed_by_kinds, healed_by_object
from karmada_vc_agent.work.bugs import Bugs
from karmada_vc_agent.work.causes import READY, Cause
from karmada_vc_agent.work.grounds import Dependency, Ground
from karmada_vc_agent.work.held_changes import HeldChanges
from karmada_vc_agent.work.hub_works import HubWorks
from karmada_vc_agent.work.manifests import Manifests
from karmada_vc_agent.work.outcome_events import OutcomeEvents
from karmada_vc_agent.work.reflection import WorkStatus
from karmada_vc_agent.work.rules import work_conditions
from karmada_vc_agent.work.rules.work_status import applied_condition, applied_of
from karmada_vc_agent.work.work_applier import WorkApplier
from karmada_vc_agent.work.work_bounds import WorkBounds
from karmada_vc_agent.work.work_events import WorkEvents
from karmada_vc_agent.work.work_finalizer import WorkFinalizer
from karmada_vc_agent.work.work_memory import WorkMemory
from karmada_vc_agent.work.work_outcome import WorkOutcome
from karmada_vc_agent.work.work_reports import WorkReports
from karmada_vc_agent.work.works import (
    WorkKey,
    Works,
    id_of_work,
    is_suspended,
    key_of_work,
    manifests_of,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Collaborators:
    """The collaborators of execution; `setup` passes them in.

    work_status: None if controller workStatus is disabled: no manifestStatuses are written.
    forget_cluster: drops all that is remembered of the Works of a Cluster that is gone.
    """

    clusters: HubClusters
    works: Works
    hub_works: HubWorks
    reports: WorkReports
    manifests: Manifests
    finalizer: WorkFinalizer
    work_status: WorkStatus | None
    events: WorkEvents
    held_changes: HeldChanges
    forget_cluster: Callable[[str], None]
    bounds: WorkBounds = field(default_factory=lambda: WorkBounds({}))
    memory: WorkMemory = field(default_factory=WorkMemory)
    measure: Callable[[str, float], None] = lambda *_: None
    """Called after each sync of a Work with success or error, and its duration in seconds."""


class ExecutionController:
    """Syncs Works; the only writer of the objects it creates. It waits for no status."""

    def __init__(
        self, virtual_clusters: Mapping[str, VirtualCluster], others: Collaborators
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._o = others
        self._memory = others.memory
        self._events = OutcomeEvents(others.events)
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
        work = self._o.works.get(cluster, name) or self._o.finalizer.taken(key)
        if vc is None or work is None or not self._is_served(cluster):
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
            if not self._is_served(cluster):
                self._o.forget_cluster(cluster)  # it went meanwhile

    def _is_served(self, cluster: str) -> bool:
        return cluster in self._virtual_clusters and self._o.clusters.ours(cluster) is not None

    async def _reconcile(self, key: WorkKey, vc: VirtualCluster, known: Object) -> None:
        cluster, known = vc.name, self._o.reports.as_told(known)
        refusal = self._o.bounds.refusal(known)
        if (
            refusal is not None
            and not _is_suspended(vc, known)
            and not self._o.finalizer.is_due(cluster, known)
        ):
            await self._refuse(vc, known, refusal)
            return
        work = await self._o.hub_works.whole(known)
        if work is None:
            return
        work = self._o.reports.as_told(work)
        if self._o.finalizer.is_due(cluster, work):
            self._o.reports.forget(key)
            await self._o.finalizer.finalise(vc, work)
            self._memory.forget(key)
        elif _is_suspended(vc, work):
            await self._suspend(vc, work)
        elif self._o.clusters.is_ready(cluster):
            await self._sync(vc, work)
        else:
            raise NotReadyError(f"cluster({cluster}) not ready", [Cause(cluster, READY, cluster)])

    def _forget(self, key: WorkKey) -> None:
        cluster, name = key
        self._memory.forget(key)
        self._o.reports.forget(key)
        self._o.finalizer.forget(key)
        self._o.manifests.forget_work(f"{execution_namespace(cluster)}/{name}")

    # --- apply --------------------------------------------------------------------------

    async def _sync(self, vc: VirtualCluster, work: Object) -> None:
        started = time.monotonic()
        outcome = await self._applier.apply(vc, work)
        self._o.measure("error" if outcome.errors else "success", time.monotonic() - started)
        is_new = self._memory.is_new(work) and not self._was_told(work, outcome)
        if outcome.waiting:
            await self._wait(vc, work, outcome, is_new=is_new)
            return
        conditions = [
            _dispatching(vc, work),
            applied_condition(
                applied_of(work.get("status")),
                len(manifests_of(work)),
                outcome.errors,
                was_recreated=outcome.was_recreated,
                is_new=is_new,
            ),
        ]
        self._events.of_dispatching(work, conditions[0])
        self._events.of_sync(vc.name, work, outcome, is_new=is_new)
        self._o.reports.tell(work, conditions, outcome.entries)
        self._note(work, outcome)

    def _was_told(self, work: Object, outcome: WorkOutcome) -> bool:
        """Whether another process applied a Work and said so: this one found nothing to do."""
        before = applied_of(work.get("status"))
        is_applied = before is not None and before["status"] == "True"
        return is_applied and outcome.is_as_it_was and not self._memory.knows(key_of_work(work))

    async def _wait(
        self, vc: VirtualCluster, work: Object, outcome: WorkOutcome, *, is_new: bool
    ) -> None:
        """Report that something of a Work waits for a window; Applied is of what does not."""
        until = outcome.waiting[0].opening.text
        conditions = [work_conditions.waiting(work["metadata"].get("generation") or 0, until)]
        if outcome.errors:
            conditions.append(work_conditions.applied(len(manifests_of(work)), outcome.errors))
        self._events.of_dispatching(work, conditions[0])
        self._events.of_sync(vc.name, work, outcome, is_new=is_new)
        self._o.reports.tell(work, conditions, outcome.entries)
        self._note(work, outcome, [Dependency(Ground.WINDOW, vc.name)])

    def _note(
        self, work: Object, outcome: WorkOutcome, waits_for: Sequence[Dependency] = ()
    ) -> None:
        """Remember how a sync ended. Raises RetryError where another one is needed."""
        depends_on = outcome.depends_on if outcome.is_refused else []
        is_done = not waits_for
        self._memory.note(work, outcome.codes, [*depends_on, *waits_for], is_done=is_done)
        if self._memory.is_outdated(key_of_work(work)):
            raise RetryError("a cause of its refusal changed during the sync")
        if outcome.errors and not outcome.is_refused:
            raise outcome.retry(work_conditions.aggregate(outcome.errors))
        if outcome.unreadable and not outcome.is_refused:
            raise outcome.retry(outcome.unreadable)

    async def _report_bug(self, vc: VirtualCluster, work: Object, error: Exception) -> None:
        """Report that a Work is not applied: its old status must not stay on the hub."""
        text = self._bugs.note(id_of_work(work), error)
        try:
            self._o.events.sync_failed(work, vc.name, text)
            if not self._o.finalizer.is_due(vc.name, work) and not _is_suspended(vc, work):
                whole = await self._o.hub_works.whole(work)
                condition = work_conditions.applied(len(manifests_of(whole or work)), [text])
                if whole is not None:
                    self._o.reports.tell(whole, [condition], [])
        except Exception:  # noqa: BLE001 - the first bug is the one to report
            _log.debug("Failing to report a bug", exc_info=True, extra={"work": id_of_work(work)})

    # --- bounds -------------------------------------------------------------------------

    async def _refuse(self, vc: VirtualCluster, work: Object, refusal: Refusal) -> None:
        """Report that a Work over a bound is not applied; what it created stays."""
        text = refusal.text(vc.name, "Work", "", work["metadata"]["name"])
        condition = work_conditions.applied(1, [text])
        before = applied_of(work.get("status"))
        if before is None or before["message"] != condition["message"]:
            whole = await self._o.hub_works.whole(work)
            if whole is None:
                return
            if self._o.bounds.refusal(whole) is None:
                raise ConflictError(409, "Conflict", "the Work became smaller meanwhile")
            conditions = [work_conditions.dispatching(suspended=False), condition]
            self._events.of_dispatching(whole, conditions[0])
            self._o.events.refused(whole, refusal.code, text)
            self._o.reports.tell(whole, conditions, [])
        self._memory.note(work, (str(refusal.code),))

    # --- suspend ------------------------------------------------------------------------

    async def _suspend(self, vc: VirtualCluster, work: Object) -> None:
        """Write nothing to the host, but keep reporting its state (contract 5.3, 6.2)."""
        self._memory.forget_predecessor(work)
        outcome = await self._applier.observe(vc, work)
        condition = work_conditions.dispatching(suspended=True)
        self._events.of_dispatching(work, condition)
        self._o.reports.tell(work, [condition], outcome.entries)
        if outcome.unreadable:
            raise outcome.retry(outcome.unreadable)


def _dispatching(vc: VirtualCluster, work: Object) -> Condition:
    """Return Dispatching of a Work of which nothing waits; with windows, of which generation."""
    if not vc.window:
        return work_conditions.dispatching(suspended=False)
    return work_conditions.dispatched(work["metadata"].get("generation") or 0)


def _is_suspended(vc: VirtualCluster, work: Object) -> bool:
    """Whether nothing of a Work may be written to the host now."""
    return vc.paused or is_suspended(work)


def setup(parts: Parts) -> ControllerSpec[WorkKey]:
    """Declare the controller; no workload comes before what keeps its pods in place."""
    common, works = parts.common, parts.works
    controller = ExecutionController(
        common.virtual_clusters,
        Collaborators(
            clusters=common.stores.clusters,
            works=works.watches.works,
            hub_works=works.hub_works,
            reports=works.reports,
            manifests=works.manifests,
            finalizer=works.finalizer,
            work_status=works.work_status,
            events=works.events,
            held_changes=common.held_changes,
            forget_cluster=works.forgotten.emit,
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
        runs={"windows": common.openings.run},
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
        Enqueues(signals.ground.subscribe, parts.works.memory.depending_on),
        Heals(signals.served.subscribe, healed_by_kinds),
        Heals(signals.own_object.subscribe, healed_by_object),
        Heals(signals.hook_answers.subscribe, causes.answering),
    )
