"""What a start with many applied Works takes, and how soon a fresh Work is applied during it."""

import asyncio
import time
from functools import partial

import click

from bench import audit, works
from bench.command import Runs, bench_command, main
from bench.lab import node_groups
from bench.measurements import memory, subjects
from bench.process import AgentProcess
from bench.record import Goal, Record
from bench.session import Session, say
from bench.watcher import Milestone

START_S = 7200.0
FRESH_S = 0.5
"""Between fresh Works."""
POLL_S = 0.1
VERIFIED = "start -> all Works verified, s"
WRITES = "writes to the host but Leases and access reviews"
PEAK = "peak RSS of steady RSS"
FRESH = "fresh Work during it -> Applied, s"
GOALS = {
    VERIFIED: Goal(20),
    WRITES: Goal(0),
    PEAK: Goal(1.3),
    f"{FRESH}, p99": Goal(2),
}


async def measure(
    session: Session, result: Record, clusters: dict[str, str], count: int, repetitions: int
) -> None:
    """Apply the Works once, then start again and again."""
    bench = session.bench
    with session.lab.lone_agent(clusters) as agent:
        await bench.wait_ready(clusters, agent, START_S)
        await bench.make_namespace(clusters)
        names = list(clusters)
        jobs = bench.jobs(names, count, "held")
        await bench.create_all(jobs)
        await session.watcher.wait(subjects(jobs), Milestone.APPLIED, START_S)
        await memory(agent)
    say(f"{count} Works of {len(clusters)} clusters are applied")
    for _ in range(repetitions):
        session.requests.skip()
        with session.lab.lone_agent(clusters) as agent:
            await _start(session, agent, result, names, count)


async def _start(
    session: Session, agent: AgentProcess, result: Record, names: list[str], count: int
) -> None:
    fresh: list[tuple[float, float]] = []
    async with asyncio.TaskGroup() as group:
        making = group.create_task(_fresh(session, agent, names, fresh, group))
        verified_s = await _verified(agent, count)
        making.cancel()
    latencies = [applied_s for made_s, applied_s in fresh if made_s < verified_s]
    sent = session.requests.news(audit.OURS)
    of_fresh = len(fresh)
    of_host = [each.write.target for each in sent if each.server == "host"]
    reviews = sum(target.plural.endswith("reviews") for target in of_host)
    others = [
        target
        for target in of_host
        if not target.plural.endswith(("leases", "reviews"))
        and not target.name.startswith("fresh-")
    ]
    steady_kb = (await memory(agent)).rss_kb
    result.add(VERIFIED, verified_s)
    result.add("start -> first fresh Work Applied, s", min(sum(each) for each in fresh))
    result.add_samples(FRESH, latencies)
    result.add(WRITES, len(others))
    result.add("access reviews of the host", reviews)
    result.add(PEAK, agent.peak_rss_kb() / steady_kb)
    result.add("steady RSS, MB", steady_kb / 1024)
    result.add("CPU of the start, s", agent.cpu_s())
    say(f"verified after {verified_s:.1f} s, {of_fresh} fresh; writes: {dict(audit.kinds(sent))}")


async def _fresh(
    session: Session,
    agent: AgentProcess,
    names: list[str],
    found: list[tuple[float, float]],
    group: asyncio.TaskGroup,
) -> None:
    """Make Works one after another from the moment that the agent serves its metrics."""
    while not agent.metrics():  # noqa: ASYNC110 - of another process
        await asyncio.sleep(POLL_S)

    async def one(cluster: str) -> None:
        made_s, begin = agent.age_s(), time.monotonic()
        manifest = works.config_map(session.bench.new_name("fresh"))
        subject = await session.bench.create(cluster, manifest)
        end = await session.watcher.wait([subject], Milestone.APPLIED)
        found.append((made_s, end - begin))

    for number in range(1_000_000):
        group.create_task(one(names[number * 7 % len(names)]))
        await asyncio.sleep(FRESH_S)


async def _verified(agent: AgentProcess, count: int) -> float:
    """Wait until as many Works were reconciled as there are; return the age of the agent."""
    while True:
        found = agent.metrics()
        reconciled = sum(
            value
            for name, value in found.items()
            if name.startswith("controller_runtime_reconcile_total") and '"execution' in name
        )
        waiting = sum(
            value
            for name, value in found.items()
            if name.startswith("workqueue_depth") and '"execution' in name
        )
        if reconciled >= count and not waiting:
            return agent.age_s()
        if agent.age_s() > START_S:
            raise TimeoutError(f"{reconciled:.0f} of {count} Works reconciled")
        await asyncio.sleep(POLL_S)


@bench_command("restart", GOALS)
@click.option("--clusters", default=1000, show_default=True, type=click.IntRange(1))
@click.option("--works", "count", default=10_000, show_default=True, help="Of all together.")
def command(runs: Runs, *, clusters: int, count: int) -> None:
    r"""Measure a start with many Works that are applied already.

    Takes 20 minutes; with --quick 2.

    \b
    Examples:
      hack/bench restart
      hack/bench restart --clusters 100 --works 5000
    """
    if runs.is_quick:
        clusters, count = 10, 50
    groups = node_groups("restart", clusters)
    all_starts = partial(measure, clusters=groups, count=count, repetitions=runs.repetitions)
    runs.on_lone_host(all_starts, clusters)


if __name__ == "__main__":
    main(command)
