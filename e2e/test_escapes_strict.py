"""The same attempts between tenants that do not trust each other (`tenancy: Strict`)."""

from collections.abc import Iterator

import pytest

from e2e.escapes.attempt import Attempt, Scene
from e2e.escapes.scene import served
from e2e.escapes.table import attempts_in
from e2e.lab.lab import Lab

pytestmark = pytest.mark.strict


@pytest.fixture(scope="module")
def scene(shared_lab: Lab) -> Iterator[Scene]:
    with served(shared_lab, "Strict") as scene:
        yield scene


@pytest.mark.parametrize("attempt", attempts_in("Strict"))
def test_attempted_escape(scene: Scene, attempt: Attempt) -> None:
    assert attempt.act(scene) == attempt.expected(scene)
