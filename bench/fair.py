"""What a virtual cluster with much trouble costs single Works of another one.

A karmada-agent on a host of its own gets as many, in turns: what these take more is the trouble of
the hub and the machine, which all agents share.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import click

from bench import works
from bench.command import Runs, bench_command, main
from bench.measurements import READY_S, wait_quiet
from bench.neighbours import LOUD, LOUD_NAMESPACE, NEIGHBOUR, slow_host
from bench.record import OURS, THEIRS, Goal, Record
from bench.results import percentile
from bench.session import Session, say

QUIET = "quiet"
LATENCY = "single Work -> Applied, ms"
RATIO = "p50 of the quiet one"
THEIR_CLUSTER = "fair-theirs"
"""Of karmada-agent."""
BESIDE = ("beside a burst", "beside Works that fail", "beside host writes of 29 s")
GOALS = {f"{each}: {RATIO}": Goal(2) for each in BESIDE}


async def measure(session: Session, result: Record, count: int, failing: int, singles: int) -> None:
    """Measure one repetition; all trouble stays while the next begins, as its retries do."""
    groups = {NEIGHBOUR: "1", LOUD: "2"}
    lab, bench = session.lab, session.bench
    theirs = lab.karmada_agent(THEIR_CLUSTER, host=lab.kubeconfig("host2"))
    with lab.lone_agent(groups) as agent, theirs as other:
        await bench.wait_ready(groups, agent, READY_S)
        await bench.wait_ready([THEIR_CLUSTER], other, READY_S)
        await bench.make_namespace([*groups, THEIR_CLUSTER])
        for cluster in (NEIGHBOUR, THEIR_CLUSTER):
            await bench.latencies(cluster, 3)
        await wait_quiet(agent)
        quiet = await _latencies(session, result, QUIET, singles)
        async with _burst(session, count) as lasts:
            beside = [await _latencies(session, result, BESIDE[0], singles, lasts)]
        await bench.create_all(
            (LOUD, works.widget(f"unknown-{number}")) for number in range(failing)
        )
        beside.append(await _latencies(session, result, BESIDE[1], singles))
        async with slow_host(session.host, LOUD_NAMESPACE):
            await bench.create_all(
                (LOUD, works.config_map(f"slow-{number}")) for number in range(failing)
            )
            beside.append(await _latencies(session, result, BESIDE[2], singles))
    for name, p50s in zip(BESIDE, beside, strict=True):
        for who, p50 in p50s.items():
            result.add(f"{name}: {RATIO}", p50 / quiet[who], who)


async def _latencies(
    session: Session,
    result: Record,
    name: str,
    singles: int,
    lasts: Callable[[], bool] = lambda: True,
) -> dict[str, float]:
    """Record the latencies of single Works, in ms; return the p50 of each agent.

    lasts: whether the trouble is still there; without it no further Work is measured.
    """
    latencies: dict[str, list[float]] = {OURS: [], THEIRS: []}
    for number in range(singles):
        if number and not lasts():
            say(f"{name}: it is over after {number} of {singles} Works for each")
            break
        latencies[OURS] += await session.bench.latencies(NEIGHBOUR, 1)
        latencies[THEIRS] += await session.bench.latencies(THEIR_CLUSTER, 1)
    for who, values in latencies.items():
        result.add_samples(f"{name}: {LATENCY}", values, who)
    p50s = {who: percentile(values, 50) for who, values in latencies.items()}
    say(f"{name}: p50 {', '.join(f'{who} {p50:.1f} ms' for who, p50 in p50s.items())}")
    return p50s


@asynccontextmanager
async def _burst(session: Session, count: int) -> AsyncIterator[Callable[[], bool]]:
    """Create Works of the loud one for the time of a block, and to their end.

    Yields whether some are still to be created.
    """
    jobs = session.bench.jobs([LOUD], count, "burst")
    async with asyncio.TaskGroup() as group:
        creating = group.create_task(session.bench.create_all(jobs))
        yield lambda: not creating.done()


@bench_command("fair", GOALS)
@click.option("--works", "count", default=5000, show_default=True, help="Of the other one.")
@click.option("--failing", default=500, show_default=True, help="Of them that fail for ever.")
@click.option("--singles", default=60, show_default=True, type=click.IntRange(1))
def command(runs: Runs, *, count: int, failing: int, singles: int) -> None:
    """Measure single Works of one virtual cluster while another one gives trouble.

    Takes 4 minutes for each repetition; with --quick 2 in all.
    """
    if runs.is_quick:
        count, failing, singles = 50, 10, 5
    one = partial(measure, count=count, failing=failing, singles=singles)
    for _ in range(runs.repetitions):
        runs.on_control_planes(one, 2, hosts=2)


if __name__ == "__main__":
    main(command)
