"""The order of resourceVersions of one resource.

They are decimal and grow. Other texts have no order.
"""

_MOST_DIGITS = 20
"""Digits of a 64-bit number, which etcd uses; int() itself fails at some thousand digits."""


def is_lower(version: str, other: str) -> bool:
    """Return whether a version is certainly lower than another."""
    return _is_number(version) and _is_number(other) and int(version) < int(other)


def is_at_most(version: str, other: str) -> bool:
    """Return whether a version is certainly lower than another or the same."""
    return _is_number(version) and _is_number(other) and int(version) <= int(other)


def is_of_storage(version: str) -> bool:
    """Return whether a list can be of a storage: each has a version to watch from."""
    return version not in ("", "0")


def _is_number(version: str) -> bool:
    return version.isdecimal() and len(version) <= _MOST_DIGITS
