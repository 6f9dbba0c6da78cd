"""WorkReports: what is not written yet is not lost when the next report has less."""

from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.memory_bounds import WorkBounds
from karmada_vc_agent.work.rules import work_conditions
from karmada_vc_agent.work.rules.work_conditions import manifest_status
from karmada_vc_agent.work.work_status import Report, WorkReports
from karmada_vc_agent.work.works import key_of_work
from tests.fakes import objects


def scene(*manifests: Object) -> tuple[WorkReports, Object]:
    work = objects.work(*manifests)
    work["metadata"] |= {"uid": "u", "generation": 1, "resourceVersion": "5"}
    times = iter(f"2026-05-01T10:0{n}:00Z" for n in range(9))
    return WorkReports(lambda _: None, lambda: next(times), Scopes()), work


def report_of(reports: WorkReports, work: Object) -> Report:
    found = reports.of(key_of_work(work))
    assert found is not None
    return found


def test_conditions_that_are_not_written_yet_are_written_with_the_next() -> None:
    reports, work = scene(objects.config_map())
    applied = work_conditions.applied(1, [])
    reports.report(work, [work_conditions.dispatching(suspended=False), applied], [])
    suspended = work_conditions.dispatching(suspended=True)
    reports.report(work, [suspended], [])
    assert report_of(reports, work).conditions == [suspended, applied]


def test_entries_that_are_not_written_yet_are_written_with_the_next() -> None:
    maps = [objects.config_map(name) for name in ("one", "two")]
    reports, work = scene(*maps)
    entries = [manifest_status(n, each, None, "Healthy") for n, each in enumerate(maps)]
    for entry in entries:
        reports.report(work, [], [entry])
    assert report_of(reports, work).entries == entries


def test_what_is_of_another_work_of_that_name_is_not_taken_along() -> None:
    reports, work = scene(objects.config_map())
    reports.report(work, [work_conditions.applied(1, [])], [])
    again = {**work, "metadata": {**work["metadata"], "uid": "another"}}
    suspended = work_conditions.dispatching(suspended=True)
    reports.report(again, [suspended], [])
    assert report_of(reports, again).conditions == [suspended]


def test_where_there_is_no_room_the_hub_has_the_health_alone_and_is_told_it_once() -> None:
    maps = [objects.config_map(name) for name in ("one", "two")]
    _, work = scene(*maps)
    roomless = WorkReports(lambda _: None, lambda: "", Scopes(), lambda *_: None)
    entries = [manifest_status(n, each, {"x": "y"}, "Healthy") for n, each in enumerate(maps)]
    roomless.report(work, [], entries)
    report = report_of(roomless, work)
    assert report.entries == report.status["manifestStatuses"]
    assert report.entries == [{k: e[k] for k in ("identifier", "health")} for e in entries]

    # Read from the hub with more than that, it is written once; then it is as it is to be.
    bounds = WorkBounds({"branch-a": objects.virtual_cluster()}, kept=lambda *_: None)
    for stored, is_due in (
        ({**report.status, "manifestStatuses": entries}, True),
        (report.status, False),
    ):
        work = {**work, "status": stored}
        roomless.forget(key_of_work(work))
        bounds.observe(work)
        assert not any("status" in each for each in work["status"]["manifestStatuses"])
        roomless.report(work, [], entries)
        assert (roomless.of(key_of_work(work)) is not None) is is_due
