"""Bring a set of control planes up and down, and look at it."""

import asyncio
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from control_planes import (
    component,
    health,
    host,
    hub,
    inotify,
    kubeconfig,
    nodes,
    processes,
    tools,
)
from control_planes.api import ApiError, ApiServer
from control_planes.cluster import create_cluster
from control_planes.directory import DOWN, ETCD, KINE, UP, Directory, Shape
from control_planes.errors import ControlPlanesError
from control_planes.launch import Launcher
from control_planes.progress import StartProgress

HUB_COMPONENTS, HOST_COMPONENTS, ACCESS_COMPONENTS = 6, 4, 3
THREADS = 32  # every component may be waiting for an answer at once


@dataclass(frozen=True, slots=True)
class ComponentStatus:
    """A component as it is now; `problem` is "" when it is healthy."""

    component: str
    pid: int
    is_alive: bool
    problem: str


def up(directory: Directory, shape: Shape, own_programs: Path | None) -> None:
    """Start a whole set, or nothing: whatever goes wrong, what was started is ended again."""
    nodes.check(shape.nodes)  # a mistake there should not cost a start
    directory.create()
    with directory.locked():
        if _is_up_already(directory, shape):
            return
        built = build(shape.versions, access=shape.access, datastore=shape.datastore)
        programs = built | _find_programs(own_programs)
        needed = inotify.EACH * (1 + shape.hosts)
        with inotify.room(needed, tools.cache_root() / "inotify.lock", _say):
            _start_all(directory, shape, programs)


def build(
    versions: tools.Versions, *, access: bool = False, datastore: str = ETCD
) -> dict[str, Path]:
    """Build what is missing; return the programs, those of the hub alone by component."""
    modules = [*versions.modules]
    modules += tools.ACCESS_MODULES if access else ()
    modules += (tools.KINE,) if datastore == KINE else ()
    programs = tools.build_missing(modules)
    of_hub = tools.build_missing(versions.of_hub) if versions.of_hub else {}
    return programs | {f"{hub.NAME}-{name}": path for name, path in of_hub.items()}


def down(directory: Directory, *, purge: bool) -> int | None:
    """End every process of a set and remove its data; None where there never was one."""
    if not directory.is_ours:
        return None
    with directory.locked():
        ended = processes.stop(processes.read_records(directory.processes))
        directory.remove_data()
        directory.write_state(DOWN)
        if purge:
            directory.purge()
    return ended


def look(directory: Directory) -> list[ComponentStatus]:
    """Ask every process of a set how it is."""
    records = processes.read_records(directory.processes)
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(_look_at, records))


def add_nodes(directory: Directory, host_number: int, batch: nodes.NodeBatch) -> list[str]:
    """Add kwok nodes to a host that runs."""
    nodes.check(batch)
    path = directory.kubeconfig(host.host_name(host_number))
    if not path.exists():
        raise ControlPlanesError(
            f"{path} does not exist; start that host with `up {directory.root} "
            f"--hosts {host_number}`"
        )
    api = ApiServer(kubeconfig.read(path))
    try:
        return asyncio.run(nodes.add_nodes(api, batch))
    except ApiError as error:
        raise ControlPlanesError(
            f"{host.host_name(host_number)} does not answer: {error}; see `status {directory.root}`"
        ) from error


def _start_all(directory: Directory, shape: Shape, programs: dict[str, Path]) -> None:
    directory.prepare(shape)
    try:
        for name, path in programs.items():
            (directory.bin / name).symlink_to(path)
        asyncio.run(_start(directory, programs, shape))
        directory.write_state(UP, str(shape))
    except BaseException as error:
        _tear_down(directory)
        raise _first_cause(error) from error


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def _start(directory: Directory, programs: dict[str, Path], shape: Shape) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(THREADS))
    if (task := asyncio.current_task()) is not None:
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    reached = shape.hosts if shape.access else 0
    more = ACCESS_COMPONENTS + reached if reached else 0
    of_host = HOST_COMPONENTS + (shape.datastore == KINE)
    progress = StartProgress(1 + HUB_COMPONENTS + of_host * shape.hosts + more)
    progress.say(f"starting a hub and {shape.hosts} host(s) in {directory.shown}")
    launcher = Launcher(directory, programs, progress)
    try:
        etcd_port = await launcher.launch(component.etcd(directory.data))
        async with asyncio.TaskGroup() as group:
            made = create_cluster(hub.NAME, directory, audited=shape.audit)
            karmada = shape.versions.karmada_module
            group.create_task(
                hub.start(made, launcher, etcd_port, karmada, reached, shape.karmada_qps)
            )
            for number in range(1, shape.hosts + 1):
                name = host.host_name(number)
                cluster = create_cluster(name, directory, audited=shape.audit)
                store = component.kine(name, directory.data) if shape.datastore == KINE else None
                count = shape.nodes.count if number == 1 else 0
                started = group.create_task(host.start(cluster, launcher, etcd_port, store, count))
                if count:
                    group.create_task(_add_first_nodes(started, shape.nodes, progress))
    finally:
        progress.finish()
    clusters = [hub.NAME, *(host.host_name(number) for number in range(1, shape.hosts + 1))]
    files = ", ".join(directory.kubeconfig(cluster).name for cluster in clusters)
    progress.say(f"up after {progress.elapsed():.1f} s; {directory.shown} holds {files}, bin, logs")


async def _add_first_nodes(
    started: asyncio.Task[ApiServer], batch: nodes.NodeBatch, progress: StartProgress
) -> None:
    names = await nodes.add_nodes(await started, batch)
    progress.say(f"{len(names)} nodes of host are Ready ({names[0]} to {names[-1]})")


def _is_up_already(directory: Directory, shape: Shape) -> bool:
    """Tell whether this very set runs and is healthy; refuse when anything else runs here."""
    found = look(directory) if directory.is_ours else []
    if not any(status.is_alive for status in found):
        return False
    state, present = directory.read_state()
    sick = ", ".join(status.component for status in found if status.problem)
    if state != UP or sick:
        raise ControlPlanesError(
            f"{directory.root} holds control planes that are not healthy "
            f"({sick or 'their start was not finished'}); run `down` first"
        )
    if present != str(shape):
        raise ControlPlanesError(
            f"{directory.root} is up with {present}, asked for {shape}; "
            "run `down` first, or add nodes with `nodes`"
        )
    print(f"{directory.root} is up already, and healthy", file=sys.stderr)
    return True


def _look_at(record: processes.ProcessRecord) -> ComponentStatus:
    alive = processes.is_running(record)
    problem = health.find_problem(record.health, record.ca) if alive else f"its log is {record.log}"
    return ComponentStatus(record.component, record.pid, alive, problem)


def _find_programs(directory: Path | None) -> dict[str, Path]:
    if directory is None:
        return {}
    known = tools.program_paths()
    own = {name: directory.absolute() / name for name in known if (directory / name).exists()}
    if not own:
        raise ControlPlanesError(f"{directory} holds none of {', '.join(known)}")
    return own


def _tear_down(directory: Directory) -> None:
    """End what was started; nothing may interrupt this."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    processes.stop(processes.read_records(directory.processes))
    directory.remove_data()
    directory.write_state(DOWN)


def _first_cause(error: BaseException) -> BaseException:
    """Return what a group of failed tasks failed of first: the others were only cancelled."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case asyncio.CancelledError():
            return KeyboardInterrupt()
        case ApiError():
            return ControlPlanesError(f"a request failed: {error}")
        case _:
            return error
