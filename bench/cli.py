"""The command line of hack/bench."""

import asyncio
import signal
from pathlib import Path

import click

from bench import report
from bench.command import HELP, KEEP, QUICK
from bench.lab import control_planes
from bench.objects import NODES
from bench.results import ObjectsResults
from bench.run import Plan, run, run_objects
from bench.session import ending

TEXT = """Measure the real karmada-agent and ours side by side, and print both and the ratio.

Starts control planes of its own in a temporary directory: one hub, and a host for each agent
with as many simulated nodes as there are virtual clusters. Both agents run with their
defaults; they are watched from outside and take turns, so that they meet the same machine.
Then it measures what a
neighbour that gives trouble costs. Takes about 10 minutes; with --quick about 4.
With --objects it measures what VirtualCluster objects cost instead, in 6 minutes.

\b
Examples:
  hack/bench
  hack/bench --quick
  hack/bench --objects 500
  hack/bench gateway --help
  hack/bench site                      # what a host of 1 GB and its agent take
  hack/bench drain --help
  hack/bench fleet --help              # and fair, idle, leases, nodes, policy, restart, summary
  hack/bench --works 1000 --clusters 100 --output bench/results/large.json
"""
SMALL = Plan(works=100, singles=8, clusters=10, our_bursts=1, their_bursts=1, idle_s=4.0)


@click.command(help=TEXT, context_settings=HELP)
@QUICK
@click.option("--works", default=500, show_default=True, type=click.IntRange(1, 5000))
@click.option("--singles", default=30, show_default=True, type=click.IntRange(1, 500))
@click.option("--clusters", default=50, show_default=True, type=click.IntRange(1, 1000))
@click.option(
    "--objects",
    "count",
    type=click.IntRange(1, 5000),
    help="Measure only what so many VirtualCluster objects cost the other virtual clusters.",
)
@KEEP
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="JSON file.  [default: bench/results/<date>-<commit>.json]",
)
def command(
    *,
    quick: bool,
    works: int,
    singles: int,
    clusters: int,
    count: int | None,
    keep: bool,
    output: Path | None,
) -> None:
    plan = SMALL if quick else Plan(works, singles, clusters, 3, 2, 20.0)
    if count is not None:
        wanted = _objects(plan, count, quick=quick)
        with control_planes(NODES, keep=keep) as lab:
            measured = asyncio.run(ending(run_objects(lab, wanted)))
        print(report.objects(measured), report.notes(measured.machine), sep="\n\n")
        if output is not None or not quick:
            report.write(measured, output or report.default_path(measured.machine, "-objects"))
        return
    with control_planes(plan.clusters, keep=keep) as lab:
        results = asyncio.run(ending(run(lab, plan)))
    tables = report.table(results), report.neighbours(results), report.notes(results.machine)
    print(*tables, sep="\n\n")
    if output is not None or not quick:
        report.write(results, output or report.default_path(results.machine))


def _objects(plan: Plan, count: int, *, quick: bool) -> ObjectsResults:
    if quick:
        return ObjectsResults(count, plan.singles, plan.works, 10.0)
    return ObjectsResults(count, 60, 200, 30.0)


def main() -> None:
    """Run the command."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    command(prog_name="hack/bench")
