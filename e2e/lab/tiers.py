"""Which rows of a table are run always, and which only nightly."""

from collections.abc import Collection, Iterable

import pytest
from _pytest.mark import ParameterSet


def rows(table: Iterable[str], nightly: Collection[str]) -> list[ParameterSet]:
    """Return the rows of a table as parameters; those that other stories hold, too, are nightly."""
    return [pytest.param(row, marks=pytest.mark.nightly if row in nightly else ()) for row in table]
