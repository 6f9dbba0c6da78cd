"""What a probe means, and damping."""

import pytest

from karmada_vc_agent.cluster.rules import conditions
from karmada_vc_agent.cluster.rules.conditions import Condition, Thresholds, damp

UP, DOWN = conditions.observed_ready(200), conditions.observed_ready(None)
NEVER = float("-inf")
THRESHOLDS = Thresholds(success_s=30, failure_s=20)


@pytest.mark.parametrize(
    ("http_status", "status", "reason", "message"),
    [
        (200, "True", "ClusterReady", "cluster is healthy and ready to accept workloads"),
        (None, "False", "ClusterNotReachable", "cluster is not reachable"),
        (500, "False", "ClusterNotReachable", "cluster is not reachable"),
        (404, "False", "ClusterNotReachable", "cluster is not reachable"),
        (301, "False", "ClusterNotReachable", "cluster is not reachable"),
        (199, "False", "ClusterNotReachable", "cluster is not reachable"),
        (
            204,
            "False",
            "ClusterNotReady",
            "cluster is reachable but health endpoint responded without ok",
        ),
    ],
)
def test_a_probe_means_what_karmada_says(
    http_status: int | None, status: str, reason: str, message: str
) -> None:
    assert conditions.observed_ready(http_status) == Condition(
        type="Ready", status=status, reason=reason, message=message
    )


def test_only_2xx_is_online() -> None:
    codes = (None, 199, 200, 299, 300, 500)
    offline = "ClusterNotReachable"
    online = [code for code in codes if conditions.observed_ready(code)["reason"] != offline]
    assert online == [200, 299]


@pytest.mark.parametrize("observed", [UP, DOWN])
def test_the_first_observation_is_taken_as_it_is(observed: Condition) -> None:
    current = DOWN if observed is UP else UP
    written, state = damp(None, observed, current, 100.0, THRESHOLDS)
    assert written is observed
    assert state == (observed["status"], NEVER)


def test_an_observation_without_a_condition_on_the_cluster_is_taken_as_it_is() -> None:
    before = ("True", 90.0)
    written, state = damp(before, DOWN, None, 100.0, THRESHOLDS)
    assert written is DOWN
    assert state is before


@pytest.mark.parametrize(
    ("observed", "current", "threshold_s"), [(DOWN, UP, 20.0), (UP, DOWN, 30.0)]
)
def test_a_flip_is_held_back_for_its_threshold(
    observed: Condition, current: Condition, threshold_s: float
) -> None:
    state = (current["status"], NEVER)
    written, state = damp(state, observed, current, 100.0, THRESHOLDS)
    assert written is current
    assert state == (observed["status"], 100.0)
    just_before = 100.0 + threshold_s - 0.1
    written, state = damp(state, observed, current, just_before, THRESHOLDS)
    assert written is current
    written, state = damp(state, observed, current, 100.0 + threshold_s, THRESHOLDS)
    assert written is observed


def test_flipping_back_starts_the_clock_again() -> None:
    state = ("True", NEVER)
    _, state = damp(state, DOWN, UP, 100.0, THRESHOLDS)
    written, state = damp(state, UP, UP, 110.0, THRESHOLDS)
    assert written is UP
    _, state = damp(state, DOWN, UP, 115.0, THRESHOLDS)
    written, state = damp(state, DOWN, UP, 121.0, THRESHOLDS)
    assert written is UP
    written, _ = damp(state, DOWN, UP, 135.0, THRESHOLDS)
    assert written is DOWN


def test_unknown_becomes_false_at_once() -> None:
    unknown = Condition(type="Ready", status="Unknown", reason="ClusterStatusUnknown", message="")
    written, _ = damp(("True", NEVER), DOWN, unknown, 100.0, THRESHOLDS)
    assert written is DOWN


def test_unknown_set_by_the_hub_becomes_true_at_once_while_the_host_was_up() -> None:
    unknown = Condition(type="Ready", status="Unknown", reason="ClusterStatusUnknown", message="")
    written, _ = damp(("True", NEVER), UP, unknown, 100.0, THRESHOLDS)
    assert written is UP


def test_other_words_of_the_same_status_pass_at_once() -> None:
    failed = conditions.observed_ready(299)
    written, state = damp(("False", 99.0), failed, DOWN, 100.0, THRESHOLDS)
    assert written is failed
    assert state == ("False", 99.0)


def test_default_thresholds_are_those_of_karmada() -> None:
    assert Thresholds() == Thresholds(success_s=30.0, failure_s=30.0)
