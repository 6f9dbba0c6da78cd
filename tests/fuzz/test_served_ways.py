"""The short form of the fuzzer where a running service is told: all ways in at once."""

import random
from collections.abc import Sequence

from tests.fuzz import campaign, served_ways
from tests.fuzz.served_ways import SERVED_WAYS, SufferedError, Told

INPUTS = 6


async def test_neighbour_continues_whatever_the_service_receives() -> None:
    ways = SERVED_WAYS.values()
    batch = [told for way in ways for told in campaign.served_inputs(way, INPUTS, 1)]
    random.Random(1).shuffle(batch)  # noqa: S311 - no secret
    await served_ways.endure(batch)


async def test_culprit_of_a_batch_is_identified() -> None:
    batch: list[Told] = [("work", number) for number in range(33)]

    async def run(half: Sequence[Told]) -> None:
        if ("work", 21) in half:
            raise SufferedError("no")

    assert await served_ways.culprit(batch, run) == ("work", 21)
