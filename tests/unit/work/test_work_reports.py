"""WorkStatuses: what is not written yet is not lost when the next report has less."""

from typing import Any

from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work import works
from karmada_vc_agent.work.execution import WorkStatuses
from karmada_vc_agent.work.memory_bounds import KeepStatus, WorkBounds, keep_all
from karmada_vc_agent.work.work_watches import HeldChanges
from karmada_vc_agent.work.works import (
    Works,
    key_of_work,
    manifest_status,
    manifests_of,
    reported_over,
)
from tests.fakes import objects


def statuses_of(kept: KeepStatus = keep_all) -> WorkStatuses:
    client: Any = None  # nothing is read or written
    held = HeldChanges(lambda _: None, lambda *_: None)
    times = (f"2026-05-01T10:0{n}:00Z" for n in range(9))
    return WorkStatuses(
        client,
        Works({}),
        WorkBounds({}),
        held,
        lambda _: None,
        lambda: next(times),
        Scopes(),
        kept,
    )


def scene(*manifests: Object) -> tuple[WorkStatuses, Object]:
    work = objects.work(*manifests)
    work["metadata"] |= {"uid": "u", "generation": 1, "resourceVersion": "5"}
    return statuses_of(), work


def reported(statuses: WorkStatuses, work: Object) -> Object:
    status: Object = statuses.with_reported_status(work)["status"]
    return status


def told(status: Object) -> list[tuple[str, str]]:
    return [(each["type"], each["reason"]) for each in status["conditions"]]


def test_conditions_that_are_not_written_yet_are_written_with_the_next() -> None:
    statuses, work = scene(objects.config_map())
    applied = works.applied(1, [])
    statuses.report(work, [works.dispatching(suspended=False), applied], [])
    statuses.report(work, [works.dispatching(suspended=True)], [])
    assert told(reported(statuses, work)) == [
        ("Dispatching", "SuspendDispatching"),
        ("Applied", "AppliedSuccessful"),
    ]


def test_entries_that_are_not_written_yet_are_written_with_the_next() -> None:
    maps = [objects.config_map(name) for name in ("one", "two")]
    statuses, work = scene(*maps)
    entries = [manifest_status(n, each, None, "Healthy") for n, each in enumerate(maps)]
    for entry in entries:
        statuses.report(work, [], [entry])
    assert reported(statuses, work)["manifestStatuses"] == entries


def test_what_is_of_another_work_of_that_name_is_not_taken_along() -> None:
    statuses, work = scene(objects.config_map())
    statuses.report(work, [works.applied(1, [])], [])
    again = {**work, "metadata": {**work["metadata"], "uid": "another"}}
    statuses.report(again, [works.dispatching(suspended=True)], [])
    assert told(reported(statuses, again)) == [("Dispatching", "SuspendDispatching")]


def test_what_changed_and_changed_back_is_as_the_hub_has_it() -> None:
    statuses, work = scene(objects.config_map())
    statuses.report(work, [works.applied(1, [])], [])
    live = reported(statuses, work)
    statuses.report(work, [works.applied(1, ["no"])], [])
    statuses.report(work, [works.applied(1, [])], [])
    newest = reported(statuses, work)
    assert newest != live  # the time
    assert reported_over(live, newest, manifests_of(work)) == live


def test_without_space_the_hub_gets_the_health_alone_once() -> None:
    maps = [objects.config_map(name) for name in ("one", "two")]
    _, work = scene(*maps)
    roomless = statuses_of(lambda *_: None)
    entries = [manifest_status(n, each, {"x": "y"}, "Healthy") for n, each in enumerate(maps)]
    roomless.report(work, [], entries)
    status = reported(roomless, work)
    bare = [{k: e[k] for k in ("identifier", "health")} for e in entries]
    assert status["manifestStatuses"] == bare

    # Read from the hub with more than that, it is written once; then it is as it is to be.
    bounds = WorkBounds({"branch-a": objects.virtual_cluster()}, kept=lambda *_: None)
    for stored, is_due in (({**status, "manifestStatuses": entries}, True), (status, False)):
        work = {**work, "status": stored}
        roomless.forget(key_of_work(work))
        bounds.observe(work)
        assert not any("status" in each for each in work["status"]["manifestStatuses"])
        roomless.report(work, [], entries)
        assert (reported(roomless, work) != work["status"]) is is_due
