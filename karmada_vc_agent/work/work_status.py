"""The newest status of each Work, and its only writer (contract 5.4, ADR 49).

Execution reports the status and does not wait; a queue of its own writes it.
So no repair waits for a hub that does not answer.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import cast

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.controller import RetryError
from karmada_vc_agent.kube.errors import ConflictError, NotFoundError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.tasks import retry_on_conflict
from karmada_vc_agent.model.objects import Object, maps_at, uid_of
from karmada_vc_agent.work.affected_works import HeldChanges
from karmada_vc_agent.work.memory_bounds import KeepStatus, WorkBounds, keep_all
from karmada_vc_agent.work.rules.work_conditions import (
    ManifestStatus,
    compose_work_status,
    merge_entries,
)
from karmada_vc_agent.work.works import (
    WorkKey,
    Works,
    is_listed,
    is_trimmed,
    key_of_work,
    manifests_of,
    put_status,
    without_reflected,
    work_path,
)


@dataclass(frozen=True, slots=True)
class Report:
    """Conditions and entries of one Work, and when they held.

    status: the whole status as it will be.
    """

    uid: str
    is_deleted: bool
    conditions: list[Condition]
    entries: list[ManifestStatus]
    at: str
    status: Object

    def is_of(self, work: Object) -> bool:
        """Return True for this very Work, unless it was deleted since."""
        return (self.uid, self.is_deleted) == (uid_of(work), _is_deleted(work))


class WorkReports:
    """Keeps the newest report of each Work.

    due: called with the Works to write. now: the time as Kubernetes writes it. kept: returns a
    status of a Work (virtual cluster, uid) as it is kept, None where only its health is.
    """

    def __init__(
        self,
        due: Callable[[WorkKey], None],
        now: Callable[[], str],
        scopes: Scopes,
        kept: KeepStatus = keep_all,
    ) -> None:
        self._kept = kept
        self._due = due
        self._now = now
        self._reports: dict[WorkKey, Report] = scopes.keep_by(itemgetter(0))

    def report(
        self, work: Object, conditions: list[Condition], entries: list[ManifestStatus]
    ) -> None:
        """Have conditions and entries written if anything differs.

        Nothing of a Work of the checkpoint: the hub's list has every Work synced again, and what
        holds then is written, once.
        """
        if not is_listed(work):
            return
        key, at = key_of_work(work), self._now()
        work = self.with_reported_status(work)
        before = work.get("status")
        status = compose_work_status(before, conditions, entries, manifests_of(work), at)
        kept = self._kept(key[0], uid_of(work), status)
        if kept is None:
            status = without_reflected(status)
            entries = cast("list[ManifestStatus]", maps_at(status, "manifestStatuses"))
        else:
            status = kept
        if status == (before or {}):
            return
        former = self._reports.get(key)
        if former is not None and former.is_of(work):  # what is not written yet is written with it
            new = {each["type"]: each for each in conditions}
            conditions = list(
                {**{each["type"]: each for each in former.conditions}, **new}.values()
            )
            entries = merge_entries(former.entries, entries, manifests_of(work))
        if former is not None and former.conditions == conditions:
            at = former.at
        self._reports[key] = Report(
            uid_of(work), _is_deleted(work), conditions, entries, at, status
        )
        self._due(key)

    def with_reported_status(self, work: Object) -> Object:
        """Return a Work with the status that the hub is to have of it."""
        report = self._reports.get(key_of_work(work))
        return {**work, "status": report.status} if report and report.is_of(work) else work

    def of(self, key: WorkKey) -> Report | None:
        """Return what is to be written of a Work; None = nothing."""
        return self._reports.get(key)

    def done(self, key: WorkKey, report: Report) -> None:
        """Forget a report that was written, or is of no use, unless there is a newer one."""
        if self._reports.get(key) is report:
            del self._reports[key]

    def forget(self, key: WorkKey) -> None:
        """Forget a Work that is deleted or being deleted."""
        self._reports.pop(key, None)


def _is_deleted(work: Object) -> bool:
    return bool(work["metadata"].get("deletionTimestamp"))


class HubWorks:
    """Reads Works in full and writes their statuses; the store has each answer at once."""

    def __init__(
        self,
        hub: ApiClient,
        works: Works,
        bounds: WorkBounds,
        held_changes: HeldChanges,
    ) -> None:
        self._hub = hub
        self._works = works
        self._bounds = bounds
        self._held_changes = held_changes

    async def whole(self, work: Object) -> Object | None:
        """Return a Work in full; None if it was deleted or replaced.

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

    async def write_status(self, cached: Object, report: Report) -> None:
        """PUT what a report says if anything differs. Raises KubeError, RetryError."""
        work = await self.whole(cached)
        if work is None:
            return
        namespace, name = work["metadata"]["namespace"], work["metadata"]["name"]

        async def write(current: Object | None) -> None:
            if current is None or not _is_same(current, work):
                return  # the watch will report another Work, or a deletion
            live = current.get("status")
            manifests = manifests_of(current)
            status = compose_work_status(
                live, report.conditions, report.entries, manifests, report.at
            )
            if status == (live or {}):
                return
            with suppress(NotFoundError):  # the Work is deleted; the watch will report it
                answer = await put_status(self._hub, current, status)
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
            return await self._hub.get(work_path(namespace, name))
        except NotFoundError:
            return None

    def _observe(self, work: Object) -> None:
        self._held_changes.saw(key_of_work(work), work)
        work["metadata"].pop("managedFields", None)
        self._keep(work, Store.observe)

    def _keep(self, work: Object, put: Callable[[Store[Object], Object], object]) -> None:
        """Store the hub's answer to a write of a Work, within the bounds; not if it was deleted."""
        namespace, name = work["metadata"]["namespace"], work["metadata"]["name"]
        store = self._works.store_of_namespace(namespace)
        if store is None:
            return
        self._bounds.observe(work)  # before it is stored: it may be trimmed
        put(store, work)
        stored = store.get(namespace, name)
        if stored is None:
            self._bounds.remove(work)
        elif stored is not work:
            self._bounds.observe(stored)


def _is_same(fresh: Object, work: Object) -> bool:
    """Return whether a result for a Work also applies to its current version."""
    marks = [bool(each["metadata"].get("deletionTimestamp")) for each in (fresh, work)]
    return uid_of(fresh) == uid_of(work) and marks[0] == marks[1]


async def write_report(
    reports: WorkReports,
    works: Works,
    hub_works: HubWorks,
    held_changes: HeldChanges,
    key: WorkKey,
) -> None:
    """Write the newest report of one Work; the only writer of Work.status.

    Raises KubeError, RetryError.
    """
    report, work = reports.of(key), works.get(*key)
    if report is None:
        return
    if work is not None and report.is_of(work):
        held_changes.begin_status(key)
        try:
            await hub_works.write_status(work, report)
        finally:
            held_changes.end_status(key)
    reports.done(key, report)
