"""Validation of values of YAML that are written as JSON to an API server."""

import math
from collections.abc import Iterator
from typing import Any

from karmada_vc_agent.model.texts import shown

_INT64_MAX = 2**63 - 1
_MOST_LEVELS = 64
"""More than objects have; less than Python recurses. An alias in what it names has no end."""

Problems = Iterator[tuple[str, str]]


def json_problems(value: Any, where: str, levels: int = _MOST_LEVELS) -> Problems:
    """Yield the path of each value that cannot be written, and what is wrong with it.

    where: path of the value.
    """
    if isinstance(value, dict | list):
        if not levels:
            yield where, "is nested too deeply"
        elif isinstance(value, dict):
            yield from _map_problems(value, where, levels - 1)
        else:
            for index, inner in enumerate(value):
                yield from json_problems(inner, f"{where}[{index}]", levels - 1)
    elif problem := _problem(value):
        yield where, problem


def _map_problems(value: dict[Any, Any], where: str, levels: int) -> Problems:
    for key, inner in value.items():
        if not isinstance(key, str):
            yield where, f"has key {shown(key)}, must be a string"
        elif problem := _problem(key):
            yield where, f"has a key that {problem}"
        else:
            yield from json_problems(inner, f"{where}.{key}", levels)


def _problem(value: Any) -> str | None:
    """Return what is wrong with a value that has no others in it, or None."""
    if isinstance(value, int) and abs(value) > _INT64_MAX:
        return f"is {_short(value)}, too large for an integer"
    if isinstance(value, float) and not math.isfinite(value):
        return f"is {value:g}, must be a finite number"
    if isinstance(value, str):
        return None if _is_unicode(value) else "is not valid Unicode"
    if value is None or isinstance(value, int | float):
        return None
    return f"is {value}, must be a string; write it in quotes"


def _short(number: int) -> str:
    text = shown(number)
    return text if len(text) <= len(str(_INT64_MAX)) * 2 else f"{text[:20]}..."


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
