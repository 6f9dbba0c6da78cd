"""Bring kind clusters up, and down again."""

import os
import shutil
import socket
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

from control_planes import tools
from control_planes.errors import ControlPlanesError
from kind_clusters import engine as engines
from kind_clusters import karmada, machine, node_image, packages, programs
from kind_clusters.clusters import Cluster, Kind
from kind_clusters.directory import HOST, HOST2, HUB, PREFIX, Directory, State
from kind_clusters.engine import Engine
from kind_clusters.locks import locked
from kind_clusters.progress import say

GROUPS = ("a", "a", "b")
"""The group of each worker of the host."""
PORTS = range(30000, 30086)
"""Where a hub has Karmada's port: the part of a cluster's node ports that it gives nobody itself.

One for each set, since it is also a port of this machine.
"""
_NEEDED = ("aardvark-dns", "mmdebstrap")
"""What podman runs no less without: names of nodes need the one, their image the other."""
_HELPERS = ("/usr/lib/podman", "/usr/libexec/podman")


def find_engine(*, install: bool) -> Engine:
    """Return an engine that can run kind clusters here.

    install: whether what podman needs is installed where none can. Raises ControlPlanesError.
    """
    probe = _probe()
    try:
        return engines.find(probe, _check)
    except ControlPlanesError as error:
        if not packages.missing():
            raise
        if not install:
            hint = "; on Debian `hack/kind-up --can-run --install` installs what podman needs"
            raise ControlPlanesError(f"{error}{hint}", error.detail) from error
        try:
            packages.install()
        except ControlPlanesError as failure:
            raise ControlPlanesError(f"{error}; {failure}", failure.detail) from error
    return engines.find(probe, _check)


def up(directory: Directory, engine: Engine, *, second_host: bool) -> None:
    """Start hub and host, and install Karmada on the hub. Raises ControlPlanesError."""
    built = tools.build_missing(programs.PULLING if engine.pulls_nodes else programs.BUILDING)
    _check_present(directory, Kind(engine, built).names(), built["kind"])
    directory.create()
    machine.prepare(directory.state, machine.record_path())
    if not engine.pulls_nodes:
        machine.MODULES.mkdir(exist_ok=True)
    with locked(tools.cache_root() / "kind" / "node-image.lock"):
        image = node_image.ensure(engine, built)
    kind = Kind(engine, built, image)
    hub = Cluster(directory.cluster(HUB), directory.hub_pods, node_port=free_port(directory))
    host = Cluster(directory.cluster(HOST), directory.host, GROUPS)
    starts: list[Callable[[], None]] = [
        lambda: _start_hub(kind, engine, hub, built, directory),
        lambda: kind.create(host),
    ]
    if second_host:
        starts.append(lambda: _start_second_host(kind, directory))
    try:
        _all_at_once(starts)
    except ControlPlanesError:
        say(f"failed; `hack/kind-down {directory.root}` removes what is there")
        raise
    directory.link_programs(tools.program_paths(programs.PULLING))
    server = f"https://{kind.address(hub)}:{hub.node_port}"
    groups = dict(zip(host.workers, host.groups, strict=True))
    clusters = {HUB: hub.name, HOST: host.name}
    directory.write_state(State(engine.name, dict(engine.settings), clusters, server, groups))
    say(f"up; {directory.root} holds hub.kubeconfig, host.kubeconfig, bin; pods reach {server}")


def down(directory: Directory) -> None:
    """Remove the clusters and what is in the directory. Raises ControlPlanesError."""
    if not directory.is_ours:
        say(f"{directory.root} holds no kind clusters")
        return
    engine = find_engine(install=False)
    kind = Kind(engine, tools.build_missing((*tools.MODULES, programs.KIND)))
    for name in directory.clusters.values():
        kind.delete(name)
    machine.restore(directory.state, machine.record_path())
    directory.remove()
    say("down")


def _check_present(directory: Directory, names: list[str], program: Path) -> None:
    """Raise ControlPlanesError if clusters of the directory are up; say which others are."""
    if present := sorted(set(directory.clusters.values()) & set(names)):
        raise ControlPlanesError(
            f"kind clusters {', '.join(present)} exist; run hack/kind-down with their directory, "
            f"or `{program} delete clusters {' '.join(present)}`"
        )
    if others := [name for name in names if name.startswith(PREFIX)]:
        say(f"those of other directories are up, too: {', '.join(others)}")


def free_port(directory: Directory) -> int:
    """Return a port that nobody has on loopback; sets that start at once begin at different ones.

    Raises ControlPlanesError.
    """
    first = zlib.crc32(directory.cluster(HUB).encode()) % len(PORTS)
    for port in chain(PORTS[first:], PORTS[:first]):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ControlPlanesError(f"no port from {PORTS.start} to {PORTS.stop - 1} is free")


def _start_hub(
    kind: Kind, engine: Engine, hub: Cluster, built: Mapping[str, Path], directory: Directory
) -> None:
    kind.create(hub)
    made = karmada.install(kind, engine, hub, built, directory.karmada)
    shutil.copy(made, directory.hub)


def _start_second_host(kind: Kind, directory: Directory) -> None:
    """Make a host without a real node: what joins it whole has the nodes of tests alone."""
    host = Cluster(directory.cluster(HOST2), directory.host2)
    kind.create(host)
    kind.retire_node(host)


def _all_at_once(starts: list[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(len(starts)) as pool:
        for future in [pool.submit(start) for start in starts]:
            future.result()


def _probe() -> Path:
    """Return the program that is run in a container to see whether an engine works."""
    return tools.build_missing((tools.KUBERNETES,))[programs.PROBE]


def _check(engine: Engine) -> None:
    """Raise ControlPlanesError if an engine that runs containers lacks what nodes need."""
    if engine.pulls_nodes:
        node_image.pull(engine)
        return
    where = os.pathsep.join((os.environ["PATH"], *_HELPERS))
    if missing := [program for program in _NEEDED if shutil.which(program, path=where) is None]:
        raise ControlPlanesError(f"{', '.join(missing)} missing; install it")
