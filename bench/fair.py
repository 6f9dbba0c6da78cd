"""What a virtual cluster with much trouble costs single Works of another one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import click

from bench import works
from bench.command import Runs, bench_command, main
from bench.measurements import READY_S, wait_quiet
from bench.neighbours import LOUD, LOUD_NAMESPACE, NEIGHBOUR, slow_host
from bench.record import Goal, Record
from bench.results import percentile
from bench.session import Session, say

QUIET = "quiet"
LATENCY = "single Work -> Applied, ms"
RATIO = "p50 of the quiet one"
BESIDE = ("beside a burst", "beside Works that fail", "beside host writes of 29 s")
GOALS = {f"{each}: {RATIO}": Goal(2) for each in BESIDE}


async def measure(session: Session, result: Record, count: int, failing: int, singles: int) -> None:
    """Measure one repetition; all trouble stays while the next begins, as its retries do."""
    groups = {NEIGHBOUR: "1", LOUD: "2"}
    with session.lab.lone_agent(groups) as agent:
        await session.bench.wait_ready(groups, agent, READY_S)
        await session.bench.make_namespace(groups)
        await session.bench.latencies(NEIGHBOUR, 3)
        await wait_quiet(agent)
        quiet = await _latencies(session, result, QUIET, singles)
        async with _burst(session, count):
            beside = [await _latencies(session, result, BESIDE[0], singles)]
        await session.bench.create_all(
            (LOUD, works.widget(f"unknown-{number}")) for number in range(failing)
        )
        beside.append(await _latencies(session, result, BESIDE[1], singles))
        async with slow_host(session.host, LOUD_NAMESPACE):
            await session.bench.create_all(
                (LOUD, works.config_map(f"slow-{number}")) for number in range(failing)
            )
            beside.append(await _latencies(session, result, BESIDE[2], singles))
    for name, p50 in zip(BESIDE, beside, strict=True):
        result.add(f"{name}: {RATIO}", p50 / quiet)


async def _latencies(session: Session, result: Record, name: str, singles: int) -> float:
    """Record the latencies of single Works, in ms; return the p50 that the table has, too."""
    latencies = await session.bench.latencies(NEIGHBOUR, singles)
    result.add_samples(f"{name}: {LATENCY}", latencies)
    p50 = percentile(latencies, 50)
    say(f"{name}: p50 {p50:.1f} ms")
    return p50


@asynccontextmanager
async def _burst(session: Session, count: int) -> AsyncIterator[None]:
    """Create Works of the loud one for the time of a block, and to their end."""
    jobs = session.bench.jobs([LOUD], count, "burst")
    async with asyncio.TaskGroup() as group:
        group.create_task(session.bench.create_all(jobs))
        yield


@bench_command("fair", GOALS)
@click.option("--works", "count", default=5000, show_default=True, help="Of the other one.")
@click.option("--failing", default=500, show_default=True, help="Of them that fail for ever.")
@click.option("--singles", default=60, show_default=True, type=click.IntRange(1))
def command(runs: Runs, *, count: int, failing: int, singles: int) -> None:
    """Measure single Works of one virtual cluster while another one gives trouble.

    Takes 10 minutes; with --quick 2.
    """
    if runs.is_quick:
        count, failing, singles = 50, 10, 5
    for _ in range(runs.repetitions):
        runs.on_lone_host(partial(measure, count=count, failing=failing, singles=singles), 2)


if __name__ == "__main__":
    main(command)
