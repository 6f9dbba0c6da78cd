"""Rounds of faults on one scene, and what was seen after each."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from e2e.lab.faults import FAULTS, SIDES, hold
from e2e.lab.invariants import check, settle
from e2e.lab.scene import HOST, HUB, Scene
from e2e.soak.process import Held, held

LASTS_S = (3.0, 20.0)
SILENT = 0.3
"""How often a black hole is there for so long that it is noticed."""
CHANGES = (4, 12)


@dataclass(frozen=True, slots=True)
class Round:
    """One fault. recovered_s: until all invariants held; problem: which did not, "" = none."""

    at_s: float
    fault: str
    side: str
    is_killed: bool
    changes: int
    recovered_s: float
    objects: int
    process: int
    held: Held
    problem: str = ""


def rounds(scene: Scene, chosen: random.Random, minutes: float, kills: float) -> Iterator[Round]:
    """Play faults until the time is over or an invariant does not hold.

    kills: in how many of the rounds the agent is killed.
    """
    began = time.monotonic()
    settle(scene)
    torn = lost = 0
    while time.monotonic() - began < minutes * 60:
        fault, side = chosen.choice(list(FAULTS)), chosen.choice(list(SIDES))
        is_killed = chosen.random() < kills
        changes = _play(scene, chosen, fault, side, is_killed=is_killed)
        torn += is_killed and HUB in SIDES[side]
        lost += is_killed + (HOST in SIDES[side])
        ended, problem = time.monotonic(), ""
        try:
            check(scene, extra_writes=2 * torn, lost_answers=lost)
        except (AssertionError, pytest.fail.Exception) as error:
            problem = str(error)
        now = time.monotonic()
        yield Round(
            at_s=now - began,
            fault=fault,
            side=side,
            is_killed=is_killed,
            changes=changes,
            recovered_s=now - ended,
            objects=len(scene.wanted()),
            process=scene.agent.process_id,
            held=held(scene.agent.process_id),
            problem=problem,
        )
        if problem:
            return


def _play(scene: Scene, chosen: random.Random, name: str, side: str, *, is_killed: bool) -> int:
    """Break, change on both sides, perhaps kill, mend; return how many changes there were."""
    fault, wires = FAULTS[name], [scene.wires[each] for each in SIDES[side]]
    lasts_s = chosen.uniform(*LASTS_S)
    if chosen.random() < SILENT:
        lasts_s += fault.silent_s
    until = time.monotonic() + lasts_s
    for wire in wires:
        fault.begin(wire)
    changes = chosen.randint(*CHANGES)
    for number in range(changes):
        scene.change_at_random(chosen)
        if is_killed and number == changes // 2:
            scene.restart()
        time.sleep(chosen.uniform(0.0, lasts_s / changes))
    hold(fault, wires, until)
    return changes
