"""The memory that a decoded JSON value holds, which bounds count."""

from sys import getsizeof
from typing import Any

STORED_BYTES = 3 * 2**19
"""JSON of the largest object that etcd stores."""
SPREAD = 29
"""A value holds at most so many times its JSON: a list of maps of an empty map each."""
OBJECT_BYTES = 4 * STORED_BYTES
"""A larger object is neither applied nor compared; CRDs hold 3.5 times their JSON, others less."""
SMALL_BYTES = 64 * 2**10
"""Smaller objects may be in flight at once, as many as there are workers."""


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
