"""The rows of rows.yaml, and which of them is that of a resource or field."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("rows.yaml")

Row = tuple[str, str]
"""A pattern; what it leads to: the name of a rule, or why it is harmless."""


@cache
def rows() -> Mapping[str, Any]:
    """Return all rows."""
    found: Mapping[str, Any] = yaml.safe_load(FILE.read_text())
    return found


def of_resources() -> Iterator[Row]:
    """Yield (pattern, rule)."""
    for rule, patterns in rows()["resources"].items():
        yield from ((pattern, rule) for pattern in patterns.split())


def of_fields() -> Iterator[Row]:
    """Yield (pattern, rule), then (pattern, why it is harmless)."""
    for row in rows()["held"]:
        for rule, patterns in row.items():
            yield from ((pattern, rule) for pattern in patterns.split())
    for row in rows()["harmless"]:
        yield from ((pattern, row["why"]) for pattern in row["patterns"].split())


def find(name: str, found: Iterator[Row]) -> Row | None:
    """Return the first row that matches; an exact resource before a pattern."""
    matching = [row for row in found if fnmatchcase(name, row[0])]
    exact = [row for row in matching if row[0] == name]
    return next(iter(exact or matching), None)
