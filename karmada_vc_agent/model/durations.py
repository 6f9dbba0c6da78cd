"""Durations in human notation."""

import re
from typing import Any, ClassVar, Self

LONGEST_S = 2**31 - 1
"""Leases hold whole seconds in 32 bits."""
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Duration(float):
    """A duration in seconds; settings write it as `40s`, `2m` or a number of seconds."""

    __slots__ = ()
    expected: ClassVar[str] = "a duration such as 40s or 2m"

    @classmethod
    def read(cls, given: Any) -> Self:
        """Parse a string or a number. Raises TypeError and ValueError."""
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
