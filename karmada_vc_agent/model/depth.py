"""Depth and size of a JSON value: one measure for readers, bounds and writers."""

from typing import Any

import orjson

WRITABLE_LEVELS = 254
"""Maximum nesting that orjson encodes; deeper values cannot be sent."""


def size_of(value: Any, levels: int = WRITABLE_LEVELS) -> int | None:
    """Return the size of a value as JSON in bytes; None if it is deeper than `levels`."""
    try:
        text = orjson.dumps(value)
    except TypeError:
        return None
    if levels < WRITABLE_LEVELS and may_be_deeper_than(levels, text) and _is_deeper(levels, value):
        return None
    return len(text)


def may_be_deeper_than(levels: int, text: bytes) -> bool:
    """Return True for JSON with that many brackets; a cheap test that most JSON fails."""
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
