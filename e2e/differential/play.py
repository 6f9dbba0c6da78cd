"""Play all cases in both lanes at once, wait until both have settled, and compare."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import urllib3

from e2e.differential.allowed_differences import ALLOWED
from e2e.differential.compare import Difference, differences, lost_events, not_allowed
from e2e.differential.lane import Lane
from e2e.differential.observe import observe
from e2e.differential.scene import Look, Play, Scene
from e2e.lab.api import ApiError, Object

LOOK_TIMEOUT_S = 240.0
SETTLE_S = 90.0
QUIET_S = 3.0
"""How long nothing is compared after the last step; a lane must stay as it is."""
POLL_S = 0.3
BEGINS_EVERY_S = 0.5
"""A case after the other: an agent that is given more at once merges its Normal events (ADR 67)."""
OBSERVE_ATTEMPTS = 3
_NOT_YET = (AssertionError, ApiError, LookupError, TypeError, ValueError)
_NOT_NOW = urllib3.exceptions.HTTPError

Case = Callable[[Scene], Play]


@dataclass
class Result:
    """How one case ended. problems: what never came, lane by lane."""

    case: str
    problems: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    observed: tuple[Object, Object] = field(default_factory=lambda: ({}, {}))
    lost: int = 0
    """Events that Karmada's agent lost; not among the differences."""

    @property
    def surprises(self) -> list[Difference]:
        return not_allowed(self.differences, ALLOWED)


class _Actor:
    """One case in one lane on its way from step to step."""

    def __init__(self, scene: Scene, case: Case) -> None:
        self.scene = scene
        self.problem = ""
        self._play = case(scene)
        self._look: Look | None = None
        self._deadline = 0.0
        self.is_done = False

    def step(self) -> None:
        """Look once, and go on if what is waited for has come."""
        try:
            if self._look is not None:
                self._look()
        except (*_NOT_YET, _NOT_NOW) as error:
            if time.monotonic() > self._deadline:
                self._end(f"not within {LOOK_TIMEOUT_S:.0f} s: {error}")
            return
        try:
            self._look = next(self._play)
            self._deadline = time.monotonic() + LOOK_TIMEOUT_S
        except StopIteration:
            self._end("")
        except (*_NOT_YET, _NOT_NOW) as error:
            self._end(f"a step failed: {type(error).__name__}: {error}")

    def _end(self, problem: str) -> None:
        self.is_done = True
        if problem:
            self.problem = f"{self.scene.lane.title}: {problem}"


def play(cases: dict[str, Case], real: Lane, ours: Lane) -> dict[str, Result]:
    """Return the result of every case, by name."""
    actors = {
        lane.title: [_Actor(Scene(lane, name), case) for name, case in cases.items()]
        for lane in (real, ours)
    }
    is_over = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(_run, lane, actors[lane.title], is_over) for lane in (real, ours)]
        try:
            for run in runs:
                run.result()
        finally:
            is_over.set()  # so that Ctrl-C need not wait until all has come
    results = {name: Result(name) for name in cases}
    for actor in (actor for group in actors.values() for actor in group):
        if actor.problem:
            results[actor.scene.case].problems.append(actor.problem)
    pairs = [
        (one.scene, other.scene)
        for one, other in zip(actors[real.title], actors[ours.title], strict=True)
    ]
    _settle(results, pairs)
    return results


def _run(lane: Lane, actors: Sequence[_Actor], is_over: threading.Event) -> None:
    began = time.monotonic()
    while not (all(actor.is_done for actor in actors) or is_over.is_set()):
        lane.look_again()
        begun = int((time.monotonic() - began) / BEGINS_EVERY_S) + 1
        for actor in actors[:begun]:
            if not actor.is_done:
                actor.step()
        time.sleep(POLL_S)


def _settle(results: dict[str, Result], pairs: Iterable[tuple[Scene, Scene]]) -> None:
    """Compare until all is as allowed or time is up, then all once more."""
    everyone = list(pairs)
    deadline = time.monotonic() + SETTLE_S
    waiting = everyone
    while waiting and time.monotonic() < deadline:
        time.sleep(QUIET_S)
        _compare(results, waiting)
        waiting = [pair for pair in waiting if results[pair[0].case].surprises]
    _compare(results, everyone)
    _leave_out_lost_events(results)


def _leave_out_lost_events(results: dict[str, Result]) -> None:
    observed = {name: result.observed for name, result in results.items()}
    found = [difference for result in results.values() for difference in result.surprises]
    lost = lost_events(observed, found)
    for result in results.values():
        kept = [one for one in result.differences if f"{one.case}: {one.path}" not in lost]
        result.lost = len(result.differences) - len(kept)
        result.differences = kept


def _compare(results: dict[str, Result], pairs: Sequence[tuple[Scene, Scene]]) -> None:
    for lane in {scene.lane.title: scene.lane for pair in pairs for scene in pair}.values():
        lane.look_again()
    for real_scene, our_scene in pairs:
        result = results[real_scene.case]
        real, ours = _observe(real_scene), _observe(our_scene)
        result.observed = (real, ours)
        result.differences = differences(result.case, real, ours)


def _observe(scene: Scene) -> Object:
    """Observe; a server that is slow to answer is asked again, and again."""
    for _ in range(OBSERVE_ATTEMPTS):
        try:
            return observe(scene)
        except _NOT_NOW:
            time.sleep(QUIET_S)
    return observe(scene)
