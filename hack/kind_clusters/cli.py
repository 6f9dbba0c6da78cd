"""The command line of hack/kind-up and hack/kind-down."""

import sys
from pathlib import Path

import click

from control_planes.run_command import run_command
from kind_clusters import lifecycle
from kind_clusters.directory import Directory

DIRECTORY = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
CONTEXT = {"help_option_names": ["-h", "--help"]}
UP = """Make two kind clusters: a hub with Karmada, and a host with three workers in two groups.

With Docker, from kind's own node image. Without it, with podman as root, from a node image that
is built of Debian packages and Go modules on first use; no registry is needed.
DIR gets hub.kubeconfig, hub-pods.kubeconfig, host.kubeconfig, bin/, kind.json and env. The names of
the clusters follow from it: sets in different directories may run at the same time. env, for a
shell to source, puts bin/ into PATH and the host's kubeconfig into KUBECONFIG, and names engine,
clusters and the hub's address for pods.

\b
Examples:
  hack/kind-up .kind
  . .kind/env; kubectl get pods -A -o wide
  hack/kind-up --can-run                         # says why not, exit code 1
  hack/kind-up --can-run --install               # the same, once apt has installed what it can
  hack/kind-down .kind
"""
DOWN = """Remove the kind clusters that hack/kind-up made, and what it put into DIR.

The built programs and the node image stay for the next time.

\b
Example:
  hack/kind-down .kind
"""


@click.group()
def cli() -> None:
    pass


@cli.command(help=UP, context_settings=CONTEXT)
@click.argument("directory", metavar="DIR", required=False, type=click.Path(path_type=Path))
@click.option("--second-host", is_flag=True, help="Make host2, too: no nodes, host2.kubeconfig.")
@click.option("--can-run", is_flag=True, help="Only try whether an engine runs a container here.")
@click.option(
    "--install",
    is_flag=True,
    help="Where no engine does, install podman and what it needs: on Debian, as root.",
)
def up(directory: Path | None, *, second_host: bool, can_run: bool, install: bool) -> None:
    if directory is None and not can_run:
        raise click.UsageError("Missing argument 'DIR'.")
    engine = lifecycle.find_engine(install=install)
    if directory is not None and not can_run:
        lifecycle.up(Directory(directory.absolute()), engine, second_host=second_host)


@cli.command(help=DOWN, context_settings=CONTEXT)
@DIRECTORY
def down(directory: Path) -> None:
    lifecycle.down(Directory(directory.absolute()))


def main() -> None:
    name, *arguments = sys.argv[1:]
    run_command(cli.commands[name], f"hack/kind-{name}", arguments)
