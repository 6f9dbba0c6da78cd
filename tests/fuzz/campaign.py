"""Runs the ways in with many inputs, and tells what was found so that it can be made again."""

import logging
import random
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz import hostile, served_ways
from tests.fuzz.served_ways import ServedWay, SufferedError, Told
from tests.fuzz.ways import Way

BATCH = 250
"""Inputs that a running service is told at once."""
HYPOTHESIS_PART = 8
"""One input in so many is Hypothesis' own; it is ten times as slow."""


@dataclass
class Find:
    """A fault: where it was raised, how often, and the first input that did it."""

    fault: str
    first: str
    times: int = 1


@dataclass
class Tally:
    """What came of the inputs of one way."""

    inputs: int = 0
    refused: int = 0
    finds: dict[str, Find] = field(default_factory=dict)

    def found(self, error: BaseException, which: str) -> None:
        """Note a fault, together with those from the same place."""
        fault = place_of(error)
        if fault in self.finds:
            self.finds[fault].times += 1
        else:
            self.finds[fault] = Find(fault, which)


def inputs(way: Way, number: int, of_seed: int, first: int = 0) -> Iterator[tuple[int, object]]:
    """Yield (number, input) of a way; each can be made alone, too."""
    for index in range(first, first + number):
        rng = random.Random(f"{of_seed}/{way.name}/{index}")  # noqa: S311 - no secret
        yield index, way.spoiled(rng)


def run(way: Way, number: int, of_seed: int, first: int = 0, *, with_hypothesis: bool) -> Tally:
    """Read so many inputs and tell what came of them."""
    logging.disable(logging.CRITICAL)
    tally = Tally()
    drawn = number // HYPOTHESIS_PART if with_hypothesis else 0
    try:
        for index, value in inputs(way, number - drawn, of_seed, first):
            _take(way, value, tally, f"--seed {of_seed} --way {way.name} --first {index}")
        if drawn:
            _draw(way, drawn, of_seed, tally)
    finally:
        logging.disable(logging.NOTSET)
    return tally


async def run_served(way: ServedWay, number: int, of_seed: int, first: int = 0) -> Tally:
    """Tell a running service so many inputs, and tell who suffered."""
    logging.disable(logging.CRITICAL)
    tally = Tally()
    made = list(served_inputs(way, number, of_seed, first))
    try:
        for begin in range(0, number, BATCH):
            batch = made[begin : begin + BATCH]
            tally.inputs += len(batch)
            try:
                await served_ways.endure(batch)
            except SufferedError as error:
                one = await served_ways.culprit(batch, served_ways.endure)
                index = first + begin + batch.index(one)
                tally.found(error, f"--seed {of_seed} --way {way.name} --first {index}")
    finally:
        logging.disable(logging.NOTSET)
    return tally


def served_inputs(way: ServedWay, number: int, of_seed: int, first: int = 0) -> Iterator[Told]:
    """Yield inputs of a way through a running service."""
    for index in range(first, first + number):
        yield way.spoiled(random.Random(f"{of_seed}/{way.name}/{index}"))  # noqa: S311 - no secret


def _take(way: Way, value: object, tally: Tally, which: str) -> None:
    tally.inputs += 1
    try:
        tally.refused += way.take(value)
    except Exception as error:  # noqa: BLE001 - every fault is what is looked for
        tally.found(error, which)


def _draw(way: Way, number: int, of_seed: int, tally: Tally) -> None:
    samples = st.sampled_from(list(way.samples())).flatmap(hostile.misplaced)

    @seed(of_seed)
    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(samples)
    def draw(value: object) -> None:
        _take(way, value, tally, f"--seed {of_seed} --way {way.name}: {value!r:.400}")

    draw()


def place_of(error: BaseException) -> str:
    """Return what was raised and the innermost places of the agent it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "karmada_vc_agent/" in frame.filename] or frames
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in own[-3:]]
    return f"{type(error).__name__}: {str(error)[:200]} ({' > '.join(places)})"
