"""Every fault, on every side, in every state of the agent, while both sides change.

What is always run: each fault once, each side and each state twice. The rest of the table takes
half an hour and is run nightly: a pair finds what one fault does to one side or state.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from e2e.lab.faults import FAULTS, SIDES, Fault, hold
from e2e.lab.invariants import check, outages, settle
from e2e.lab.lab import Lab
from e2e.lab.scene import HOST, Entry, Scene, content, new_scene
from e2e.lab.wait import within

LASTS_S = 8.0
REPAIRED_S = 60.0
"""Time for a start or a takeover on a slow machine; what is repaired is repaired at once then."""


def _continues(_scene: Scene) -> None:
    pass


def _restart(scene: Scene) -> None:
    scene.restart()


def _take_over(scene: Scene) -> None:
    scene.take_over()


STATES: dict[str, Callable[[Scene], None]] = {
    "running": _continues,
    "restarted": _restart,
    "taken over": _take_over,
}


def _cell(row: int, column: int, number: int) -> ParameterSet:
    """Return a cell; one of each row, by a Latin square, is always run."""
    names = (list(FAULTS)[row], list(SIDES)[column], list(STATES)[number])
    is_always = number == (row + column) % len(STATES) and column == (
        row + row // len(SIDES)
    ) % len(SIDES)
    return pytest.param(*names, marks=() if is_always else pytest.mark.nightly)


CELLS = [
    _cell(row, column, number)
    for row in range(len(FAULTS))
    for column in range(len(SIDES))
    for number in range(len(STATES))
]


@pytest.mark.parametrize(("fault", "side", "state"), CELLS)
def test_hub_host_and_status_agree_after(
    lab: Lab, tmp_path: Path, fault: str, side: str, state: str
) -> None:
    with new_scene(lab, tmp_path) as scene:
        scene.start(has_standby=state == "taken over")
        settle(scene)
        process = scene.agent.process_id
        _play(scene, FAULTS[fault], SIDES[side], STATES[state])
        check(scene)
        if state == "running":
            assert scene.agent.process_id == process
        if state == "running" and fault in ("refuse", "black hole"):
            for server in SIDES[side]:
                within(REPAIRED_S, _is_reported_once, scene, server)


def _play(
    scene: Scene, fault: Fault, sides: tuple[str, ...], reach: Callable[[Scene], None]
) -> None:
    """Have a fault, changes on both sides, and the state to reach at the same time."""
    wires = [scene.wires[side] for side in sides]
    for wire in wires:
        fault.begin(wire)
    scene.change_both_sides()
    reach(scene)
    ends_at = time.monotonic() + LASTS_S + fault.silent_s
    scene.change_both_sides()
    if HOST not in sides:
        drifted = scene.wanted(quiet=False)[0]
        scene.drift(drifted)
        within(REPAIRED_S, _is_repaired, scene, drifted)
    hold(fault, wires, ends_at)


def _is_repaired(scene: Scene, entry: Entry) -> None:
    live = scene.lab.host.get(entry.on_host)
    assert content(entry.kind, live) != {"key": "by hand"}


def _is_reported_once(scene: Scene, server: str) -> None:
    assert outages(scene.agent, server) == (1, 1), scene.agent.log_tail()
