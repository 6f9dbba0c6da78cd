"""Attempted escapes: each is tried on the real servers, and its outcome is that of the docs."""

from collections.abc import Callable, Iterator

import pytest

from e2e.escapes.attempt import Attempt, Scene
from e2e.escapes.scene import served
from e2e.escapes.table import attempts_in
from e2e.lab.lab import Lab


@pytest.fixture(scope="module")
def scene(shared_lab: Lab) -> Iterator[Scene]:
    with served(shared_lab, "Shared") as scene:
        yield scene


@pytest.mark.parametrize("attempt", attempts_in("Shared"))
def test_attempted_escape(
    scene: Scene, attempt: Attempt, record_property: Callable[[str, object], None]
) -> None:
    seen = attempt.act(scene)
    record_property("attempt", attempt.title)
    record_property("outcome", seen)
    assert seen == attempt.expected(scene)
