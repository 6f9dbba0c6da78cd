"""How deep and how large a JSON value is: one measure for whoever reads, bounds or writes it."""

from typing import Any

import orjson

WRITABLE_LEVELS = 254
"""Maps and lists in one another that orjson writes; what is deeper cannot be sent."""


def size_of(value: Any, levels: int = WRITABLE_LEVELS) -> int | None:
    """Return how many bytes a value takes as JSON; None where it is deeper than `levels`."""
    try:
        text = orjson.dumps(value)
    except TypeError:
        return None
    if levels < WRITABLE_LEVELS and may_be_deeper_than(levels, text) and _is_deeper(levels, value):
        return None
    return len(text)


def may_be_deeper_than(levels: int, text: bytes) -> bool:
    """Whether JSON has so many opening brackets; most has not, and counting them is cheap."""
    return text.count(b"{") + text.count(b"[") > levels


def _is_deeper(levels: int, value: Any) -> bool:
    layer = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        layer = [
            inner
            for outer in layer
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not layer:
            return False
    return bool(layer)
