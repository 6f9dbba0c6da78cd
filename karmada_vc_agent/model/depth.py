"""How deep and how large a JSON value is."""

from typing import Any

import orjson


def size_of(value: Any) -> int | None:
    """Return how many bytes a JSON value takes; None where it is too deep to be written."""
    text = _written(value)
    return None if text is None else len(text)


def is_deeper_than(levels: int, value: Any) -> bool:
    """Whether maps and lists are nested in more levels than this."""
    text = _written(value)
    if text is None:
        return True
    if text.count(b"{") + text.count(b"[") <= levels:
        return False  # so few can not be nested deeper, the common case
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
    return True


def _written(value: Any) -> bytes | None:
    try:
        return orjson.dumps(value)
    except TypeError:
        return None
