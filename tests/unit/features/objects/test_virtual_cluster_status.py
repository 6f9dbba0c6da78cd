"""The status of a VirtualCluster object: what it counts, what it says, when it is written."""

from typing import Any

import pytest

from karmada_vc_agent.features.objects.status import (
    REGISTERED,
    applied_state,
    compose_status,
    hub_reachable,
    works_applied,
)
from tests.fakes import objects

COUNTS = {"applied": 0, "failed": 0, "pending": 0}
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def observed(contact: str = "", *, is_registered: bool = True, **fields: Any) -> dict[str, Any]:
    condition = REGISTERED.true if is_registered else REGISTERED.false
    conditions = [condition("Registered", "it is on the hub")]
    given = {"generation": 2, "phase": "Active", "nodes": (3, 2), "works": COUNTS | {"applied": 1}}
    given["message"] = ""
    return {"conditions": conditions, "last_contact": contact} | given | fields


def work(name: str, applied: str | None) -> dict[str, Any]:
    made = objects.work(name=name)
    if applied is not None:
        made["status"] = {"conditions": [{"type": "Applied", "status": applied}]}
    return made


def test_status_has_generation_phase_counts_and_conditions() -> None:
    assert compose_status({}, **observed(EARLY), now=EARLY) == {
        "observedGeneration": 2,
        "phase": "Active",
        "nodes": {"total": 3, "ready": 2, "summary": "2/3"},
        "works": {"applied": 1, "failed": 0, "pending": 0},
        "message": "",
        "lastHubContact": EARLY,
        "conditions": [
            {
                "type": "Registered",
                "status": "True",
                "lastTransitionTime": EARLY,
                "reason": "Registered",
                "message": "it is on the hub",
            }
        ],
    }


def test_nothing_new_is_nothing_to_write() -> None:
    live = compose_status({}, **observed("2026-01-01T00:00:00Z"), now=EARLY)
    assert compose_status(live, **observed(LATE), now=LATE) == live


@pytest.mark.parametrize("change", [{"generation": 3}, {"is_registered": False}])
def test_contact_is_written_with_what_changed(change: dict[str, Any]) -> None:
    live = compose_status({}, **observed(EARLY), now=EARLY)
    status = compose_status(live, **observed("2026-01-01T00:00:09Z", **change), now=LATE)
    assert status["lastHubContact"] == "2026-01-01T00:00:09Z"


def test_contact_that_was_stays_while_there_is_none() -> None:
    live = compose_status({}, **observed(EARLY), now=EARLY)
    status = compose_status(live, **observed("", phase="Pending"), now=LATE)
    assert status["lastHubContact"] == EARLY


def test_transition_time_moves_with_the_status_only() -> None:
    live = compose_status({}, **observed(), now=EARLY)
    (same,) = compose_status(live, **observed(generation=3), now=LATE)["conditions"]
    (other,) = compose_status(live, **observed(is_registered=False), now=LATE)["conditions"]
    assert (same["lastTransitionTime"], other["lastTransitionTime"]) == (EARLY, LATE)


def test_condition_that_is_not_observed_any_more_is_dropped() -> None:
    live = compose_status({}, **observed(), now=EARLY)
    live["conditions"].append({"type": "NodeOverlap", "status": "True"})
    status = compose_status(live, **observed(), now=EARLY)
    assert [condition["type"] for condition in status["conditions"]] == ["Registered"]


@pytest.mark.parametrize(
    ("applied", "state"),
    [("True", "applied"), ("False", "failed"), ("Unknown", "pending"), (None, "pending")],
)
def test_state_of_a_work_is_that_of_applied(applied: str | None, state: str) -> None:
    assert applied_state(work("a", applied)) == state


@pytest.mark.parametrize(
    ("counts", "failing", "reason", "message"),
    [
        ({}, "", "NoWorks", "the virtual cluster has no Works"),
        ({"applied": 1}, "", "AllApplied", "1 Work is applied"),
        ({"applied": 1, "pending": 2}, "", "WorksPending", "2 Works are to be applied"),
        ({"failed": 1, "pending": 1}, "a", "WorksFailed", "not applied: a"),
        ({"failed": 5}, "abc", "WorksFailed", "not applied: a, b, c and 2 more"),
    ],
)
def test_works_applied_says_what_is_not(
    counts: dict[str, int], failing: str, reason: str, message: str
) -> None:
    condition = works_applied(COUNTS | counts, failing)
    assert (condition["reason"], condition["message"]) == (reason, message)
    assert condition["status"] == ("True" if reason in ("NoWorks", "AllApplied") else "False")


def test_hub_is_reachable_where_it_accepts_all() -> None:
    assert hub_reachable(None, is_sent=True)["status"] == "True"
    assert hub_reachable(None, is_sent=False)["status"] == "Unknown"
    refused = hub_reachable("it has accepted no Lease", is_sent=True)
    assert (refused["status"], refused["message"]) == ("False", "it has accepted no Lease")
