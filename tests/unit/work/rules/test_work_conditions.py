"""Conditions of a Work in Karmada's words."""

import pytest

from karmada_vc_agent.cluster.rules.conditions import Condition
from karmada_vc_agent.work import works


def _condition(type_: str, status: str, reason: str, message: str) -> Condition:
    return Condition(type=type_, status=status, reason=reason, message=message)


@pytest.mark.parametrize(
    ("suspended", "expected"),
    [
        (
            True,
            _condition(
                "Dispatching",
                "False",
                "SuspendDispatching",
                "Work dispatching is in a suspended state.",
            ),
        ),
        (
            False,
            _condition(
                "Dispatching",
                "True",
                "Dispatching",
                "Work is being dispatched to member clusters.",
            ),
        ),
    ],
)
def test_dispatching_says_whether_the_work_is_suspended(
    suspended: bool, expected: Condition
) -> None:
    assert works.dispatching(suspended=suspended) == expected


@pytest.mark.parametrize("total", [0, 1, 3])
def test_applied_is_true_when_nothing_failed(total: int) -> None:
    assert works.applied(total, []) == _condition(
        "Applied", "True", "AppliedSuccessful", "Manifest has been successfully applied"
    )


@pytest.mark.parametrize(
    ("total", "errors", "message"),
    [
        (1, ["e1"], "Failed to apply all manifests (0/1): e1"),
        (3, ["e1"], "Failed to apply all manifests (2/3): e1"),
        (3, ["e1", "e2"], "Failed to apply all manifests (1/3): [e1, e2]"),
        (3, ["e1", "e1"], "Failed to apply all manifests (1/3): e1"),
        (3, ["e2", "e1", "e2"], "Failed to apply all manifests (0/3): [e2, e1]"),
    ],
)
def test_applied_counts_and_joins_errors(total: int, errors: list[str], message: str) -> None:
    assert works.applied(total, errors) == _condition("Applied", "False", "AppliedFailed", message)


def test_recreation_has_reasons_of_its_own() -> None:
    assert works.recreated(None) == _condition(
        "Applied", "True", "ReCreateSuccessful", "Manifest has been successfully applied"
    )
    assert works.recreated("boom") == _condition("Applied", "False", "ReCreateFailed", "boom")


@pytest.mark.parametrize("sign", ["x", "é"])
def test_a_message_is_cut_at_the_limit_of_the_crd(sign: str) -> None:
    assert len(works.applied(1, [sign * 40000])["message"]) == 32768
    assert works.recreated(sign * 40000)["message"] == sign * 32768
