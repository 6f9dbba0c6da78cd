"""The newest status of each Work, until it is written (ADR 49).

Execution reports the status and does not wait; a queue of its own writes it
(work/status_controller.py). So no repair waits for a hub that does not answer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import cast

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.cluster.scopes import Scopes
from karmada_vc_agent.model.objects import Object, maps_at, uid_of
from karmada_vc_agent.work.rules.manifest_status import ManifestStatus, merge_entries
from karmada_vc_agent.work.rules.work_status import compose_work_status
from karmada_vc_agent.work.work_bounds import KeepStatus, keep_all
from karmada_vc_agent.work.work_statuses import without_reflected
from karmada_vc_agent.work.works import WorkKey, is_listed, key_of_work, manifests_of


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
