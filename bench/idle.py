"""What an agent asks for when nothing happens: requests and bytes a minute, on both sides."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import click

from bench import audit
from bench.command import Runs, bench_command, main
from bench.lab import Lab, node_groups
from bench.measurements import memory
from bench.process import AgentProcess
from bench.record import OURS, THEIRS, Goal, Record
from bench.session import Session, say
from e2e.lab.proxy import Proxy

START_S = 7200.0
SETTLE_S = 60.0
OTHERS = "writes but Leases and access reviews, a minute"
IDLE = "CPU, % of a core"
GOALS = {OTHERS: Goal(0), IDLE: Goal(10, at=1000)}


async def measure(session: Session, result: Record, sizes: list[int], seconds: float) -> None:
    """Measure karmada-agent with one Cluster, then ours, joined, with each number of them."""
    lab = session.lab
    with _wires(lab, lab.kubeconfig("hub"), lab.kubeconfig("host")) as wires:
        hub, host = (wire.kubeconfig for wire in wires.values())
        theirs = lab.karmada_agent("theirs", hub=hub, host=host)
        await _idle(session, result, theirs, ["theirs"], THEIRS, wires, seconds)
    for count in sizes:
        clusters = node_groups("idle", count)
        with _wires(lab, *await asyncio.to_thread(lab.joined, clusters)) as wires:
            hub, host = (wire.kubeconfig for wire in wires.values())
            ours = lab.lone_agent(clusters, hub=hub, host=host)
            await _idle(session, result, ours, list(clusters), OURS, wires, seconds)


@contextmanager
def _wires(lab: Lab, hub: Path, host: Path) -> Iterator[dict[str, Proxy]]:
    """Run a proxy for the server of each kubeconfig."""
    directory = lab.directory / "proxy"
    with Proxy(hub, directory) as to_hub, Proxy(host, directory) as to_host:
        yield {"hub": to_hub, "host": to_host}


async def _idle(
    session: Session,
    result: Record,
    running: AbstractContextManager[AgentProcess],
    clusters: list[str],
    who: str,
    wires: dict[str, Proxy],
    seconds: float,
) -> None:
    count, minutes = len(clusters), seconds / 60
    with running as agent:
        await session.bench.wait_ready(clusters, agent, START_S)
        await asyncio.sleep(min(SETTLE_S, seconds))
        rss_kb = (await memory(agent)).rss_kb
        session.requests.skip()
        for wire in wires.values():
            wire.count()
        before, used_s, begin = _requests(agent), agent.cpu_s(), time.monotonic()
        await asyncio.sleep(seconds)
        cpu = (agent.cpu_s() - used_s) / (time.monotonic() - begin) * 100
        requests = _requests(agent) - before
        sent = session.requests.news(audit.OURS if who == OURS else audit.THEIRS)
    result.add("RSS, MB", rss_kb / 1024, who, count)
    result.add(IDLE, cpu, who, count)
    for server, wire in wires.items():
        up, down = wire.count()
        writes = [each for each in sent if each.server == server]
        leases = sum(each.write.target.plural == "leases" for each in writes)
        result.add(f"{server}: Leases a minute", leases / minutes, who, count)
        result.add(f"{server}: sent, KB a minute", up / minutes / 1000, who, count)
        result.add(f"{server}: received, KB a minute", down / minutes / 1000, who, count)
    others = sum(not each.is_upkeep for each in sent)
    result.add(OTHERS, others / minutes, who, count)
    for method in sorted(requests):
        result.add(f"{method} requests a minute", requests[method] / minutes, who, count)
    say(
        f"{who} with {count}: {dict(requests)}, writes {dict(audit.kinds(sent))} in {seconds:.0f} s"
    )


def _requests(agent: AgentProcess) -> Counter[str]:
    """Return how many requests of each method its metrics count."""
    counted: Counter[str] = Counter()
    for name, value in agent.metrics().items():
        if name.startswith("rest_client_requests_total"):
            counted[name.partition('method="')[2].partition('"')[0]] += int(value)
    return counted


@bench_command("idle", GOALS, "virtual clusters")
@click.option("--clusters", "sizes", multiple=True, type=click.IntRange(1), default=(1, 100, 1000))
@click.option("--seconds", default=180.0, show_default=True, help="How long each is watched.")
def command(runs: Runs, *, sizes: tuple[int, ...], seconds: float) -> None:
    r"""Measure what an agent asks for when nothing happens; karmada-agent with one Cluster.

    Reads and watches are counted by the agents' own metrics, writes by the audit logs, bytes by a
    proxy. Takes an hour; with --quick 3 minutes.

    \b
    Examples:
      hack/bench idle
      hack/bench idle --clusters 1000 --seconds 600 --repetitions 1
    """
    if runs.is_quick:
        sizes, seconds = (1, 10), 20.0
    for _ in range(runs.repetitions):
        runs.on_control_planes(partial(measure, sizes=sorted(sizes), seconds=seconds), max(sizes))


if __name__ == "__main__":
    main(command)
