"""What a start with many applied Works takes, and how soon a fresh Work is applied during it."""

import asyncio
import itertools
import time
from functools import partial
from typing import NamedTuple

import click

from bench import audit, works
from bench.command import Runs, bench_command, main
from bench.lab import node_groups
from bench.measurements import memory, subjects, wait_quiet
from bench.process import AgentProcess
from bench.record import Goal, Record
from bench.session import Session, say
from bench.watcher import Milestone

START_S = 7200.0
FRESH_S = 0.5
"""Between fresh Works."""
POLL_S = 0.1
POLL_CLUSTER_S = 0.005
"""A scrape costs the agent in proportion: ten times as often only when it is almost done."""
VERIFIED = "start -> all Works verified, s"
WRITES = "writes to the host but Leases and access reviews"
STATUSES = "writes of statuses of Clusters: their Leases were late"
PEAK = "peak RSS of steady RSS"
FRESH = "fresh Work during it -> Applied, s"
GOALS = {
    VERIFIED: Goal(20),
    WRITES: Goal(0),
    STATUSES: Goal(0),
    PEAK: Goal(1.3),
    f"{FRESH}, p99": Goal(2),
}


class Fresh(NamedTuple):
    """A Work made during a start. made_s: the age of the agent; took_s: until it was Applied."""

    made_s: float
    took_s: float


async def measure(
    session: Session,
    result: Record,
    clusters: dict[str, str],
    count: int,
    repetitions: int,
    flags: tuple[str, ...],
) -> None:
    """Apply the Works once, then start again and again. flags: of the agent."""
    bench = session.bench
    with session.lab.lone_agent(clusters, *flags) as agent:
        await bench.wait_ready(clusters, agent, START_S)
        await bench.make_namespace(clusters)
        names = list(clusters)
        jobs = bench.jobs(names, count, "held")
        await bench.create_all(jobs)
        await session.watcher.wait(subjects(jobs), Milestone.APPLIED, START_S)
        await memory(agent)
    say(f"{count} Works of {len(clusters)} clusters are applied")
    for _ in range(repetitions):
        for start in (_alone, _with_fresh):
            session.requests.skip()
            with session.lab.lone_agent(clusters, *flags) as agent:
                await start(session, agent, result, names, count)


async def _alone(
    session: Session, agent: AgentProcess, result: Record, names: list[str], count: int
) -> None:
    """Start while nothing else happens: what is written then is written for nothing."""
    verified_s = await _verified(agent, count, len(names))
    cpu_s = agent.cpu_s()
    sent = session.requests.news(audit.OURS)
    of_host = [each.write.target for each in sent if each.server == "host" and not each.is_upkeep]
    reviews = sum(each.plural.endswith("reviews") for each in of_host)
    statuses = sum(each.write.target.plural == "clusters" for each in sent)
    steady_kb = (await memory(agent)).rss_kb
    result.add(VERIFIED, verified_s)
    result.add(WRITES, len(of_host) - reviews)
    result.add("access reviews of the host", reviews)
    result.add(STATUSES, statuses)
    result.add(PEAK, agent.peak_rss_kb() / steady_kb)
    result.add("steady RSS, MB", steady_kb / 1024)
    result.add("CPU of the start, s", cpu_s)
    say(f"verified after {verified_s:.1f} s; writes: {dict(audit.kinds(sent))}")


async def _with_fresh(
    session: Session, agent: AgentProcess, result: Record, names: list[str], count: int
) -> None:
    fresh: list[Fresh] = []
    async with asyncio.TaskGroup() as group:
        making = group.create_task(_fresh(session, agent, names, fresh, group))
        verified_s = await _verified(agent, count, len(names))
        making.cancel()
    first_s = min(each.made_s + each.took_s for each in fresh)
    result.add("start -> first fresh Work Applied, s", first_s)
    result.add_samples(FRESH, [each.took_s for each in fresh if each.made_s < verified_s])
    result.add("start with fresh Works -> all Works verified, s", verified_s)
    say(f"verified after {verified_s:.1f} s, {len(fresh)} fresh")
    await wait_quiet(agent)


async def _fresh(
    session: Session,
    agent: AgentProcess,
    names: list[str],
    fresh: list[Fresh],
    group: asyncio.TaskGroup,
) -> None:
    """Make Works one after another from the moment that the agent serves its metrics."""
    while not await asyncio.to_thread(agent.metrics):  # noqa: ASYNC110 - of another process
        await asyncio.sleep(POLL_S)

    async def one(cluster: str) -> None:
        made_s, begin = agent.age_s(), time.monotonic()
        manifest = works.config_map(session.bench.new_name("fresh"))
        subject = await session.bench.create(cluster, manifest)
        end = await session.watcher.wait([subject], Milestone.APPLIED)
        fresh.append(Fresh(made_s, end - begin))

    for number in itertools.count():
        group.create_task(one(names[number * 7 % len(names)]))
        await asyncio.sleep(FRESH_S)


async def _verified(agent: AgentProcess, count: int, clusters: int) -> float:
    """Wait until so many Works, and a namespace of each cluster, are reconciled; return the age."""
    count, longest_s = count + clusters, POLL_S + POLL_CLUSTER_S * clusters
    while True:
        metrics = await asyncio.to_thread(agent.metrics)
        reconciled = _of_execution(metrics, "controller_runtime_reconcile_total", '"success"')
        waiting = _of_execution(metrics, "workqueue_depth")
        if reconciled >= count and not waiting:
            return agent.age_s()
        if agent.age_s() > START_S:
            raise TimeoutError(f"{reconciled:.0f} of {count} Works reconciled")
        left_s = agent.age_s() * (count - reconciled) / max(reconciled, 1)
        await asyncio.sleep(min(longest_s, max(longest_s / 10, left_s)))


def _of_execution(metrics: dict[str, float], family: str, label: str = "") -> float:
    """Return the sum of a metric over the controllers named execution, and what has a label."""
    return sum(
        value
        for name, value in metrics.items()
        if name.startswith(family) and '"execution' in name and label in name
    )


@bench_command("restart", GOALS)
@click.option("--clusters", default=1000, show_default=True, type=click.IntRange(1))
@click.option("--works", "count", default=10_000, show_default=True, help="Of all together.")
@click.option("--cluster-wide", is_flag=True, help="One watch of Works; needs --output.")
def command(runs: Runs, *, clusters: int, count: int, cluster_wide: bool) -> None:
    r"""Measure a start with many Works that are applied already.

    Takes 20 minutes; with --quick 2.

    \b
    Examples:
      hack/bench restart
      hack/bench restart --clusters 100 --works 5000
      hack/bench restart --cluster-wide --output one-watch.json
    """
    if cluster_wide:
        runs.need_output("--cluster-wide", "a watch each")
    flags = ("--works-cluster-wide",) if cluster_wide else ()
    if runs.is_quick:
        clusters, count = 10, 50
    groups = node_groups("restart", clusters)
    all_starts = partial(
        measure, clusters=groups, count=count, repetitions=runs.repetitions, flags=flags
    )
    runs.on_control_planes(all_starts, clusters)


if __name__ == "__main__":
    main(command)
