"""Durations: how they are written and read, in settings and messages."""

from typing import Any

import pytest

from karmada_vc_agent.model.quantity import LONGEST_S, Duration, format_duration, parse_duration_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("40s", 40.0), ("2m", 120.0), ("1h30m", 5400.0), ("500ms", 0.5), ("1.5s", 1.5), ("0s", 0.0)],
)
def test_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "40", "s", "-1s", "1 s", "1s ", "1d", "1s2", "s1", "1.s"])
def test_duration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid duration"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(40.0, "40s"), (120.0, "2m"), (0.005, "5ms"), (90.0, "90s")]
)
def test_duration_is_written_as_people_do_and_read_back(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(("given", "seconds"), [("2m", 120.0), (5, 5.0), (0.5, 0.5)])
def test_duration_of_a_setting_is_a_text_or_a_number_of_seconds(given: Any, seconds: float) -> None:
    assert Duration.read(given) == seconds


@pytest.mark.parametrize("given", [True, None, ["1s"], {}])
def test_duration_is_of_no_other_type(given: Any) -> None:
    with pytest.raises(TypeError):
        Duration.read(given)


@pytest.mark.parametrize("given", [10**400, 1e30, 2**31, float("inf"), "99999999h"])
def test_duration_of_too_many_seconds_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="is too long, must be 596523h or less"):
        Duration.read(given)


@pytest.mark.parametrize("given", [2**31 - 1, "596523h"])
def test_duration_that_a_lease_can_hold_is_taken(given: Any) -> None:
    assert Duration.read(given) <= LONGEST_S
