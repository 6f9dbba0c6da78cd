"""The renewTime of Leases grows, whatever clocks say."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from karmada_vc_agent.kube.leader_election import renew_time, seconds_ahead

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
AHEAD = "2026-01-01T12:02:30.500000Z"


def lease(renewed: Any) -> dict[str, Any]:
    return {"spec": {"renewTime": renewed}}


def test_time_of_a_lease_is_now() -> None:
    assert renew_time({}, NOW) == "2026-01-01T12:00:00.000000Z"
    assert renew_time(lease("2026-01-01T11:59:50.000000Z"), NOW) == "2026-01-01T12:00:00.000000Z"


def test_time_of_a_lease_that_is_ahead_grows_all_the_same() -> None:
    first = renew_time(lease(AHEAD), NOW)
    assert first == "2026-01-01T12:02:30.501000Z"
    assert renew_time(lease(first), NOW + timedelta(seconds=10)) > first


def test_seconds_ahead_are_reported() -> None:
    assert seconds_ahead(lease(AHEAD), NOW) == 150.5
    assert seconds_ahead(lease("2026-01-01T11:00:00Z"), NOW) == 0
    assert seconds_ahead({}, NOW) == 0


@pytest.mark.parametrize(
    "odd", [None, "", "soon", 7, [], {}, "2026-01-01T12:02:30", "9999-12-31T23:59:59.999999Z"]
)
def test_odd_time_of_a_lease_counts_as_none(odd: Any) -> None:
    assert renew_time(lease(odd), NOW) == "2026-01-01T12:00:00.000000Z"
    assert seconds_ahead(lease(odd), NOW) == 0
