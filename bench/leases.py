"""How late Leases of many Clusters are renewed while Works burst, near the hub and far from it."""

import time
from collections.abc import Iterable
from functools import partial
from itertools import pairwise

import click

from bench import audit
from bench.command import Runs, bench_command, main
from bench.lab import node_groups
from bench.record import Goal, Record
from bench.session import Session, say
from e2e.lab.proxy import Proxy

START_S = 7200.0
ROUND_TRIPS_MS = (0, 300)
LATEST = "longest time between two renewals, s"
GOALS = {LATEST: Goal(15)}


async def measure(
    session: Session, result: Record, clusters: dict[str, str], count: int, seconds: float
) -> None:
    """Measure each round trip with an agent of its own."""
    lab = session.lab
    with Proxy(lab.kubeconfig("hub"), lab.directory / "proxy") as wire:
        for round_trip_ms in ROUND_TRIPS_MS:
            wire.thin(0, round_trip_ms / 1000)
            with lab.lone_agent(clusters, hub=wire.kubeconfig) as agent:
                await session.bench.wait_ready(clusters, agent, START_S)
                if round_trip_ms == ROUND_TRIPS_MS[0]:
                    await session.bench.make_namespace(clusters)
                session.requests.skip()
                made = await _bursts(session, list(clusters), count, seconds)
                sent = session.requests.news(audit.OURS)
            times = gaps(each for each in sent if each.server == "hub")
            result.add_samples("between two renewals, s", times, at=round_trip_ms)
            result.add(LATEST, max(times), at=round_trip_ms)
            say(f"{round_trip_ms} ms: {max(times):.1f} s at most, beside {made} Works")


async def _bursts(session: Session, clusters: list[str], count: int, seconds: float) -> int:
    """Create Works of all clusters until the time is over; return how many."""
    begin, made = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        await session.bench.create_all(session.bench.jobs(clusters, count, "burst"))
        made += count
    return made


def gaps(sent: Iterable[audit.Sent]) -> list[float]:
    """Return the seconds between each two writes of the Lease of a Cluster."""
    times: dict[str, list[float]] = {}
    for each in sent:
        target = each.write.target
        if target.plural == "leases" and target.namespace == "karmada-cluster":
            times.setdefault(target.name, []).append(each.write.at.timestamp())
    return [
        round(after - before, 3)
        for of_one in times.values()
        for before, after in pairwise(sorted(of_one))
    ]


@bench_command("leases", GOALS, "ms round trip")
@click.option("--clusters", default=1000, show_default=True, type=click.IntRange(1))
@click.option("--works", "count", default=5000, show_default=True, help="Of each burst.")
@click.option("--seconds", default=120.0, show_default=True, help="How long Works burst.")
def command(runs: Runs, *, clusters: int, count: int, seconds: float) -> None:
    """Measure how late Leases are renewed under burst, at 0 and 300 ms round trip to the hub.

    Takes 45 minutes; with --quick 3.
    """
    if runs.is_quick:
        clusters, count, seconds = 10, 50, 30.0
    one = partial(measure, clusters=node_groups("lease", clusters), count=count, seconds=seconds)
    for _ in range(runs.repetitions):
        runs.on_control_planes(one, clusters)


if __name__ == "__main__":
    main(command)
