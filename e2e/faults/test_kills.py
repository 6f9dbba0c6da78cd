"""The agent is killed again and again in a stream of changes, while the hub is away, too.

The seed is printed; E2E_SEED repeats the same changes and kills again.
"""

import os
import random
import time
from pathlib import Path

import pytest

from e2e.lab.invariants import check, settle
from e2e.lab.lab import Lab
from e2e.lab.proxy import Proxy
from e2e.lab.scene import HUB, Scene, new_scene

KILLS = 20
CHANGES = (2, 6)
LIVES_S = (0.2, 5.0)
"""From an import that is not over to an agent that serves."""
TORN = 0.35
"""How often the hub is away when the agent is killed."""


@pytest.fixture(name="chosen")
def choose() -> random.Random:
    seed = int(os.environ.get("E2E_SEED") or random.randrange(2**32))  # noqa: S311 - no secret
    print(f"E2E_SEED={seed}")
    return random.Random(seed)  # noqa: S311


@pytest.mark.nightly  # test_crash and test_checkpoint_killed hold single kills
def test_nothing_is_lost_and_nothing_returns_after_twenty_kills(
    lab: Lab, tmp_path: Path, chosen: random.Random
) -> None:
    with new_scene(lab, tmp_path) as scene:
        scene.start()
        settle(scene)
        torn = sum(_kill(scene, chosen) for _ in range(KILLS))
        print(f"{torn} of {KILLS} kills while the hub was away")
        scene.wires[HUB].restore()
        # What was kept may be as old as 5 s: it is applied, and undone once the hub is back.
        check(scene, extra_writes=2 * torn, lost_answers=KILLS)


def _kill(scene: Scene, chosen: random.Random) -> bool:
    """Change, live for a while, change, kill; return whether the hub was away then."""
    wire: Proxy = scene.wires[HUB]
    is_torn = chosen.random() < TORN
    if is_torn:
        chosen.choice((Proxy.cut, Proxy.silence))(wire)
    for pause_s in (chosen.uniform(*LIVES_S), 0.0):
        for _ in range(chosen.randint(*CHANGES)):
            scene.change_at_random(chosen)
        time.sleep(pause_s)
    scene.restart()
    if is_torn and chosen.random() < 0.5:
        time.sleep(chosen.uniform(*LIVES_S))
    if is_torn:
        wire.restore()
    return is_torn
