"""The comparison itself: an artificial difference is caught, wherever it is."""

import copy
from typing import Any

import pytest

from e2e.differential.allowed_differences import ALLOWED
from e2e.differential.compare import Allowed, differences, lost_events, not_allowed, stale
from e2e.differential.play import Result
from e2e.lab.api import Object

_OBSERVED: Object = {
    "works": {"WORK": {"metadata": {"finalizers": ["f"]}, "status": {"conditions": [{"a": "b"}]}}},
    "host": {"ConfigMap/x": {"data": {"key": "value"}}, "ConfigMap/y": None},
    "events": {"execution-controller SyncSucceed Work/WORK": [{"message": "done"}]},
}


def test_equal_observations_have_no_difference() -> None:
    assert differences("case", _OBSERVED, copy.deepcopy(_OBSERVED)) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("host", "ConfigMap/x", "data", "key"), "other"),
        (("host", "ConfigMap/y"), {}),
        (("works", "WORK", "metadata", "finalizers"), []),
        (("works", "WORK", "status", "conditions", 0, "a"), True),
        (("events", "execution-controller SyncFailed Work/WORK"), []),
    ],
)
def test_an_artificial_difference_is_caught(path: tuple[Any, ...], value: object) -> None:
    ours = copy.deepcopy(_OBSERVED)
    _put(ours, path, value)
    (found,) = differences("case", _OBSERVED, ours)
    assert found.path == ".".join(map(str, path))
    assert found.ours == value


def test_one_and_true_are_not_the_same() -> None:
    assert differences("case", {"a": 1}, {"a": True})
    assert differences("case", {"a": None}, {})


def test_an_entry_allows_its_case_and_path_alone() -> None:
    entry = Allowed("some-*", "host.*.data", "why", "where")
    (same,) = differences("some-case", {"host": {"x": {"data": 1}}}, {"host": {"x": {"data": 2}}})
    (other,) = differences("case", {"host": {"x": {"data": 1}}}, {"host": {"x": {"data": 2}}})
    (beside,) = differences("some-case", {"host": {"x": {"kind": 1}}}, {"host": {"x": {"kind": 2}}})
    assert not_allowed([same, other, beside], [entry]) == [other, beside]


def test_an_entry_for_what_the_other_agent_lacks_allows_nothing_else() -> None:
    entry = Allowed("case", "status", "why", "where", lacking=True)
    (lacks,) = differences("case", {}, {"status": 1})
    (ours_lacks,) = differences("case", {"status": 1}, {})
    (other,) = differences("case", {"status": 1}, {"status": 2})
    assert not_allowed([lacks, ours_lacks, other], [entry]) == [ours_lacks, other]


def test_event_that_the_other_agent_seldom_writes_is_no_lost_one() -> None:
    told: Object = {"events": {"c Synced Work/w": []}}
    quiet: Object = {"events": {}}
    often = {"a": (told, told), "b": (told, told), "c": (quiet, told)}
    seldom = {"a": (told, told), "b": (quiet, told), "c": (quiet, told)}
    for observed, expected in ((often, {"c: events.c Synced Work/w"}), (seldom, set())):
        found = [d for case, pair in observed.items() for d in differences(case, *pair)]
        assert lost_events(observed, found) == expected


def test_second_message_of_an_event_can_be_lost_and_a_changed_one_cannot() -> None:
    def said(*messages: str) -> Object:
        return {"events": {"c Synced Work/w": [{"message": each} for each in messages]}}

    for ours, expected in (
        (said("a", "b"), {"x: events.c Synced Work/w"}),
        (said("b", "c"), set()),
    ):
        observed = {"x": (said("a"), ours)}
        assert lost_events(observed, differences("x", said("a"), ours)) == expected


def test_entry_that_holds_sometimes_is_never_stale() -> None:
    assert stale([], [Allowed("a", "b", "why", "where", sometimes=True)]) == []


def test_event_that_only_the_other_agent_writes_is_never_a_lost_one() -> None:
    told: Object = {"events": {"c Synced Work/w": []}}
    quiet: Object = {"events": {}}
    observed = {"a": (told, told), "b": (told, told), "c": (told, quiet)}
    assert lost_events(observed, differences("c", told, quiet)) == set()


def test_an_entry_that_allows_nothing_is_stale() -> None:
    used, unused = Allowed("a", "b", "why", "where"), Allowed("a", "c", "why", "where")
    found = differences("a", {"b": 1}, {"b": 2})
    assert stale(found, [used, unused]) == [unused]


def test_every_allowed_difference_says_why_and_where() -> None:
    for entry in ALLOWED:
        assert entry.reason
        assert entry.section
        assert (entry.case, entry.path) != ("*", "*")


def test_a_difference_put_into_what_was_seen_is_caught(results: dict[str, Result]) -> None:
    """With real observations: whatever is changed on our side, the case fails."""
    if not any(not result.differences for result in results.values()):
        pytest.skip("no case was run without a difference")
    # A case of which something is allowed may allow what is put in.
    case, result = next(each for each in results.items() if not each[1].differences)
    real, ours = result.observed
    before = len(not_allowed(differences(case, real, ours), ALLOWED))
    for part in ("works", "templates", "host", "events"):
        changed = copy.deepcopy(ours)
        changed[part] = {**changed[part], "something new": {"more": 1}}
        assert len(not_allowed(differences(case, real, changed), ALLOWED)) == before + 1


def _put(value: Any, path: tuple[Any, ...], wanted: object) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = wanted
