"""A sync needs no other for what it wrote itself, however early the watch tells of it."""

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.work_watches import HeldChanges
from karmada_vc_agent.work.works import WorkKey

KEY = ("branch-a", "web")


def version(number: int, uid: str = "u1") -> Object:
    return {"metadata": {"name": "c", "uid": uid, "resourceVersion": str(number)}}


def new() -> tuple[HeldChanges, list[WorkKey]]:
    enqueued: list[WorkKey] = []
    return HeldChanges(enqueued.append, lambda *_: None), enqueued


def test_change_is_enqueued_at_once_while_nothing_is_synced() -> None:
    held, enqueued = new()
    held.begin(("branch-a", "other"))
    held.changed(KEY, version(1))
    assert enqueued == [KEY]


def test_own_write_notified_before_its_response_enqueues_nothing() -> None:
    held, enqueued = new()
    held.begin(KEY)
    held.changed(KEY, version(1))
    held.saw(KEY, version(1))
    held.end(KEY)
    assert enqueued == []


def test_change_that_the_sync_did_not_see_is_enqueued_when_it_ends() -> None:
    held, enqueued = new()
    held.begin(KEY)
    held.saw(KEY, version(1))
    for told in (version(1), version(2), version(1, uid="u2")):
        held.changed(KEY, told)
    assert enqueued == []
    held.end(KEY)
    assert enqueued == [KEY]


@pytest.mark.parametrize(
    ("old", "new", "is_status"),
    [
        (version(1), {**version(2), "status": {"a": 1}}, True),
        ({**version(1), "status": {"a": 1}}, version(2), True),
        (version(1), {**version(2), "spec": {}}, False),
        (version(1), {**version(2), "status": {}, "data": {}}, False),
        (version(1), version(2, uid="u2"), False),
        (None, version(1), False),
        (version(1), None, False),
    ],
)
def test_change_of_a_status_alone_is_enqueued_with_its_object(
    old: Object | None, new: Object | None, *, is_status: bool
) -> None:
    due: list[WorkKey] = []
    statuses: list[tuple[WorkKey, Object]] = []
    held = HeldChanges(due.append, lambda *change: statuses.append(change))
    held.changed(KEY, new, old)
    assert (due, statuses) == (([], [(KEY, new)]) if is_status else ([KEY], []))
    held.begin(KEY)
    held.changed(KEY, new or version(3), old)
    held.end(KEY)
    assert due[-1:] == [KEY], "what a sync missed is synced in full"


def test_deletion_of_what_was_seen_is_enqueued() -> None:
    held, enqueued = new()
    held.begin(KEY)
    held.saw(KEY, version(1))
    held.changed(KEY, None)
    held.end(KEY)
    assert enqueued == [KEY]


def test_nothing_is_kept_of_a_sync_that_ended() -> None:
    held, enqueued = new()
    held.begin(KEY)
    held.saw(KEY, version(1))
    held.end(KEY)
    held.saw(KEY, version(2))
    held.begin(KEY)
    held.changed(KEY, version(2))
    held.end(KEY)
    assert enqueued == [KEY]


def test_a_sync_is_current_until_what_any_depends_on_changes() -> None:
    held, _ = new()
    assert not held.begin(KEY)
    held.end(KEY)
    assert held.begin(KEY)
    held.dependencies_changed(set())
    assert held.begin(KEY)
    held.dependencies_changed({"branch-b"})
    held.end(KEY)
    assert not held.begin(KEY), "it changed while the Work was synced"
