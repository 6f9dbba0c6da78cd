"""Reads JSON that is partly unreadable: nested too deep, or broken in one item.

The fast path is orjson. Only what it rejects is read here: a pattern matches brackets and strings,
so that any depth can be cut off, and a list split into its items.
"""

import re
from collections.abc import Iterator
from typing import Any

import orjson

from karmada_vc_agent.model.depth import WRITABLE_LEVELS, may_be_deeper_than, size_of

LEVELS = 260
"""Deeper values are read as null. Deeper than can be encoded: what was cut is never sent."""
_HEAD_LEVELS = 3
STEP = 2_000
"""Brackets at a time: 3 ms."""
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TO_BRACKET = re.compile(rb'[^][{}"]*+(?:' + _STRING + rb'[^][{}"]*+)*+[][{}]', re.DOTALL)
"""From outside of a string to the next bracket, skipping strings."""
_IS_ITEMS = re.compile(rb'"items"\s*:\s*\Z')
_KEY_LENGTH = 64
"""Where to search for the key of a list: no encoder writes it with more white space."""
_LIST = ord("[")
_OPEN_BRACKETS = frozenset(b"[{")


def is_too_deep(value: Any, text: bytes) -> bool:
    """Return whether a value is nested deeper than can be encoded again; text: its source."""
    return may_be_deeper_than(WRITABLE_LEVELS, text) and size_of(value) is None


def loads(content: bytes) -> tuple[Any, bool]:
    """Decode with null for values deeper than LEVELS; return also whether there are any.

    Raises orjson.JSONDecodeError.
    """
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        shallow = cut(content, LEVELS)
        if len(shallow) == len(content):
            raise
        return orjson.loads(shallow), True
    if is_too_deep(value, content):
        return orjson.loads(cut(content, LEVELS)), True
    return value, False


def head_of(content: bytes) -> Any:
    """Decode the first levels of an object whose rest cannot be read; None if there are none."""
    try:
        text = cut(content, _HEAD_LEVELS).decode(errors="replace")
        return orjson.loads(text.encode())
    except ValueError:
        return None


def cut(content: bytes, levels: int) -> bytes:
    """Return JSON with null in place of every map and list nested deeper than `levels`."""
    return b"".join(shallow_parts(content, levels, b"null"))


def shallow_parts(content: bytes, levels: int, mark: bytes) -> Iterator[bytes]:
    """Yield the parts of JSON with a mark for what is nested deeper, one a STEP at least."""
    depth = begins = done = 0
    for number, at in enumerate(brackets(content), 1):
        if content[at] in _OPEN_BRACKETS:
            depth += 1
            if depth == levels + 1:
                begins = at
        else:
            if depth == levels + 1:
                yield content[done:begins] + mark
                done = at + 1
            depth -= 1
        if number % STEP == 0:
            yield b""
    yield content[done:]


def split_list(content: bytes) -> tuple[bytes, list[bytes]]:
    """Return a list without its items, and each item by itself."""
    items: list[bytes] = []
    depth = begins = array = 0
    for at in brackets(content):
        if content[at] in _OPEN_BRACKETS:
            depth += 1
            before = max(0, at - _KEY_LENGTH)
            if depth == 2 and content[at] == _LIST and _IS_ITEMS.search(content, before, at):
                array = at
            elif array and depth == 3:
                begins = at
        else:
            if array and depth == 3:
                items.append(content[begins : at + 1])
            elif array and depth == 2:
                return content[:array] + b"[]" + content[at + 1 :], items
            depth -= 1
    return content, items


def brackets(content: bytes) -> Iterator[int]:
    """Yield the positions of brackets outside of strings; stop at an unterminated string."""
    place = _TO_BRACKET.match(content)
    while place is not None:
        yield place.end() - 1
        place = _TO_BRACKET.match(content, place.end())
