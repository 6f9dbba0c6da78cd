"""All attempted escapes, in the order in which docs/isolation.md has them."""

import pytest
from _pytest.mark import ParameterSet

from e2e.escapes import by_gateway, by_hand, by_profile, by_work, on_host, on_namespaces

ATTEMPTS = (
    *by_work.ATTEMPTS,
    *on_host.ATTEMPTS,
    *on_namespaces.ATTEMPTS,
    *by_gateway.ATTEMPTS,
)
"""They end alike in both profiles."""
PROFILES = ("Shared", "Strict")
BY_PROFILE = (*by_profile.ATTEMPTS, *by_hand.ATTEMPTS)


def attempts_in(profile: str) -> list[ParameterSet]:
    """Return the rows of a profile; those that end alike are always run in one, nightly in both."""
    rows = [*ATTEMPTS, *BY_PROFILE]
    nightly = range(1 - PROFILES.index(profile), len(ATTEMPTS), len(PROFILES))
    return [
        pytest.param(row, id=row.title, marks=pytest.mark.nightly if number in nightly else ())
        for number, row in enumerate(rows)
    ]
