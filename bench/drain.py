"""What an agent takes for Works that arrived while it was stopped.

Each run has a Cluster of its own: its agent is stopped, the Works are made, the agent continues.
Afterwards a bare client sends to other namespaces what the audit logs say that ours wrote for them.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple

import click

from bench import audit, bare_client, works
from bench.bare_client import Chain
from bench.command import Runs, bench_command, main
from bench.lab import Lab
from bench.measurements import subjects, wait_quiet
from bench.process import AgentProcess
from bench.record import BARE, OURS, THEIRS, Goal, Record
from bench.session import Session, say
from bench.watcher import Milestone
from karmada_vc_agent.model.vocabulary import execution_namespace

PODS_A_NODE = 100
THEIR_CLUSTER = "bench-theirs"
DRAIN_S = 3600.0
ALONE = ("--leader-elect=false", "--no-leader-elect")
"""An agent that was stopped would have lost the lead, and ended."""
UNBOUNDED = {"works": 0, "bytes": 0}
"""Bounds: one virtual cluster has twice as many Works as it may by default."""
GOALS = {
    "ConfigMap: CPU, ms a Work": Goal(1.2),
    "Deployment: CPU, ms a Work": Goal(1.8),
    "ConfigMap: wall-clock, s": Goal(1.3, BARE),
}


class Kind(NamedTuple):
    """What Works hold, and when one of them is done."""

    name: str
    make: Callable[[str], works.Object]
    done: Milestone


CONFIG_MAP = Kind("ConfigMap", works.config_map, Milestone.APPLIED)
DEPLOYMENT = Kind("Deployment", works.deployment, Milestone.HEALTHY)


class Drain(NamedTuple):
    """One drain; group: of nodes."""

    kind: Kind
    works: int
    who: str
    cluster: str
    group: str

    def agent(self, lab: Lab) -> AbstractContextManager[AgentProcess]:
        if self.who == THEIRS:
            return lab.karmada_agent(self.cluster, ALONE[0])
        return lab.lone_agent({self.cluster: self.group}, ALONE[1], bounds=UNBOUNDED)


async def measure(session: Session, result: Record, drains: list[Drain]) -> None:
    """Make one drain after the other."""
    is_first = True
    for run in drains:
        with run.agent(session.lab) as agent:
            await session.bench.wait_ready([run.cluster], agent)
            if is_first:
                await session.bench.make_namespace([run.cluster])
            is_first = False
            await session.bench.wait_namespace([run.cluster])
            names = await _drain(session, agent, run, result)
            if run.who == THEIRS:
                await session.bench.delete_works(run.cluster)
        if run.who == OURS:
            await _bare(session, run, names, result)


async def _drain(session: Session, agent: AgentProcess, run: Drain, result: Record) -> set[str]:
    """Make one drain; return the names of its Works."""
    bench, kind = session.bench, run.kind
    await session.watcher.wait(
        [await bench.create(run.cluster, kind.make(bench.new_name("first")))], kind.done
    )
    await wait_quiet(agent)
    jobs = bench.jobs([run.cluster], run.works, "drain", kind.make)
    session.requests.skip()
    with agent.paused():
        await bench.create_all(jobs)
        used_s, begin = agent.cpu_s(), time.monotonic()
    end = await session.watcher.wait(subjects(jobs), kind.done, DRAIN_S)
    cpu_ms = (agent.cpu_s() - used_s) / run.works * 1000
    result.add(f"{kind.name}: wall-clock, s", end - begin, run.who, run.works)
    result.add(f"{kind.name}: CPU, ms a Work", cpu_ms, run.who, run.works)
    result.add(f"{kind.name}: peak RSS, MB", agent.peak_rss_kb() / 1024, run.who, run.works)
    say(f"{run.who}, {run.works} x {kind.name}: {end - begin:.1f} s, {cpu_ms:.2f} CPU ms a Work")
    return {name for _, name in subjects(jobs)}


async def _bare(session: Session, run: Drain, names: set[str], result: Record) -> None:
    """Send what ours wrote for the Works, chain by chain."""
    cluster = f"bare-{run.cluster}"
    renamed = [
        (execution_namespace(run.cluster), execution_namespace(cluster)),
        (f"{works.NAMESPACE}-v-{run.cluster}", f"{works.NAMESPACE}-v-{cluster}"),
    ]

    def rename(text: str) -> str:
        for old, new in renamed:
            text = text.replace(old, new)
        return text

    sent = session.requests.news(audit.OURS)
    copies = await bare_client.copies(
        session, [each for each in sent if each.write.target.name in names], rename
    )
    chains: defaultdict[str, Chain] = defaultdict(list)
    for each, request in copies:
        chains[each.write.target.name].append(request)
    for client, (_, namespace) in zip((session.hub, session.host), renamed, strict=True):
        metadata = {"name": namespace}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        await client.create("/api/v1/namespaces", body)
    await session.bench.create_all((cluster, run.kind.make(name)) for name in names)
    done = await bare_client.send(session.lab, [list(chains.values())])
    name = run.kind.name
    result.add(f"{name}: wall-clock, s", done.seconds, BARE, run.works)
    result.add(f"{name}: CPU, ms a Work", done.cpu_s / run.works * 1000, BARE, run.works)
    result.add(f"{name}: writes a Work", len(sent) / run.works, OURS, run.works)
    result.add(f"{name}: writes a Work", done.requests / run.works, BARE, run.works)
    say(f"bare client: {done.seconds:.1f} s; writes of ours: {dict(audit.kinds(sent))}")


def plan(kinds: list[tuple[Kind, int]], repetitions: int, theirs_at_most: int) -> list[Drain]:
    """Return all drains in their order: agents take turns."""
    drains: list[Drain] = []
    for _ in range(repetitions):
        for kind, count in kinds:
            for who in (OURS, THEIRS) if count <= theirs_at_most else (OURS,):
                number = str(len(drains) + 1)
                # karmada-agent registers a host under one name only.
                cluster = THEIR_CLUSTER if who == THEIRS else f"bench-{number}"
                drains.append(Drain(kind, count, who, cluster, number))
    return drains


@bench_command("drain", GOALS, "Works")
@click.option("--works", "sizes", multiple=True, type=click.IntRange(1), default=(1000, 10_000))
@click.option("--deployments", multiple=True, type=click.IntRange(1), default=(1000,))
@click.option("--theirs-at-most", default=1000, show_default=True, help="Works of karmada-agent.")
def command(
    runs: Runs, *, sizes: tuple[int, ...], deployments: tuple[int, ...], theirs_at_most: int
) -> None:
    r"""Measure what an agent takes for Works that arrived while it was stopped.

    Ours and karmada-agent in turns, each with a Cluster of its own; after each run of ours a bare
    client sends what ours wrote. Takes about an hour, 12 minutes of it for 10,000 Works; with
    --quick 5 minutes.

    \b
    Examples:
      hack/bench drain
      hack/bench drain --works 1000 --deployments 1000 --repetitions 1
    """
    if runs.is_quick:
        sizes, deployments = (20, 50), (20,)
    kinds = [(CONFIG_MAP, count) for count in sizes]
    kinds += [(DEPLOYMENT, count) for count in deployments]
    drains = plan(kinds, runs.repetitions, theirs_at_most)
    each = max(deployments, default=1) // PODS_A_NODE + 1
    runs.on_control_planes(partial(measure, drains=drains), len(drains), each)


if __name__ == "__main__":
    main(command)
