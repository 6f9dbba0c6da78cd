"""The newest status of each Work, and its only writer (contract 5.4, ADR 49)."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import ConflictError, NotFoundError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.tasks import retry_on_conflict
from karmada_vc_agent.model.objects import Object, uid_of
from karmada_vc_agent.work.affected_works import HeldChanges
from karmada_vc_agent.work.memory_bounds import KeepStatus, WorkBounds, keep_all
from karmada_vc_agent.work.rules.work_conditions import (
    ManifestStatus,
    compose_work_status,
    reported_over,
)
from karmada_vc_agent.work.works import (
    WorkKey,
    Works,
    id_of_work,
    is_listed,
    is_trimmed,
    key_of_work,
    manifests_of,
    put_status,
    without_reflected,
    work_path,
)


class _Report(NamedTuple):
    """What the whole status of one Work is to be."""

    uid: str
    is_deleted: bool
    status: Object

    def is_of(self, work: Object) -> bool:
        """Return True for this very Work, unless it was deleted since."""
        return (self.uid, self.is_deleted) == (uid_of(work), _is_deleted(work))


@dataclass(eq=False)
class WorkStatuses:
    """Reads Works in full, keeps the newest report of each, and writes it to the hub.

    Execution does not wait for that, so no repair waits for a hub that does not answer. due: called
    with the Works to write. kept: returns a status of a Work (virtual cluster, uid) as it is kept,
    None where only its health is.
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
        self._reports: dict[WorkKey, _Report] = self.scopes.keep_by(itemgetter(0))

    # --- report -------------------------------------------------------------------------

    def report(
        self, work: Object, conditions: list[Condition], entries: list[ManifestStatus]
    ) -> None:
        """Have conditions and entries written if anything differs.

        Nothing of a Work of the checkpoint: the hub's list has every Work synced again.
        """
        if not is_listed(work):
            return
        key = key_of_work(work)
        work = self.with_reported_status(work)  # what is not written yet is written with it
        before = work.get("status")
        status = compose_work_status(before, conditions, entries, manifests_of(work), self.now())
        kept = self.kept(key[0], uid_of(work), status)
        status = without_reflected(status) if kept is None else kept
        if status != (before or {}):
            self._reports[key] = _Report(uid_of(work), _is_deleted(work), status)
            self.due(key)

    def with_reported_status(self, work: Object) -> Object:
        """Return a Work with the status that the hub is to have of it."""
        report = self._reports.get(key_of_work(work))
        return {**work, "status": report.status} if report and report.is_of(work) else work

    def forget(self, key: WorkKey) -> None:
        """Forget a Work that is deleted or being deleted."""
        self._reports.pop(key, None)

    # --- read and write -----------------------------------------------------------------

    async def whole(self, work: Object) -> Object | None:
        """Return a Work in full; None if it was deleted or replaced.

        A copy, since the stored one may be trimmed meanwhile.
        """
        if not is_trimmed(work):
            return dict(work)
        whole = await self._reread(work)
        if whole is None or not _is_same(whole, work):
            return None
        whole["metadata"].pop("managedFields", None)
        self._keep(dict(whole), Store.complete)
        return whole

    async def write(self, key: WorkKey) -> None:
        """Write the newest report of one Work; the only writer of Work.status.

        Raises KubeError, RetryError.
        """
        report, work = self._reports.get(key), self.works.get(*key)
        if report is None:
            return
        if work is not None and report.is_of(work):
            self.held_changes.begin(key, is_status=True)
            try:
                await self._write(work, report)
            finally:
                self.held_changes.end(key, is_status=True)
        if self._reports.get(key) is report:  # there may be a newer one
            del self._reports[key]

    async def _write(self, cached: Object, report: _Report) -> None:
        work = await self.whole(cached)
        if work is None:
            return

        async def write(current: Object | None) -> None:
            if current is None or not _is_same(current, work):
                return  # the watch will report another Work, or a deletion
            live = current.get("status")
            status = reported_over(live, report.status, manifests_of(current))
            if status == (live or {}):
                return
            with suppress(NotFoundError):  # the Work is deleted; the watch will report it
                answer = await put_status(self.hub, current, status)
                if current is work:
                    # Not after a conflict: the change is still to arrive by the watch.
                    self.held_changes.saw(key_of_work(answer), answer)
                    answer["metadata"].pop("managedFields", None)
                    self._keep(answer, Store.observe)

        # After a conflict the status still describes what was applied.
        try:
            await retry_on_conflict(work, write, partial(self._reread, work), ConflictError)
        except ConflictError:
            text = f"work {id_of_work(work)} changes faster than its status is written"
            raise RetryError(text) from None

    async def _reread(self, work: Object) -> Object | None:
        try:
            return await self.hub.get(
                work_path(work["metadata"]["namespace"], work["metadata"]["name"])
            )
        except NotFoundError:
            return None

    def _keep(self, work: Object, put: Callable[[Store[Object], Object], object]) -> None:
        """Store the hub's answer about a Work, within the bounds; not if it was deleted."""
        store = self.works.store_of_namespace(work["metadata"]["namespace"])
        if store is None:
            return
        self.bounds.observe(work)  # before it is stored: it may be trimmed
        put(store, work)
        stored = store.get(work["metadata"]["namespace"], work["metadata"]["name"])
        if stored is None:
            self.bounds.remove(work)
        elif stored is not work:
            self.bounds.observe(stored)


def _is_deleted(work: Object) -> bool:
    return bool(work["metadata"].get("deletionTimestamp"))


def _is_same(fresh: Object, work: Object) -> bool:
    """Return whether a result for a Work also applies to its current version."""
    return uid_of(fresh) == uid_of(work) and _is_deleted(fresh) == _is_deleted(work)
