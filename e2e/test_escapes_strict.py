"""The same attempts between tenants that do not trust each other (`tenancy: Strict`)."""

import pytest

from e2e.escapes.attempt import Attempt, Scene
from e2e.escapes.scene import set_up
from e2e.escapes.table import ATTEMPTS, BY_PROFILE
from e2e.lab.lab import Lab


@pytest.fixture(scope="module")
def scene(shared_lab: Lab) -> Scene:
    return set_up(shared_lab, "Strict")


@pytest.mark.parametrize("attempt", [*ATTEMPTS, *BY_PROFILE], ids=lambda attempt: attempt.title)
def test_attempted_escape(scene: Scene, attempt: Attempt) -> None:
    assert attempt.act(scene) == attempt.expected("Strict")
