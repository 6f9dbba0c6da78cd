"""Ranges of settings: what is in them, and how the rest is told."""

import math

import pytest

from karmada_vc_agent.model.quantity import Duration
from karmada_vc_agent.model.virtual_cluster import Range


@pytest.mark.parametrize(
    ("allowed", "value", "problem"),
    [
        (Range(), 0, None),
        (Range(), -1, "is -1, must be 0 or more"),
        (Range(zero="no limit"), -0.5, "is -0.5, must be 0 (no limit) or more"),
        (Range(1), Duration(0.5), "is 500ms, must be 1s or more"),
        (Range(1), Duration(1), None),
        (Range(is_open=True), Duration(0), "is 0s, must be more than 0s"),
        (Range(is_open=True, below=1), 0.5, None),
        (Range(is_open=True, below=1), 1, "is 1, must be between 0 and 1"),
        (Range(), math.nan, "is nan, must be a finite number"),
        (Range(), math.inf, "is inf, must be a finite number"),
        (Range(), Duration(math.nan), "is nan, must be a finite number"),
        (Range(), 2**63 - 1, None),
        (Range(), 2**63, "is too large"),
        (Range(), -(2**70), "is too large"),
    ],
)
def test_number_is_in_its_range_or_reported(
    allowed: Range, value: float, problem: str | None
) -> None:
    assert allowed.problem(value) == problem
