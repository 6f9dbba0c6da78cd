"""The order of resourceVersions of one resource.

They are decimal and grow. What is no such number comes neither before nor after any other.
"""

_MOST_DIGITS = 20
"""Of a number of 64 bits, which etcd counts in; int() itself fails at some thousand digits."""


def is_lower(version: str, other: str) -> bool:
    """Whether a version is known to come before another."""
    return _is_number(version) and _is_number(other) and int(version) < int(other)


def is_at_most(version: str, other: str) -> bool:
    """Whether a version is known to come before another or to be the same."""
    return _is_number(version) and _is_number(other) and int(version) <= int(other)


def _is_number(version: str) -> bool:
    return version.isdecimal() and len(version) <= _MOST_DIGITS
