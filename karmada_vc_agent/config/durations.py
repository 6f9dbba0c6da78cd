"""Durations as people write them."""

import re

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration_s(text: str) -> float:
    """Return the seconds of `40s`, `2m`, `1h30m` or `500ms`. Raises ValueError."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f'"{text}" is no duration; write for example 40s or 2m')
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def format_duration(seconds: float) -> str:
    """Write seconds as people do: 40s, 2m, 5ms."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    return f"{seconds / 60:g}m" if seconds >= 60 and seconds % 60 == 0 else f"{seconds:g}s"
