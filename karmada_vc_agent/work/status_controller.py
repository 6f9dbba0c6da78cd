"""Reports of Works -> Work.status (contract 5.4, 6.1), beside the queue that repairs.

read    the newest report, the Work
decide  whether the hub has it
write   one status
"""

from karmada_vc_agent.work.held_changes import HeldChanges
from karmada_vc_agent.work.hub_works import HubWorks
from karmada_vc_agent.work.work_reports import WorkReports
from karmada_vc_agent.work.works import WorkKey, Works


class WorkStatusController:
    """Writes the newest report of each Work; the only writer of Work.status."""

    def __init__(
        self, reports: WorkReports, works: Works, hub_works: HubWorks, held_changes: HeldChanges
    ) -> None:
        self._reports = reports
        self._works = works
        self._hub_works = hub_works
        self._held_changes = held_changes

    async def reconcile(self, key: WorkKey) -> None:
        """Write what is to be told of one Work. Raises KubeError, RetryError."""
        report, work = self._reports.of(key), self._works.get(*key)
        if report is None:
            return
        if work is None or not report.is_of(work):
            self._reports.done(key, report)
            return
        self._held_changes.begin_status(key)
        try:
            await self._hub_works.write_status(work, report)
        finally:
            self._held_changes.end_status(key)
        self._reports.done(key, report)
