"""Read JSON of which a part is not readable: nested too deep, or broken in one item.

The fast way is orjson's. Only what it refuses comes here: brackets and strings are told
apart by a pattern, so that any depth can be cut off, and a list taken apart into its items.
"""

import re
from typing import Any

import orjson

LEVELS = 260
"""What lies deeper is read as null. More than orjson writes (254): what was cut is never sent."""
_HEAD_LEVELS = 3
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_INNERMOST = rb'[{\[][^][{}"]*+(?:' + _STRING + rb'[^][{}"]*+)*+[}\]]'
_TOKEN = re.compile(_INNERMOST + rb"|" + _STRING + rb"|[][{}]", re.DOTALL)
_QUOTE, _OPENING = b'"', b"[{"


def is_too_deep(value: Any) -> bool:
    """Whether a decoded value is nested deeper than can be written again."""
    try:
        orjson.dumps(value)
    except TypeError:
        return True
    return False


def loads(content: bytes) -> tuple[Any, bool]:
    """Decode, with null for what lies deeper than LEVELS; return also whether anything does.

    Raises orjson.JSONDecodeError.
    """
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        shallow = cut(content, LEVELS)
        if len(shallow) == len(content):
            raise
        return orjson.loads(shallow), True
    if is_too_deep(value):
        return orjson.loads(cut(content, LEVELS)), True
    return value, False


def head_of(content: bytes) -> Any:
    """Decode the first levels of an object whose rest cannot be read; None where there are none."""
    try:
        text = cut(content, _HEAD_LEVELS).decode(errors="replace")
        return orjson.loads(text.encode())
    except ValueError:
        return None


def cut(content: bytes, levels: int) -> bytes:
    """Return JSON with null in place of every map and list nested deeper than `levels`."""
    kept: list[bytes] = []
    depth = begins = done = 0
    for token in _TOKEN.finditer(content):
        start, end = token.span()
        first = content[start : start + 1]
        if first == _QUOTE:
            continue
        is_whole = end - start > 1
        if is_whole or first in _OPENING:
            depth += 1
            if depth == levels + 1:
                begins = start
        if is_whole or first not in _OPENING:
            if depth == levels + 1:
                kept += (content[done:begins], b"null")
                done = end
            depth -= 1
    kept.append(content[done:])
    return b"".join(kept)


def split_list(content: bytes) -> tuple[bytes, list[bytes]]:
    """Return a list without its items, and each item by itself."""
    items: list[bytes] = []
    depth = begins = array = 0
    key, key_ends = b"", 0
    for token in _TOKEN.finditer(content):
        start, end = token.span()
        first = content[start : start + 1]
        if first == _QUOTE:
            if not array and depth == 1:
                key, key_ends = content[start:end], end
            continue
        is_whole = end - start > 1
        if is_whole or first in _OPENING:
            depth += 1
            is_items = depth == 2 and first == b"[" and key == b'"items"'
            if is_items and not is_whole and content[key_ends:start].strip() == b":":
                array = start
            elif array and depth == 3:
                begins = start
        if is_whole or first not in _OPENING:
            if array and depth == 3:
                items.append(content[begins:end])
            elif array and depth == 2:
                return content[:array] + b"[]" + content[end:], items
            depth -= 1
    return content, items
