"""Bring kind clusters up, and down again."""

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from control_planes import tools
from control_planes.errors import ControlPlanesError
from kind_clusters import engine as engines
from kind_clusters import karmada, machine, node_image, programs
from kind_clusters.clusters import Cluster, Kind
from kind_clusters.directory import HOST, HOST2, HUB, NAMES, Directory, State
from kind_clusters.engine import Engine
from kind_clusters.progress import say

GROUPS = ("a", "a", "b")
"""The group of each worker of the host."""
KARMADA_PORT = 32443
_NEEDED = ("mmdebstrap",)
"""What building a node image needs beside the engine."""


def why_not() -> str:
    """Return why this machine cannot run kind clusters; empty if it can."""
    try:
        engine = engines.find(_probe())
        _check(engine)
    except ControlPlanesError as error:
        return str(error)
    return ""


def up(directory: Directory, *, second_host: bool) -> None:
    """Start hub and host, and install Karmada on the hub. Raises ControlPlanesError."""
    engine = engines.find(_probe())
    _check(engine)
    built = tools.build_missing(programs.PULLING if engine.pulls_nodes else programs.BUILDING)
    directory.create()
    machine.prepare(directory.settings_before)
    if not engine.pulls_nodes:
        machine.MODULES.mkdir(exist_ok=True)
    image = node_image.ensure(engine, built)
    kind = Kind(engine, built, image)
    if present := sorted(set(NAMES) & set(kind.names())):
        raise ControlPlanesError(
            f"kind clusters {', '.join(present)} exist; run `hack/kind-down {directory.root}` first"
        )
    hub = Cluster(HUB, directory.hub_pods, node_port=KARMADA_PORT)
    host = Cluster(HOST, directory.host, GROUPS)
    starts: list[Callable[[], None]] = [
        lambda: _start_hub(kind, engine, hub, built, directory),
        lambda: kind.create(host),
    ]
    if second_host:
        starts.append(lambda: kind.create(Cluster(HOST2, directory.host2)))
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
    engine = engines.find(_probe())
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


def _all_at_once(starts: list[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(len(starts)) as pool:
        for future in [pool.submit(start) for start in starts]:
            future.result()


def _probe() -> Path:
    """Return the program that is run in a container to see whether an engine works."""
    kubernetes = [module for module in tools.MODULES if programs.PROBE in module.packages]
    return tools.build_missing(kubernetes)[programs.PROBE]


def _check(engine: Engine) -> None:
    if engine.pulls_nodes:
        return
    if missing := [program for program in _NEEDED if shutil.which(program) is None]:
        raise ControlPlanesError(
            f"{', '.join(missing)} missing: without Docker the image of nodes is made of Debian "
            "packages; install it"
        )
