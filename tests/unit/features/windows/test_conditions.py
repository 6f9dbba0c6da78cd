from typing import Any

import pytest

from karmada_vc_agent.features.windows.feature import namespaces_held, takes_changes
from karmada_vc_agent.model.quantity import WindowState, parse_windows, window_state
from tests.fakes import objects
from tests.unit.model.test_windows import at

WINDOW = "Mon-Fri 22:00-05:00 Europe/Berlin"


@pytest.mark.parametrize(
    ("fields", "now", "status", "reason", "message"),
    [
        ({"paused": True, "window": WINDOW}, "2026-11-23T12:00Z", "False", "Paused", "is paused"),
        ({}, "2026-11-23T12:00Z", "True", "NoWindow", "at once"),
        (
            {"window": WINDOW},
            "2026-11-23T12:00Z",
            *("False", "OutsideWindow", "wait until 2026-11-23 22:00 Europe/Berlin"),
        ),
        (
            {"window": WINDOW},
            "2026-11-23T22:00Z",
            *("True", "InsideWindow", "is open until 2026-11-24 05:00 Europe/Berlin"),
        ),
    ],
)
def test_condition_says_until_when(
    fields: dict[str, Any], now: str, status: str, reason: str, message: str
) -> None:
    vc = objects.virtual_cluster(**fields)
    found = (
        window_state(parse_windows(vc.window), at(now)) if vc.window else WindowState(is_open=True)
    )
    condition = takes_changes(vc, found)
    assert (condition["status"], condition["reason"]) == (status, reason)
    assert message in condition["message"]


def test_held_namespaces_are_named_with_their_reasons() -> None:
    assert namespaces_held([])["status"] == "False"
    condition = namespaces_held(["edge (belt stopped)", "shop (true)"])
    assert condition["status"] == "True"
    assert condition["message"] == ("the agent writes nothing in edge (belt stopped), shop (true)")
