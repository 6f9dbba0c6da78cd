"""WorkTally: Works are counted as they change, each once."""

from typing import Any

import pytest

from karmada_vc_agent.cluster.virtual_clusters import Scopes
from karmada_vc_agent.features.objects.status import WorkCounts, WorkTally
from karmada_vc_agent.kube.controller import Signal
from karmada_vc_agent.model.objects import Object
from tests.fakes import objects

Changes = Signal[[str, Object | None, Object | None]]


def work(name: str, applied: str | None = None) -> Any:
    made = objects.work(name=name)
    if applied is not None:
        made["status"] = {"conditions": [{"type": "Applied", "status": applied}]}
    return made


@pytest.fixture
def changes() -> Changes:
    return Signal()


def test_work_counts_once_as_it_is_now(changes: Changes) -> None:
    tally = WorkTally(changes, Scopes())
    changes.emit("branch-a", None, work("a"))
    changes.emit("branch-a", work("a"), work("a", "False"))
    changes.emit("branch-a", None, work("b", "True"))
    changes.emit("branch-a", work("b"), work("b", "True"))
    changes.emit("branch-b", None, work("a"))
    assert tally.of("branch-a") == WorkCounts(applied=1, failed=1, failing=("a",))
    assert tally.of("branch-b") == WorkCounts(pending=1)
    changes.emit("branch-a", work("a"), None)
    changes.emit("branch-a", work("never seen"), None)
    changes.emit("branch-a", None, None)
    assert tally.of("branch-a") == WorkCounts(applied=1)


def test_few_of_many_failing_are_named(changes: Changes) -> None:
    tally = WorkTally(changes, Scopes())
    for name in "edcba":
        changes.emit("branch-a", None, work(name, "False"))
    assert tally.of("branch-a") == WorkCounts(failed=5, failing=("a", "b", "c"))


def test_changes_of_counts_are_told(changes: Changes) -> None:
    scopes = Scopes()
    tally = WorkTally(changes, scopes)
    told: list[str] = []
    tally.changed.subscribe(told.append)
    changes.emit("branch-a", None, work("a"))
    changes.emit("branch-a", work("a"), work("a"))
    scopes.end("branch-a")
    scopes.end("branch-a")
    assert told == ["branch-a"] * 2
    assert tally.of("branch-a") == WorkCounts()
