"""Karmada cannot tell our agent from its own, but for the listed differences.

The real karmada-agent serves a host of its own, ours serves a virtual cluster on another; one
hub sends the same to both. See `observe.py` for what is compared.
"""

import pytest

from e2e.differential import compare
from e2e.differential.allowed_differences import ALLOWED
from e2e.differential.conftest import ALLOWED_COUNT, LOST_COUNT
from e2e.differential.corpus import CASES, FROM_MINOR, NEEDS
from e2e.differential.play import Result


@pytest.mark.parametrize("case", CASES)
def test_case(case: str, results: dict[str, Result], record_property: object) -> None:
    if case not in results:
        older = f"a host before 1.{FROM_MINOR.get(case)}"
        pytest.skip(f"the host does not serve {NEEDS[case]}" if case in NEEDS else older)
    result = results[case]
    assert callable(record_property)
    record_property(ALLOWED_COUNT, len(result.differences) - len(result.surprises))
    record_property(LOST_COUNT, result.lost)
    told = [*result.problems, *map(str, result.surprises)]
    if told:
        pytest.fail("\n".join((f"{case}: not as with Karmada's own agent", *told)), pytrace=False)


def test_no_allowed_difference_is_stale(results: dict[str, Result]) -> None:
    """An entry that allows nothing any more would hide the next difference."""
    if not CASES.keys() - results.keys() <= {*NEEDS, *FROM_MINOR}:
        pytest.skip("only a part of the cases was run")
    found = [difference for result in results.values() for difference in result.differences]
    assert compare.stale(found, ALLOWED) == []
