"""Kubernetes quantities, durations and maintenance windows: values and texts."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, ClassVar, Final, Literal, Self
from zoneinfo import ZoneInfo

Notation = Literal["DecimalSI", "BinarySI", "DecimalExponent"]
"""The format of a quantity: 12M, 12Mi or 12e6."""

Raw = str | int | float
"""A quantity as JSON has it."""

INT64_MAX = 2**63 - 1


class Size(int):
    """A number of bytes; settings may write it as `64Mi`."""

    __slots__ = ()
    expected: ClassVar[str] = "a size such as 64Mi"

    @classmethod
    def read(cls, given: Any) -> Self:
        if isinstance(given, bool) or not isinstance(given, int | str):
            raise TypeError
        return cls(whole_units(given))


class QuantityText(str):
    """A quantity in settings, as a string or a number."""

    __slots__ = ()
    expected: ClassVar[str] = "a quantity such as 500m, 2 or 1.5Gi"

    @classmethod
    def read(cls, given: Any) -> Self:
        if isinstance(given, bool) or not isinstance(given, str | int | float):
            raise TypeError
        if isinstance(given, int) and abs(given) > INT64_MAX:
            raise ValueError("is too large")
        parse(given)
        return cls(given)


_NANO = 10**9
_MILLI_IN_NANO = 10**6
_DECIMAL_EXPONENTS = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_DECIMAL_SUFFIXES = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_TEXT = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<only_part>[0-9]+))"
    r"(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+)|(?P<decimal>[numkMGTPE]?))"
)
AMOUNT = "([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[eE][+-]?[0-9]+|[numkMGTPE])?"
"""The text behind the sign, for schemas."""
_MAX_EXPONENT = 99
"""Larger ones are clamped: 1e99 is beyond anything counted, 1e999999999 would fill memory."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with the format it is printed in."""

    nano: int
    notation: Notation = "DecimalSI"

    def __add__(self, other: "Quantity") -> "Quantity":
        """Add exactly; the format is that of the first addend that is not zero."""
        return Quantity(self.nano + other.nano, self.notation if self.nano else other.notation)

    def __str__(self) -> str:
        """Return the canonical text: no fraction, the largest suffix without loss."""
        if self.nano == 0:
            return "0"
        if self.notation == "BinarySI" and self.nano % _NANO == 0:
            units = self.nano // _NANO
            if abs(units) >= 1024:  # smaller ones are printed as decimals
                return _binary_text(units)
        return _decimal_text(self.nano, self.notation)


