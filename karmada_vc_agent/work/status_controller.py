"""Reports of Works -> Work.status (contract 5.4, 6.1), beside the queue that repairs."""

from karmada_vc_agent.work.held_changes import HeldChanges
from karmada_vc_agent.work.hub_works import HubWorks
from karmada_vc_agent.work.work_reports import WorkReports
from karmada_vc_agent.work.works import WorkKey, Works


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
