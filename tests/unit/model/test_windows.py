from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karmada_vc_agent.model.quantity import WindowState, parse_windows, window_state

BERLIN = "Mon-Fri 22:00-05:00 Europe/Berlin"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def seen(windows: str, now: str) -> tuple[bool, str]:
    found = window_state(parse_windows(windows), at(now))
    return found.is_open, found.text


@pytest.mark.parametrize(
    ("windows", "now", "expected"),
    [
        # 2026-11-23 is a Monday.
        (BERLIN, "2026-11-23T21:59+01:00", (False, "2026-11-23 22:00 Europe/Berlin")),
        (BERLIN, "2026-11-23T22:00+01:00", (True, "2026-11-24 05:00 Europe/Berlin")),
        (BERLIN, "2026-11-24T04:59+01:00", (True, "2026-11-24 05:00 Europe/Berlin")),
        (BERLIN, "2026-11-24T05:00+01:00", (False, "2026-11-24 22:00 Europe/Berlin")),
        # The one of Friday night ends on Saturday; none begins on Saturday or Sunday.
        (BERLIN, "2026-11-28T04:00+01:00", (True, "2026-11-28 05:00 Europe/Berlin")),
        (BERLIN, "2026-11-28T23:00+01:00", (False, "2026-11-30 22:00 Europe/Berlin")),
        (BERLIN, "2026-11-23T04:00+01:00", (False, "2026-11-23 22:00 Europe/Berlin")),
        # Another zone sees the same moment.
        (BERLIN, "2026-11-23T21:30+00:00", (True, "2026-11-24 05:00 Europe/Berlin")),
        ("22:00-23:00", "2026-11-23T22:30+00:00", (True, "2026-11-23 23:00 UTC")),
        ("Fri-Mon 10:00-11:00", "2026-11-22T10:30Z", (True, "2026-11-22 11:00 UTC")),
        ("Fri-Mon 10:00-11:00", "2026-11-24T10:30Z", (False, "2026-11-27 10:00 UTC")),
        ("Tue,Thu 10:00-11:00", "2026-11-25T10:30Z", (False, "2026-11-26 10:00 UTC")),
        ("Mon 00:00-24:00", "2026-11-23T23:59Z", (True, "2026-11-24 00:00 UTC")),
        # Several: the next beginning, and one that ends where another begins goes on.
        ("Mon 10:00-11:00; Mon 11:00-12:00", "2026-11-23T10:30Z", (True, "2026-11-23 12:00 UTC")),
        ("Mon 10:00-11:00; Tue 09:00-12:00", "2026-11-23T12:30Z", (False, "2026-11-24 09:00 UTC")),
        ("00:00-24:00", "2026-11-23T12:30Z", (True, "")),
        # Summer time begins on 2026-03-29 at 02:00, which is 03:00 then.
        (
            "01:00-05:00 Europe/Berlin",
            "2026-03-29T02:59Z",
            (True, "2026-03-29 05:00 Europe/Berlin"),
        ),
        (
            "01:00-05:00 Europe/Berlin",
            "2026-03-29T03:00Z",
            (False, "2026-03-30 01:00 Europe/Berlin"),
        ),
        (
            "02:30-02:45 Europe/Berlin",
            "2026-03-29T01:30Z",
            (True, "2026-03-29 03:45 Europe/Berlin"),
        ),
        # It ends on 2026-10-25 at 03:00, which is 02:00 then: of both 02:30 the first one counts.
        (
            "02:30-04:00 Europe/Berlin",
            "2026-10-25T00:30Z",
            (True, "2026-10-25 04:00 Europe/Berlin"),
        ),
        (
            "22:00-02:30 Europe/Berlin",
            "2026-10-25T00:29Z",
            (True, "2026-10-25 02:30 Europe/Berlin"),
        ),
        (
            "22:00-02:30 Europe/Berlin",
            "2026-10-25T00:30Z",
            (False, "2026-10-25 22:00 Europe/Berlin"),
        ),
    ],
)
def test_window_is_open_by_the_clock_of_its_zone(
    windows: str, now: str, expected: tuple[bool, str]
) -> None:
    assert seen(windows, now) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("22-05", "is not a valid window"),
        ("Mon-Fri 22:00-05:00 ", None),
        ("mon 22:00-05:00", "is not a valid window"),
        ("Mon 24:00-05:00", "is not a valid window"),
        ("Mon 10:00-10:60", "is not a valid window"),
        ("Mon 10:00-10:00", "has no length"),
        ("Mon 10:00-11:00 Europe/Atlantis", '"Europe/Atlantis" is not a time zone'),
        ("Mon 10:00-11:00 ../etc/passwd", "is not a valid window"),
        ("Mon 10:00-11:00;", "is not a valid window"),
        ("", "is not a valid window"),
    ],
)
def test_wrong_window_is_reported_with_an_example(text: str, problem: str | None) -> None:
    if problem is None:
        assert parse_windows(text)
        return
    with pytest.raises(ValueError, match=problem):
        parse_windows(text)


ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
MINUTES = st.integers(0, 24 * 60 - 1)


@given(ZONES, MINUTES, MINUTES, st.integers(0, 525_600))
def test_state_holds_until_the_returned_time_and_changes_then(
    zone: str, start: int, end: int, minute: int
) -> None:
    if start == end:
        return
    text = f"{start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02} {zone}"
    windows = parse_windows(text)
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
    found = window_state(windows, now)
    assert found.until is not None
    assert found.until > now
    just_before = window_state(windows, found.until - timedelta(seconds=1))
    assert just_before == WindowState(found.is_open, found.until)
    assert window_state(windows, found.until).is_open != found.is_open
