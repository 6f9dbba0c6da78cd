"""The command line of hack/kind-up and hack/kind-down."""

import signal
import sys
from pathlib import Path

import click

from control_planes.errors import ControlPlanesError
from kind_clusters import lifecycle
from kind_clusters.directory import Directory

DIRECTORY = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
CONTEXT = {"help_option_names": ["-h", "--help"]}
UP = """Make two kind clusters: a hub with Karmada, and a host with three workers in two groups.

With Docker, from kind's own node image. Without it, with podman as root, from a node image that
is built of Debian packages and Go modules on first use; no registry is needed.
DIR gets hub.kubeconfig, hub-pods.kubeconfig, host.kubeconfig, bin/ and kind.json.

\b
Examples:
  hack/kind-up .kind
  KUBECONFIG=.kind/host.kubeconfig .kind/bin/kubectl get pods -A -o wide
  hack/kind-up --can-run                         # says why not, exit code 1
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
@click.option("--second-host", is_flag=True, help="Make host2, too: one node, host2.kubeconfig.")
@click.option("--can-run", is_flag=True, help="Only try whether an engine runs a container here.")
def up(directory: Path | None, *, second_host: bool, can_run: bool) -> None:
    if can_run:
        if problem := lifecycle.why_not():
            raise ControlPlanesError(problem)
        return
    if directory is None:
        raise click.UsageError("Missing argument 'DIR'.")
    lifecycle.up(Directory(directory.absolute()), second_host=second_host)


@cli.command(help=DOWN, context_settings=CONTEXT)
@DIRECTORY
def down(directory: Path) -> None:
    lifecycle.down(Directory(directory.absolute()))


def main() -> None:
    """Run a command; a failure is one line, after the log lines that explain it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    name = f"hack/kind-{sys.argv[1]}"
    command = cli.commands[sys.argv[1]]
    try:
        command.main(sys.argv[2:], prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except ControlPlanesError as error:
        for line in error.detail.splitlines():
            print(f"  | {line}", file=sys.stderr)
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        print(f"{name}: interrupted", file=sys.stderr)
        sys.exit(130)