@lru_cache(maxsize=8192, typed=True)
def parse(raw: Raw) -> Quantity:
    """Parse a quantity; below nano it is rounded up, as in Kubernetes. Raises ValueError."""
    digits, power, notation = _parts(raw)
    places, magnitude = power + 9, abs(digits)
    magnitude = int(magnitude * 10**places if places >= 0 else -(-magnitude // 10**-places))
    if notation == "BinarySI":
        magnitude = min(magnitude, INT64_MAX * _NANO)
        notation = "DecimalSI" if 0 < magnitude < _NANO else notation
    return Quantity(-magnitude if digits < 0 else magnitude, notation)


def _parts(raw: Raw) -> tuple[int, int, Notation]:
    """Return the digits, the power of ten that they count, and the format. Raises ValueError."""
    text = raw if isinstance(raw, str) else repr(raw)
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(
            f'"{text[:80]}" is not a valid quantity; write for example 500m, 2 or 1.5Gi'
        )
    part = match["part"] or match["only_part"] or ""
    digits = int(match["sign"] + (match["whole"] or "") + part)
    if match["binary"]:
        factor: int = 1024 ** _BINARY_SUFFIXES.index(match["binary"])
        return digits * factor, -len(part), "BinarySI"
    exponent = int(match["exponent"] or _DECIMAL_EXPONENTS[match["decimal"] or ""])
    exponent = max(-_MAX_EXPONENT, min(exponent, _MAX_EXPONENT))
    return digits, exponent - len(part), "DecimalExponent" if match["exponent"] else "DecimalSI"


def read(raw: Raw) -> Quantity | None:
    """Parse a quantity; None if it is invalid: one bad amount must not hide all others."""
    try:
        return parse(raw)
    except ValueError:
        return None


def whole_units(raw: Raw) -> int:
    """Parse a quantity; return whole units, rounded away from zero and clamped to 64 bits."""
    return _scale_down(parse(raw).nano, _NANO)


def milli_units(raw: Raw) -> int:
    """Parse a quantity; return thousandths, likewise."""
    return _scale_down(parse(raw).nano, _MILLI_IN_NANO)


_BINARY = ("memory", "ephemeral-storage", "hugepages-")
_COUNTED = re.compile(
    r"cpu|pods|memory|ephemeral-storage|(hugepages|attachable-volumes)-.*|.*kubernetes\.io/.*"
    r"|(?!requests\.).*/.*",
    re.DOTALL,
)
"""Names of resources whose requests Karmada counts: not `storage`, nor others without a domain."""


@lru_cache(maxsize=1024)
def is_counted(name: str) -> bool:
    """Return True if Karmada counts requests of this resource (contract 4.4)."""
    return _COUNTED.fullmatch(name) is not None


def in_unit(name: str, raw: Raw) -> int:
    """Return milli-cores of cpu, else whole units, rounded up; 0 if the quantity is invalid."""
    try:
        return milli_units(raw) if name == "cpu" else whole_units(raw)
    except ValueError:
        return 0


def of_unit(name: str, amount: int) -> Quantity:
    """Return the reverse of `in_unit`, in Karmada's format."""
    if name == "cpu":
        return of_milli(amount)
    return of_whole(amount, "BinarySI" if name.startswith(_BINARY) else "DecimalSI")


def approximate(raw: Raw) -> float:
    """Parse to a float, as Kubernetes does: 700m is 0.7000000000000001. Raises ValueError."""
    digits, power, _ = _parts(raw)
    try:
        return digits * float(f"1e{power}") if -9 <= power < 0 else parse(raw).nano / _NANO
    except OverflowError as error:
        raise ValueError(f'"{str(raw)[:80]}" is too large for a number') from error


def of_whole(units: int, notation: Notation = "DecimalSI") -> Quantity:
    return Quantity(units * _NANO, notation)


def of_milli(thousandths: int) -> Quantity:
    return Quantity(thousandths * _MILLI_IN_NANO)


def _scale_down(nano: int, unit: int) -> int:
    units = -(-nano // unit) if nano >= 0 else nano // unit
    return max(-INT64_MAX - 1, min(units, INT64_MAX))


def _binary_text(units: int) -> str:
    step = 0
    while units % 1024 == 0 and step < len(_BINARY_SUFFIXES) - 1:
        units //= 1024
        step += 1
    return f"{units}{_BINARY_SUFFIXES[step]}"


def _decimal_text(nano: int, notation: Notation) -> str:
    exponent = -9
    while nano % 1000 == 0:
        nano //= 1000
        exponent += 3
    if exponent == 0:
        return str(nano)
    suffix = None if notation == "DecimalExponent" else _DECIMAL_SUFFIXES.get(exponent)
    return f"{nano}{suffix}" if suffix else f"{nano}e{exponent}"


LONGEST_S = 2**31 - 1
"""Leases hold whole seconds in 32 bits."""
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Duration(float):
    """A duration in seconds; settings write it as `40s`, `2m` or a number of seconds."""

    __slots__ = ()
    expected: ClassVar[str] = "a duration such as 40s or 2m"

    @classmethod
    def read(cls, given: Any) -> Self:
        if isinstance(given, str):
            return cls(parse_duration_s(given))
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise TypeError
        _check_length(given)
        return cls(given)


def parse_duration_s(text: str) -> float:
    """Return the seconds of `40s`, `2m`, `1h30m` or `500ms`. Raises ValueError."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f'"{text}" is not a valid duration; write for example 40s or 2m')
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in parts)
    _check_length(seconds)
    return seconds


def _check_length(seconds: float) -> None:
    if seconds > LONGEST_S:
        raise ValueError(f"is too long, must be {LONGEST_S // 3600}h or less")


def format_duration(seconds: float) -> str:
    """Format seconds for people: 40s, 2m, 5ms."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    return f"{seconds / 60:g}m" if seconds >= 60 and seconds % 60 == 0 else f"{seconds:g}s"


DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY = f"(?:{'|'.join(DAYS)})"
_DAY_RANGE = f"{_DAY}(?:-{_DAY})?"
_CLOCK_TIME = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_ZONE = "[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*"
ONE_WINDOW: Final = (
    f"(?:({_DAY_RANGE}(?:,{_DAY_RANGE})*) )?({_CLOCK_TIME})-({_CLOCK_TIME}|24:00)(?: ({_ZONE}))?"
)
"""Days, beginning, end, zone."""
WINDOW_RULE: Final = "write for example Mon-Fri 22:00-05:00 Europe/Berlin, and ; between several"
_HORIZON_DAYS = 9


@dataclass(frozen=True, slots=True)
class _Window:
    """One window; days: on which it begins, 0 = Monday. Times are minutes from that midnight on."""

    days: frozenset[int]
    start_minute: int
    end_minute: int
    zone: ZoneInfo

    def spans(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield beginning and end, in UTC, of the windows around `now`, in order."""
        today = now.astimezone(self.zone).date()
        for offset in range(-2, _HORIZON_DAYS):
            day = today + timedelta(days=offset)
            start, end = self._at(day, self.start_minute), self._at(day, self.end_minute)
            if day.weekday() in self.days and start < end:
                yield start, end

    def _at(self, day: date, minute: int) -> datetime:
        days, rest = divmod(minute, 24 * 60)
        clock = time(rest // 60, rest % 60, tzinfo=self.zone)
        return datetime.combine(day + timedelta(days=days), clock).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class WindowState:
    """The state of windows, and until when, in their zone; None = for more than a week."""

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
    return tuple(_parse_window(part.strip()) for part in text.split(";"))


def window_state(windows: Sequence[_Window], now: datetime) -> WindowState:
    """Return the state of several windows, of which one is enough to be open."""
    spans = sorted(
        (start, end, window.zone.key) for window in windows for start, end in window.spans(now)
    )
    until, zone = now, ""
    for start, end, key in spans:
        if start <= until < end:
            until, zone = end, key
    if until - now > timedelta(days=_HORIZON_DAYS - 2):
        return WindowState(is_open=True)
    if zone:
        return WindowState(is_open=True, until=until.astimezone(ZoneInfo(zone)))
    opens = (start.astimezone(ZoneInfo(key)) for start, _, key in spans if start > now)
    return WindowState(is_open=False, until=next(opens, None))


def _parse_window(text: str) -> _Window:
    match = re.fullmatch(ONE_WINDOW, text)
    if match is None:
        raise ValueError(f'"{text}" is not a valid window; {WINDOW_RULE}')
    days, start, end, zone = match.groups()
    begins, ends = (int(clock[:2]) * 60 + int(clock[3:]) for clock in (start, end))
    if begins == ends:
        raise ValueError(f'"{text}" has no length; write 00:00-24:00 for the whole day')
    try:
        place = ZoneInfo(zone or "UTC")
    except (KeyError, ValueError, OSError):
        problem = f'"{zone}" is not a time zone; write for example Europe/Berlin'
        raise ValueError(problem) from None
    return _Window(_days(days), begins, ends if begins < ends else ends + 24 * 60, place)


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
