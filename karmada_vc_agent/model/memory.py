"""How much memory a decoded JSON value holds: what bounds count."""

from sys import getsizeof
from typing import Any


def bytes_of(value: Any) -> int:
    """Return the bytes that a JSON value holds in memory.

    Keys that the decoder shares between maps count once. It is the same in every process that
    decoded the same text.
    """
    keys: dict[int, str] = {}
    total, left = 0, [value]
    while left:
        each = left.pop()
        total += getsizeof(each)
        if isinstance(each, dict):
            keys.update(zip(map(id, each), each, strict=True))
            left += each.values()
        elif isinstance(each, list):
            left += each
    return total + sum(map(getsizeof, keys.values()))
