"""Every fault, on every side, in every state of the agent, while both sides change.

What is played always: each fault once, each side and each state twice. With E2E_MATRIX=pairs each
fault meets each side and each state, and each side each state: a third of the table, ten minutes.
E2E_MATRIX=all plays all of it, half an hour: a pair finds what one fault does to one side or state,
and what only three together do is looked for now and then.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.lab.faults import FAULTS, SIDES, Fault, hold
from e2e.lab.invariants import check, outages, settle
from e2e.lab.lab import Lab
from e2e.lab.scene import HOST, Entry, Scene, content, new_scene
from e2e.lab.wait import within

LASTS_S = 8.0
REPAIRED_S = 60.0
"""Time for a start or a takeover on a slow machine; what is repaired is repaired at once then."""


def _goes_on(_scene: Scene) -> None:
    pass


def _restart(scene: Scene) -> None:
    scene.restart()


def _take_over(scene: Scene) -> None:
    scene.take_over()


STATES: dict[str, Callable[[Scene], None]] = {
    "running": _goes_on,
    "restarted": _restart,
    "taken over": _take_over,
}


def _cells() -> list[tuple[str, str, str]]:
    """Return the cells to play: all, those of a Latin square, or one of its cells in each row."""
    extent = os.environ.get("E2E_MATRIX", "few")
    if extent not in ("few", "pairs", "all"):
        raise ValueError(f"E2E_MATRIX is {extent}; it is one of few, pairs, all")
    states = list(STATES)
    return [
        (fault, side, state)
        for row, fault in enumerate(FAULTS)
        for column, side in enumerate(SIDES)
        for number, state in enumerate(states)
        if extent == "all"
        or (
            number == (row + column) % len(states)
            and (extent == "pairs" or column == (row + row // len(SIDES)) % len(SIDES))
        )
    ]


@pytest.mark.parametrize(("fault", "side", "state"), _cells())
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
                within(REPAIRED_S, _is_told_once, scene, server)


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
        within(REPAIRED_S, _is_by_nobodys_hand, scene, drifted)
    hold(fault, wires, ends_at)


def _is_by_nobodys_hand(scene: Scene, entry: Entry) -> None:
    live = scene.lab.host.get(entry.on_host)
    assert content(entry.kind, live) != {"key": "by hand"}


def _is_told_once(scene: Scene, server: str) -> None:
    assert outages(scene.agent, server) == (1, 1), scene.agent.log_tail()
