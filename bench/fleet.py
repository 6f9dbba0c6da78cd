"""What many virtual clusters take on one process: from nothing to all Ready, at rest, with Works.

Each size and repetition has control planes of its own. After ours karmada-agent serves the host. On
others a bare client makes what ours had made when all were Ready, each object once.
"""

import time
from functools import partial

import click

from bench import audit, bare_client
from bench.audit import Sent
from bench.bare_client import Chain, Request
from bench.command import Runs, bench_command, main
from bench.lab import node_groups
from bench.measurements import idle_cpu_percent, make_pods, memory, subjects, wait_quiet
from bench.process import AgentProcess, cpu_s, rss_kb
from bench.record import BARE, OURS, THEIRS, Goal, Record
from bench.session import Session, say
from bench.watcher import Milestone
from karmada_vc_agent.features.shards.division import MOST

START_S = 7200.0
IDLE_S = 30.0
READY = "nothing -> all Ready, s"
RSS = "idle RSS, MB"
IDLE = "idle CPU, % of a core"
HUB = (
    "etcd",
    "hub-kube-apiserver",
    "karmada-aggregated-apiserver",
    "karmada-controller-manager",
)
"""What of a hub grows with Clusters; etcd serves the host, too."""
GOALS = {READY: Goal(1.5, BARE, at=1000), RSS: Goal(200, at=1000), IDLE: Goal(10, at=1000)}


async def measure(
    session: Session,
    result: Record,
    count: int,
    nodes: int,
    pods: int,
    works_each: int,
    shards: int,
) -> list[list[Chain]]:
    """Measure one size; return what the bare client sends for it.

    nodes: of the host. shards: processes of our agent.
    """
    await make_pods(session.host, pods, nodes)
    clusters = node_groups("fleet", count)
    session.requests.skip()
    with session.lab.lone_agent(clusters, shards=shards) as agent:
        await session.bench.wait_ready(clusters, agent, START_S)
        seconds, cpu_s, sent = agent.age_s(), agent.cpu_s(), session.requests.news(audit.OURS)
        _add_ready(result, OURS, count, seconds, cpu_s, sent)
        await _at_rest(session, agent, result, OURS, count)
        objects = [each for each in sent if each.write.target.plural != "events"]
        waves = waves_of(await bare_client.copies(session, objects))
        if works_each:
            await _works(session, agent, result, list(clusters), works_each)
            await session.bench.end_namespace()
    with session.lab.karmada_agent("theirs") as agent:
        await session.bench.wait_ready(["theirs"], agent, START_S)
        await _at_rest(session, agent, result, THEIRS, count)
    return waves


async def measure_bare(
    session: Session, result: Record, count: int, nodes: int, pods: int, waves: list[list[Chain]]
) -> None:
    """Send the same to a hub and a host that have seen none of it."""
    await make_pods(session.host, pods, nodes)
    session.requests.skip()
    done = await bare_client.send(session.lab, waves)
    sent = session.requests.news(audit.BARE)
    _add_ready(result, BARE, count, done.seconds, done.cpu_s, sent)


def _add_ready(
    result: Record, who: str, count: int, seconds: float, cpu_s: float, sent: list[Sent]
) -> None:
    result.add(READY, seconds, who, count)
    result.add("CPU until all are Ready, s", cpu_s, who, count)
    for server in ("hub", "host"):
        writes = sum(each.server == server for each in sent)
        result.add(f"writes to the {server} until all are Ready", writes, who, count)
    say(f"{who}: {count} Ready after {seconds:.1f} s; writes: {dict(audit.kinds(sent))}")


