"""Work -> host objects, conditions, manifestStatuses, finalizer (contract 5, 6).

One reconcile handles a Work whole, whatever made it come up: a change on the hub, a change
of one of its objects on the host, a retry. So each Work has one writer and one write.

    read    the Work, its Cluster, the live objects
    decide  translate each manifest, plan its write
    write   the host objects, then one status with Dispatching, Applied, manifestStatuses
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from karmada_vc_agent.apply.bugs import Bugs
from karmada_vc_agent.apply.causes import READY, Cause
from karmada_vc_agent.apply.failure import Failure
from karmada_vc_agent.apply.grounds import Ground
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
from karmada_vc_agent.kube.controller import NotReadyError, RetryError
from karmada_vc_agent.kube.errors import ConflictError, KubeError, NotFoundError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
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

ATTEMPTS = 5
"""How often a status that met a newer Work is put together again."""


@dataclass(frozen=True, slots=True)
class Collaborators:
    """Whom execution works with; handed in by the service package.

    work_status: None where the controller workStatus is off: no manifestStatuses are written.
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
    measure: Callable[[str, float], None] = lambda *_: None
    """Told how each Work ended, success or error, and how many seconds it took."""


class ExecutionController:
    """Carries Works out; the only writer of the objects it makes and of Work.status."""

    def __init__(
        self, virtual_clusters: Mapping[str, VirtualCluster], others: Collaborators
    ) -> None:
        self._virtual_clusters = virtual_clusters
        self._o = others
        self._memory = WorkMemory()
        self._bugs = Bugs()
        self._applier = WorkApplier(
            others.manifests,
            others.work_status,
            others.events,
            others.bounds,
            others.held_changes,
            self._bugs,
        )

    def refused(self, cluster: str) -> list[WorkKey]:
        """Return the Works of a virtual cluster that a rule refused."""
        return self._memory.refused(cluster)

    def depending_on(self, ground: Ground, about: str | None) -> list[WorkKey]:
        """Return the refused Works to carry out again when something changes; None = any such."""
        return self._memory.depending_on(ground, about)

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Return (virtual cluster, code) of each manifest that a rule refuses now."""
        return self._memory.refusals()

    async def reconcile(self, key: WorkKey) -> None:
        """Make host and status fit one Work."""
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
            await self._tell_of_bug(vc, work, error)
            raise
        finally:
            self._memory.end(key)
            self._o.held_changes.end(key)

    async def _reconcile(self, key: WorkKey, vc: VirtualCluster, known: Object) -> None:
        cluster = vc.name
        refusal = self._o.bounds.refusal(known)
        if (
            refusal is not None
            and not is_suspended(known)
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
        elif is_suspended(work):
            await self._suspend(vc, work)
        elif self._o.clusters.is_ready(cluster):
            await self._sync(vc, work)
        else:
            raise NotReadyError(f"cluster({cluster}) not ready", [Cause(cluster, READY, cluster)])

    def _forget(self, key: WorkKey) -> None:
        self._memory.forget(key)
        self._o.finalizer.forget(key)

    def forget_cluster(self, cluster: str) -> None:
        """Forget the Works of a Cluster that is gone."""
        self._memory.forget_cluster(cluster)
        self._o.finalizer.forget_cluster(cluster)

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
        self._tell_dispatching(work, conditions[0])
        if outcome.was_recreated and not is_new:
            self._tell_recreation(vc, outcome)
        elif is_new or outcome.errors or before is None or before["status"] != "True":
            self._tell(vc, work, outcome)
        await self._write_status(work, conditions, outcome.entries)
        depends_on = outcome.depends_on if outcome.is_refused else ()
        is_outdated = self._memory.note(
            work, outcome.codes, depends_on, is_refused=outcome.is_refused
        )
        if is_outdated:
            raise RetryError("what it was refused for changed while it was synced")
        if outcome.errors and not outcome.is_refused:
            raise outcome.retry(work_conditions.aggregate(outcome.errors))
        if outcome.unreadable and not outcome.is_refused:
            raise outcome.retry(outcome.unreadable)

    def _tell(self, vc: VirtualCluster, work: Object, outcome: WorkOutcome) -> None:
        """Say how the Work and each of its manifests fared, also those that succeeded."""
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

    def _tell_recreation(self, vc: VirtualCluster, outcome: WorkOutcome) -> None:
        """Tell the templates alone, as Karmada does: the Work did not change."""
        for manifest, result in outcome.results:
            if is_recreation(result):
                error = result.text if isinstance(result, Failure) else None
                self._o.events.recreated(manifest, vc.name, error)

    def _tell_dispatching(self, work: Object, condition: Condition) -> None:
        before = dispatching_of(work.get("status"))
        if before is None or before["status"] != condition["status"]:
            self._o.events.dispatching(work, condition["message"])

    async def _tell_of_bug(self, vc: VirtualCluster, work: Object, error: Exception) -> None:
        """Say that a Work is not carried out: the hub must not go on saying that it is."""
        text = self._bugs.note(id_of_work(work), error)
        try:
            self._o.events.sync_failed(work, vc.name, text)
            if not self._o.finalizer.is_due(vc.name, work) and not is_suspended(work):
                whole = await self._whole(work)
                condition = work_conditions.applied(len(manifests_of(whole or work)), [text])
                if whole is not None:
                    await self._write_status(whole, [condition], [])
        except Exception:  # noqa: BLE001 - the first fault is the one to tell
            _log.debug("Failing to tell", exc_info=True, extra={"work": id_of_work(work)})

    # --- bounds -------------------------------------------------------------------------

    async def _whole(self, work: Object) -> Object | None:
        """Return a Work with all that is in it; None where it is gone or another one by now.

        A copy, for what is stored may be trimmed meanwhile.
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
        """Store what the hub answered of a Work, within the bounds; not of one gone by now."""
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
        """Say of a Work that is over a bound that it is not carried out; what it made stays."""
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
            self._tell_dispatching(whole, conditions[0])
            self._o.events.refused(whole, refusal.code, text)
            await self._write_status(whole, conditions, [])
        self._memory.note(work, (str(refusal.code),), is_refused=True)

    # --- suspend ------------------------------------------------------------------------

    async def _suspend(self, vc: VirtualCluster, work: Object) -> None:
        """Write nothing to the host, but go on reporting what is there (contract 5.3, 6.2)."""
        self._memory.forget_predecessor(work)
        outcome = await self._applier.observe(vc, work)
        condition = work_conditions.dispatching(suspended=True)
        self._tell_dispatching(work, condition)
        await self._write_status(work, [condition], outcome.entries)
        if outcome.unreadable:
            raise outcome.retry(outcome.unreadable)

    # --- status -------------------------------------------------------------------------

    async def _write_status(
        self, work: Object, conditions: list[Condition], entries: list[ManifestStatus]
    ) -> None:
        """PUT conditions and entries if anything differs."""
        namespace, name = work["metadata"]["namespace"], work["metadata"]["name"]
        is_seen = True
        for _ in range(ATTEMPTS):
            live = work.get("status")
            status = compose_work_status(
                live, conditions, entries, manifests_of(work), self._o.now()
            )
            if status == (live or {}):
                return
            try:
                answer = await put_status(self._o.hub, work, status)
            except NotFoundError:
                return  # the Work is gone; the watch is about to say so
            except ConflictError:
                # Somebody changed the Work meanwhile: the status still says what was done.
                fresh = await self._reread(namespace, name)
                if fresh is None or not _is_same(fresh, work):
                    return  # the watch is about to show another Work, or that this one goes
                work, is_seen = fresh, False
                continue
            if is_seen:
                # Not after a conflict: the change that was met is still to come by the watch.
                self._observe(answer)
            return
        raise RetryError(f"work {namespace}/{name} changes faster than its status is written")

    async def _reread(self, namespace: str, name: str) -> Object | None:
        try:
            return await self._o.hub.get(work_path(namespace, name))
        except NotFoundError:
            return None

    def _observe(self, work: Object) -> None:
        self._o.held_changes.saw(key_of_work(work), work)
        work["metadata"].pop("managedFields", None)
        self._keep(work, Store.observe)


def _is_same(fresh: Object, work: Object) -> bool:
    """Whether what was done for a Work is to be said of what it is now: the same, still wanted."""
    marks = [bool(each["metadata"].get("deletionTimestamp")) for each in (fresh, work)]
    return uid_of(fresh) == uid_of(work) and marks[0] == marks[1]
