"""Setting a condition in a list."""

import copy

from karmada_vc_agent.cluster.rules import conditions
from karmada_vc_agent.cluster.rules.conditions import Condition, set_conditions

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z"


def _condition(type_: str, status: str, reason: str = "R", message: str = "m") -> Condition:
    return Condition(type=type_, status=status, reason=reason, message=message)


def _at(time: str, condition: Condition) -> Condition:
    return Condition(**{**condition, "lastTransitionTime": time})


def test_new_condition_is_appended_with_the_time() -> None:
    foreign = _at(THEN, _condition("Other", "True"))
    assert set_conditions([foreign], [_condition("Ready", "True")], NOW) == [
        foreign,
        _at(NOW, _condition("Ready", "True")),
    ]


def test_the_first_condition_makes_the_list() -> None:
    expected = [_at(NOW, _condition("Ready", "True"))]
    assert set_conditions(None, [_condition("Ready", "True")], NOW) == expected


def test_the_transition_time_moves_when_status_flips() -> None:
    live = [_at(THEN, _condition("Ready", "True"))]
    assert set_conditions(live, [_condition("Ready", "False")], NOW) == [
        _at(NOW, _condition("Ready", "False"))
    ]


def test_the_transition_time_stays_when_only_the_words_change() -> None:
    live = [_at(THEN, _condition("Ready", "True", "Old", "old"))]
    assert set_conditions(live, [_condition("Ready", "True", "New", "new")], NOW) == [
        _at(THEN, _condition("Ready", "True", "New", "new"))
    ]


def test_conditions_of_others_keep_their_place_and_content() -> None:
    first, last = _at(THEN, _condition("First", "False")), _at(THEN, _condition("Last", "Unknown"))
    live = [first, _at(THEN, _condition("Ready", "True")), last]
    updated = set_conditions(live, [_condition("Ready", "False")], NOW)
    assert [updated[0], updated[2]] == [first, last]


def test_observed_generation_is_never_kept() -> None:
    live = [{**_at(THEN, _condition("Ready", "True")), "observedGeneration": 3}]
    updated = set_conditions(live, [_condition("Ready", "True")], NOW)  # type: ignore[arg-type]  # as on the hub
    assert updated == [_at(THEN, _condition("Ready", "True"))]


def test_a_time_of_the_given_condition_does_not_count() -> None:
    given = _at(THEN, _condition("Ready", "True"))
    assert set_conditions([], [given], NOW)[0]["lastTransitionTime"] == NOW


def test_input_is_not_modified() -> None:
    live = [_at(THEN, _condition("Ready", "True"))]
    given = _condition("Ready", "False")
    before = copy.deepcopy((live, given))
    set_conditions(live, [given], NOW)
    assert (live, given) == before


def test_find_condition_looks_at_the_type() -> None:
    ready = _condition("Ready", "True")
    assert conditions.find_condition([_condition("Other", "True"), ready], "Ready") is ready
    assert conditions.find_condition([ready], "Other") is None
    assert conditions.find_condition(None, "Ready") is None
