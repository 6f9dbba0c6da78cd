"""Bring kind clusters up, and down again."""

import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from control_planes import tools
from control_planes.errors import ControlPlanesError
from kind_clusters import engine as engines
from kind_clusters import karmada, machine, node_image, packages, programs
from kind_clusters.clusters import Cluster, Kind
from kind_clusters.directory import HOST, HOST2, HUB, NAMES, Directory, State
from kind_clusters.engine import Engine
from kind_clusters.progress import say

GROUPS = ("a", "a", "b")
"""The group of each worker of the host."""
KARMADA_PORT = 32443
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
        if not install or not packages.missing():
            raise
        try:
            packages.install()
        except ControlPlanesError as failure:
            raise ControlPlanesError(f"{error}; {failure}", failure.detail) from error
    return engines.find(probe, _check)


def up(directory: Directory, engine: Engine, *, second_host: bool) -> None:
    """Start hub and host, and install Karmada on the hub. Raises ControlPlanesError."""
    built = tools.build_missing(programs.PULLING if engine.pulls_nodes else programs.BUILDING)
    if present := sorted(set(NAMES) & set(Kind(engine, built).names())):
        raise ControlPlanesError(
            f"kind clusters {', '.join(present)} exist; run hack/kind-down with their directory, "
            f"or `{built['kind']} delete clusters {' '.join(present)}`"
        )
    directory.create()
    machine.prepare(directory.settings_before)
    if not engine.pulls_nodes:
        machine.MODULES.mkdir(exist_ok=True)
    kind = Kind(engine, built, node_image.ensure(engine, built))
    hub = Cluster(HUB, directory.hub_pods, node_port=KARMADA_PORT)
    host = Cluster(HOST, directory.host, GROUPS)
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
    server = f"https://{kind.address(hub)}:{KARMADA_PORT}"
    groups = dict(zip(host.workers, host.groups, strict=True))
    directory.write_state(State(engine.name, dict(engine.settings), server, groups))
    say(f"up; {directory.root} holds hub.kubeconfig, host.kubeconfig, bin; pods reach {server}")


def down(directory: Directory) -> None:
    """Remove the clusters and what is in the directory. Raises ControlPlanesError."""
    if not directory.is_ours:
        say(f"{directory.root} holds no kind clusters")
        return
    engine = find_engine(install=False)
    kind = Kind(engine, tools.build_missing((*tools.MODULES, programs.KIND)))
    for name in NAMES:
        kind.delete(name)
    machine.restore(directory.settings_before)
    directory.remove()
    say("down")


def _start_hub(
    kind: Kind, engine: Engine, hub: Cluster, built: Mapping[str, Path], directory: Directory
) -> None:
    kind.create(hub)
    made = karmada.install(kind, engine, hub, built, directory.karmada)
    shutil.copy(made, directory.hub)


def _start_second_host(kind: Kind, directory: Directory) -> None:
    """Make a host without a real node: what joins it whole has the nodes of tests alone."""
    host = Cluster(HOST2, directory.host2)
    kind.create(host)
    kind.retire_node(host)


def _all_at_once(starts: list[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(len(starts)) as pool:
        for future in [pool.submit(start) for start in starts]:
            future.result()


def _probe() -> Path:
    """Return the program that is run in a container to see whether an engine works."""
    kubernetes = [module for module in tools.MODULES if programs.PROBE in module.packages]
    return tools.build_missing(kubernetes)[programs.PROBE]


def _check(engine: Engine) -> None:
    """Raise ControlPlanesError if an engine that runs containers lacks what nodes need."""
    if engine.pulls_nodes:
        node_image.pull(engine)
        return
    where = os.pathsep.join((os.environ["PATH"], *_HELPERS))
    if missing := [program for program in _NEEDED if shutil.which(program, path=where) is None]:
        raise ControlPlanesError(f"{', '.join(missing)} missing; install it")
