"""The command line of hack/control-planes."""

import sys
from pathlib import Path

import click

from control_planes import lifecycle, nodes, tools
from control_planes.directory import ETCD, KINE, UP, Directory, Shape
from control_planes.errors import ControlPlanesError
from control_planes.run_command import run_command

HELP = """Run a Karmada hub and Kubernetes hosts as plain processes on loopback.

The programs are built from their Go modules into a cache on first use. Nodes and pods of the
hosts are simulated by kwok; everything else is the real thing.

\b
Examples:
  hack/control-planes up .test/a --nodes 6 --label branch=a,b,c
  hack/control-planes up .test/b --kubernetes 1.32 --hub-kubernetes 1.35 --karmada 1.17
  KUBECONFIG=.test/a/host.kubeconfig .test/a/bin/kubectl get nodes -L branch
  KUBECONFIG=.test/a/hub.kubeconfig .test/a/bin/kubectl get clusters
  hack/control-planes nodes .test/a --count 3 --label branch=d
  hack/control-planes status .test/a
  hack/control-planes down .test/a
"""
DIRECTORY = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
LABEL = click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE,...",
    help="Label of the nodes; several values are given to them in turn. Can be repeated.",
)
CPU = click.option("--cpu", default="4", show_default=True, help="CPUs of each node.")
MEMORY = click.option("--memory", default="8Gi", show_default=True, help="Memory of each node.")
PODS = click.option("--pods", default=110, show_default=True, help="Pods that a node takes.")


@click.group(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    pass


def _minor(module: tools.ToolModule, of: str) -> str:
    return f"Minor version of {of}: {', '.join(tools.minors(module))}. Default: that of go.mod."


KUBERNETES = click.option(
    "--kubernetes", default="", metavar="MINOR", help=_minor(tools.KUBERNETES, "the hosts")
)
HUB_KUBERNETES = click.option(
    "--hub-kubernetes",
    default="",
    metavar="MINOR",
    help="Minor version of the hub's API server, as for the hosts.",
)
KARMADA = click.option(
    "--karmada", default="", metavar="MINOR", help=_minor(tools.KARMADA, "Karmada")
)


DATASTORE = click.option(
    "--datastore",
    default=ETCD,
    show_default=True,
    type=click.Choice([ETCD, KINE]),
    help="Where the hosts store their objects; kine: each in SQLite, as K3s does.",
)


@cli.command()
@DATASTORE
@KUBERNETES
@HUB_KUBERNETES
@KARMADA
def build(*, datastore: str, kubernetes: str, hub_kubernetes: str, karmada: str) -> None:
    """Build the programs that the cache lacks."""
    versions = tools.Versions(kubernetes, hub_kubernetes, karmada)
    lifecycle.build(versions, datastore=datastore)


@cli.command()
@DIRECTORY
@click.option("--hosts", default=1, show_default=True, type=click.IntRange(1, 9))
@click.option("--nodes", "count", default=0, show_default=True, type=click.IntRange(0, 5000))
@LABEL
@CPU
@MEMORY
@PODS
@click.option(
    "--access",
    is_flag=True,
    help="Run what reaches member clusters, too: karmada-search, karmada-metrics-adapter, and "
    "apiserver-network-proxy with an agent for each host.",
)
@click.option(
    "--karmada-qps",
    default=0,
    type=click.IntRange(0),
    help="Requests a second of each of Karmada's controllers, in place of their default of 40.",
)
@click.option("--audit", is_flag=True, help="Write DIR/logs/NAME-audit.log: who wrote what.")
@DATASTORE
@KUBERNETES
@HUB_KUBERNETES
@KARMADA
@click.option(
    "--programs",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory of programs to run instead of those of the cache, by the same names.",
)
def up(
    *,
    directory: Path,
    hosts: int,
    count: int,
    labels: tuple[str, ...],
    cpu: str,
    memory: str,
    pods: int,
    access: bool,
    karmada_qps: int,
    audit: bool,
    datastore: str,
    kubernetes: str,
    hub_kubernetes: str,
    karmada: str,
    programs: Path | None,
) -> None:
    """Start a hub and hosts; DIR gets kubeconfigs, bin/ and logs/.

    Writes DIR/hub.kubeconfig, DIR/host.kubeconfig, DIR/host2.kubeconfig, ...; nodes go to the
    first host. With --access DIR/access.json says how the hub reaches them. A DIR that is up
    already with the same options is left as it is (exit code 0), any other one is refused.
    """
    batch = nodes.NodeBatch(count, labels, nodes.NodeSize(cpu, memory, pods))
    versions = tools.Versions(kubernetes, hub_kubernetes, karmada)
    shape = Shape(hosts, batch, access, audit, versions, datastore, karmada_qps)
    lifecycle.up(Directory(directory.absolute()), shape, programs)


@cli.command("nodes")
@DIRECTORY
@click.option("--count", required=True, type=click.IntRange(1, 5000), help="How many to add.")
@LABEL
@click.option("--host", "number", default=1, show_default=True, help="1 is host, 2 is host2, ...")
@click.option("--prefix", default="node", show_default=True, help="Names are PREFIX-1, PREFIX-2.")
@CPU
@MEMORY
@PODS
def add_nodes(
    *,
    directory: Path,
    count: int,
    labels: tuple[str, ...],
    number: int,
    prefix: str,
    cpu: str,
    memory: str,
    pods: int,
) -> None:
    """Add nodes to a host, and print their names once they are Ready."""
    batch = nodes.NodeBatch(count, labels, nodes.NodeSize(cpu, memory, pods), prefix)
    names = lifecycle.add_nodes(Directory(directory.absolute()), number, batch)
    print("\n".join(names))


@cli.command()
@DIRECTORY
def status(directory: Path) -> None:
    """Show each process; exit code 1 when one is down."""
    place = Directory(directory.absolute())
    if not place.is_ours:
        raise ControlPlanesError(f"{place.root} holds no control planes; start some with `up`")
    state, _ = place.read_state()
    found = lifecycle.look(place)
    for one in found:
        health = one.problem or "healthy"
        print(
            f"{one.component:<31} {one.pid:>8}  {'alive' if one.is_alive else 'dead':<6} {health}"
        )
    if state != UP:
        raise ControlPlanesError(f"{place.root} is not up (state: {state})")
    if any(one.problem for one in found):
        sys.exit(1)


@cli.command()
@DIRECTORY
@click.option("--purge", is_flag=True, help="Remove the logs as well, and DIR when it is empty.")
def down(directory: Path, *, purge: bool) -> None:
    """End all processes of DIR and remove their data; logs stay."""
    place = Directory(directory.absolute())
    ended = lifecycle.down(place, purge=purge)
    if ended is None:
        print(f"{place.root} holds no control planes", file=sys.stderr)
    else:
        print(f"{place.root} is down, {ended} processes ended", file=sys.stderr)


@cli.command()
@click.argument("program", required=False)
def paths(program: str | None) -> None:
    """Print where the programs are, or where one is: `paths kubectl`."""
    known = tools.program_paths()
    if program is not None and program not in known:
        raise ControlPlanesError(f"no program {program}; there are {', '.join(known)}")
    wanted = known if program is None else {program: known[program]}
    missing = [name for name, path in wanted.items() if not path.exists()]
    if missing:
        raise ControlPlanesError(f"{', '.join(missing)} not built; run hack/control-planes build")
    for name, path in wanted.items():
        print(path if program else f"{name} {path}")


def main() -> None:
    run_command(cli, "hack/control-planes")
