"""Functions from changes to keys that several controllers share."""

from collections.abc import Iterable
from typing import Any


def same(keys: Iterable[Any]) -> Iterable[Any]:
    """Return the keys of virtual clusters where they are their names."""
    return keys


def itself(key: Any) -> tuple[Any]:
    """Return the keys of a change that is a key itself."""
    return (key,)


def first_of(key: Any, *_: Any) -> tuple[Any]:
    """Return the keys of a change whose first part is the key."""
    return (key,)
