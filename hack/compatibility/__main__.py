"""The command line of hack/compat."""

import sys

import click

from compatibility import measure, page, pairs
from control_planes.run_command import run_command

HELP = f"""Measure versions of Kubernetes and Karmada, and write docs/compatibility.md.

A PAIR is HOST/KARMADA or HOST/KARMADA/HUB; the hub's Kubernetes is that of go.mod otherwise.
With +kine at its end the host stores its objects in SQLite, as K3s does.
For each pair real control planes are built and started, and these stages run against them:
{", ".join(measure.STAGES)}. Without a pair all are measured: {", ".join(pairs.MEASURED)}.

Exit code 1 if a test failed; the page says which numbers.

\b
Examples:
  hack/compat 1.32/1.18
  hack/compat 1.32/1.17 --stage smoke --stage comparison
  hack/compat --page
"""


@click.command(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("given", metavar="[PAIR]...", nargs=-1)
@click.option(
    "--stage",
    "stages",
    multiple=True,
    type=click.Choice(list(measure.STAGES)),
    help="Run this one only. Can be repeated.",
)
@click.option("--page", "page_only", is_flag=True, help="Measure nothing, only write the page.")
def compat(*, given: tuple[str, ...], stages: tuple[str, ...], page_only: bool) -> None:
    chosen = [] if page_only else [pairs.parse(text) for text in given or pairs.MEASURED]
    failed = False
    for pair in chosen:
        record = measure.measure(pair, list(stages or measure.STAGES))
        page.write()
        failed |= any(each["failures"] for each in record["stages"].values())
    page.write()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    run_command(compat, "hack/compat")
