"""The command line of hack/bench."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import click

from bench import report
from bench.lab import Lab, control_planes
from bench.results import Results
from bench.run import Plan, run

HELP = """Measure the real karmada-agent and ours side by side, and print both and the ratio.

Starts control planes of its own in a temporary directory: one hub, and a host for each agent
with as many simulated nodes as there are virtual clusters. Both agents run with their
defaults; they are watched from outside and take turns, so that they meet the same machine.
Then it measures what a
neighbour that gives trouble costs. Takes about 10 minutes; with --quick about 4.

\b
Examples:
  hack/bench
  hack/bench --quick
  hack/bench --works 1000 --clusters 100 --output bench/results/large.json
"""
QUICK = Plan(works=100, singles=8, clusters=10, our_bursts=1, their_bursts=1, idle_s=4.0)


@click.command(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Small numbers, no file: does it work at all?")
@click.option("--works", default=500, show_default=True, type=click.IntRange(1, 5000))
@click.option("--singles", default=30, show_default=True, type=click.IntRange(1, 500))
@click.option("--clusters", default=50, show_default=True, type=click.IntRange(1, 1000))
@click.option("--keep", is_flag=True, help="Leave the control planes up and say where.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="JSON file.  [default: bench/results/<date>-<commit>.json]",
)
def command(
    *, quick: bool, works: int, singles: int, clusters: int, keep: bool, output: Path | None
) -> None:
    plan = QUICK if quick else Plan(works, singles, clusters, 3, 2, 20.0)
    with control_planes(plan.clusters, keep=keep) as lab:
        results = asyncio.run(_measure(lab, plan))
    print(report.table(results))
    print()
    print(report.neighbours(results))
    print()
    print(report.notes(results))
    if output is not None or not quick:
        path = output or report.default_path(results)
        report.write(results, path)
        print(f"hack/bench: wrote {os.path.relpath(path)}", file=sys.stderr)


async def _measure(lab: Lab, plan: Plan) -> Results:
    # A run that is told to end must end the agents in order.
    task = asyncio.ensure_future(run(lab, plan))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def main() -> None:
    """Run the command."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    command(prog_name="hack/bench")