async def _at_rest(
    session: Session, agent: AgentProcess, result: Record, who: str, count: int
) -> None:
    held = await memory(agent)
    result.add(RSS, held.rss_kb / 1024, who, count)
    hub = {name: session.lab.pid_of(name) for name in HUB if who == OURS}
    used_s = {name: cpu_s(pid) for name, pid in hub.items()}
    result.add(IDLE, await idle_cpu_percent(agent, IDLE_S), who, count)
    result.add("peak RSS, MB", agent.peak_rss_kb() / 1024, who, count)
    for name, pid in hub.items():
        share = (cpu_s(pid) - used_s[name]) / IDLE_S * 100
        result.add(f"hub at rest: {name}, CPU, % of a core", share, at=count)
        result.add(f"hub at rest: {name}, RSS, MB", rss_kb(pid) / 1024, at=count)


async def _works(
    session: Session, agent: AgentProcess, result: Record, clusters: list[str], each: int
) -> None:
    bench, count = session.bench, len(clusters)
    await bench.make_namespace(clusters)
    await wait_quiet(agent)
    jobs = bench.jobs(clusters, each * count, "each")
    used_s, begin = agent.cpu_s(), time.monotonic()
    await bench.create_all(jobs)
    end = await session.watcher.wait(subjects(jobs), Milestone.APPLIED, START_S)
    name = f"{each} Works each"
    result.add(f"{name}: until all are Applied, s", end - begin, at=count)
    result.add(f"{name}: CPU, ms a Work", (agent.cpu_s() - used_s) / len(jobs) * 1000, at=count)
    result.add(f"{name}: RSS, MB", (await memory(agent)).rss_kb / 1024, at=count)


def waves_of(copies: list[tuple[Sent, Request]]) -> list[list[Chain]]:
    """Return each write of an object once: what others are in first, what changes them last."""
    outer: dict[object, Chain] = {}
    inner: dict[object, Chain] = {}
    changes: dict[object, Chain] = {}
    for sent, request in copies:
        write = sent.write
        if write.verb != "create" or write.subresource:
            wave = changes
        elif "/namespaces/" in request.path:
            wave = inner
        else:
            wave = outer
        wave.setdefault((sent.server, write.target, write.subresource), [request])
    return [list(wave.values()) for wave in (outer, inner, changes)]


@bench_command("fleet", GOALS, "virtual clusters")
@click.option(
    "--clusters", "sizes", multiple=True, type=click.IntRange(1), default=(1, 10, 50, 100, 1000)
)
@click.option("--nodes", "each", default=1, show_default=True, help="Of each cluster.")
@click.option("--pods", default=0, show_default=True, help="Pods of the host, on all nodes.")
@click.option("--works", "works_each", default=10, show_default=True, help="Of each cluster.")
@click.option(
    "--shards",
    default=1,
    show_default=True,
    type=click.IntRange(1, MOST),
    help="Processes of our agent, which divide the clusters (docs/scale.md).",
)
def command(
    runs: Runs, *, sizes: tuple[int, ...], each: int, pods: int, works_each: int, shards: int
) -> None:
    r"""Measure what many virtual clusters take, and a karmada-agent on the same host after them.

    Takes an hour and a half, 20 minutes of it each time for 1,000; with --quick 5 minutes.
    With --keep the bare client is left out.

    \b
    Examples:
      hack/bench fleet
      hack/bench fleet --clusters 5000 --pods 20000 --works 0 --repetitions 1
      hack/bench fleet --clusters 10 --nodes 500 --pods 20000 --works 0 --repetitions 1
      hack/bench fleet --clusters 1000 --shards 2 --output fleet-2.json
    """
    if shards > 1:
        runs.need_output("--shards", "one process")
    if runs.is_quick:
        sizes, works_each = (2, 10), 2
    for _ in range(runs.repetitions):
        for count in sizes:
            nodes = count * each
            size = partial(measure, count=count, nodes=nodes, pods=pods)
            size = partial(size, works_each=works_each, shards=shards)
            waves = runs.on_control_planes(size, count, each=each)
            bare = partial(measure_bare, count=count, nodes=nodes, pods=pods, waves=waves)
            if not runs.keep:  # those of ours would take its cores
                runs.on_control_planes(bare, count, each=each)


if __name__ == "__main__":
    main(command)
