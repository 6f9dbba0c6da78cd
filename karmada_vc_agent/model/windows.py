"""Maintenance windows, as `Mon-Fri 22:00-05:00 Europe/Berlin`.

Times are those that clocks at the site show. A time that the change to summer time leaves out is
as much later as the clock jumps; of a time that occurs twice the first one counts.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY = f"(?:{'|'.join(DAYS)})"
_DAY_RANGE = f"{_DAY}(?:-{_DAY})?"
_TIME = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_ZONE = "[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*"
ONE_WINDOW: Final = (
    f"(?:({_DAY_RANGE}(?:,{_DAY_RANGE})*) )?({_TIME})-({_TIME}|24:00)(?: ({_ZONE}))?"
)
"""Days, beginning, end, zone."""
WINDOW_RULE: Final = "write for example Mon-Fri 22:00-05:00 Europe/Berlin, and ; between several"
_HORIZON_DAYS = 9


@dataclass(frozen=True, slots=True)
class _Window:
    """One window; days: on which it begins, 0 = Monday. Times are minutes of the day."""

    days: frozenset[int]
    start_minute: int
    end_minute: int
    zone: ZoneInfo

    def spans(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield beginning and end, in UTC, of the windows around `now`, in order."""
        today = now.astimezone(self.zone).date()
        last = int(self.end_minute <= self.start_minute)
        for offset in range(-2, _HORIZON_DAYS):
            day = today + timedelta(days=offset)
            if day.weekday() in self.days:
                start = self._at(day, self.start_minute)
                end = self._at(day + timedelta(days=last), self.end_minute)
                if start < end:
                    yield start, end

    def _at(self, day: date, minute: int) -> datetime:
        days, rest = divmod(minute, 24 * 60)
        clock = time(rest // 60, rest % 60, tzinfo=self.zone)
        return datetime.combine(day + timedelta(days=days), clock).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class WindowState:
    """The state of windows, and until when it lasts, in the zone of the window.

    until: None = it never changes within a week.
    """

    is_open: bool
    until: datetime | None = None

    @property
    def text(self) -> str:
        """Return until when, `2026-11-24 22:00 Europe/Berlin`, "" if never."""
        if self.until is None:
            return ""
        return f"{self.until:%Y-%m-%d %H:%M} {self.until.tzinfo}"


@lru_cache(maxsize=1024)
def parse_windows(text: str) -> tuple[_Window, ...]:
    """Parse windows with `;` between them. Raises ValueError."""
    return tuple(_parse(part.strip()) for part in text.split(";"))


def window_state(windows: Sequence[_Window], now: datetime) -> WindowState:
    """Return the state of several windows, of which one is enough to be open."""
    spans = sorted(
        (start, end, window.zone.key) for window in windows for start, end in window.spans(now)
    )
    until, zone = now, ""
    for start, end, key in spans:
        if start <= until < end:
            until, zone = end, key
    if zone:
        is_endless = until - now > timedelta(days=_HORIZON_DAYS - 2)
        return WindowState(
            is_open=True, until=None if is_endless else until.astimezone(ZoneInfo(zone))
        )
    for start, _, key in spans:
        if start > now:
            return WindowState(is_open=False, until=start.astimezone(ZoneInfo(key)))
    return WindowState(is_open=False)


def _parse(text: str) -> _Window:
    match = re.fullmatch(ONE_WINDOW, text)
    if match is None:
        raise ValueError(f'"{text}" is not a valid window; {WINDOW_RULE}')
    days, start, end, zone = match.groups()
    start_minute, end_minute = _minute(start), _minute(end)
    if start_minute == end_minute:
        raise ValueError(f'"{text}" has no length; write 00:00-24:00 for the whole day')
    return _Window(_days(days), start_minute, end_minute, _zone(zone or "UTC"))


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        problem = f'"{name}" is not a time zone; write for example Europe/Berlin'
        raise ValueError(problem) from None


def _minute(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


def _days(text: str | None) -> frozenset[int]:
    """Return the days of `Mon-Wed,Sat`; `Fri-Mon` includes the weekend, None is every day."""
    if not text:
        return frozenset(range(7))
    days: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        days.update((begin + step) % 7 for step in range((end - begin) % 7 + 1))
    return frozenset(days)
