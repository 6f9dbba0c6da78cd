"""Start one component and wait until it is healthy."""

import asyncio
import errno
import random
import signal
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

from control_planes import health, processes
from control_planes.component import LOOPBACK, Component, Ports
from control_planes.directory import Directory
from control_planes.errors import ControlPlanesError
from control_planes.progress import StartProgress

READY_TIMEOUT_S = 120.0
POLL_S = 0.1
PORT_ATTEMPTS = 5
LOW_PORTS = (10_000, 32_768)
LAST_LINES = 15
AGAIN = (
    *("/bin/sh", "-c"),
    """while :; do
        setpriv --pdeathsig KILL "$@"
        code=$?
        [ $code = 2 ] || exit $code  # of a panic of Go
        echo "$1 panicked; starting it again"
        sleep 1
    done""",
    "again",
)
"""Runs a command until it ends otherwise than by a panic; it ends with this shell."""
PORT_TAKEN = "address already in use"
# inotify.room waits for room before a start; others may take it all the same
INOTIFY_USED_UP = "too many open files"
INOTIFY_ADVICE = "raise sysctl fs.inotify.max_user_instances, or bring another set down"


class Launcher:
    """Start components of one set."""

    def __init__(
        self, directory: Directory, programs: dict[str, Path], progress: StartProgress
    ) -> None:
        self._directory = directory
        self._programs = programs
        self._progress = progress

    async def launch(self, component: Component) -> int:
        """Start a component, wait until it is healthy, and return its port."""
        return (await self.launch_ports(component)).main

    async def launch_ports(self, component: Component) -> Ports:
        """Start a component, wait until it is healthy, and return its ports.

        A port can be taken by others between our choice and the start; then another is tried.
        """
        self._progress.starting(component.name)
        for _ in range(PORT_ATTEMPTS):
            choose = low_ports if component.has_low_ports else free_ports
            ports = Ports(*choose(len(Ports._fields)))
            placed = component.with_ports(ports)
            process = self._start(placed)
            if await self._became_healthy(placed, process):
                self._progress.ready(component.name)
                return ports
        raise self._failure(component, f"found its port taken {PORT_ATTEMPTS} times")

    def _start(self, component: Component) -> subprocess.Popen[bytes]:
        of_component = self._programs.get(component.name)  # in a version of its own
        program = str(of_component or self._programs[component.program])
        log = self._directory.log(component.name)
        command = [*(AGAIN if component.panics else ()), program, *component.arguments]
        try:
            process = processes.spawn(command, log, self._directory.data)
        except OSError as error:
            raise self._failure(component, f"cannot run {program}: {error.strerror}") from error
        ticks = processes.start_ticks(process.pid)
        if ticks is not None:  # else it is dead already, and the health check will say so
            record = processes.ProcessRecord(
                component=component.name,
                pid=process.pid,
                start_ticks=ticks,
                program=program,
                health=component.health,
                ca=component.ca,
                log=str(log),
            )
            processes.write_record(self._directory.processes, record)
        return process

    async def _became_healthy(self, component: Component, process: subprocess.Popen[bytes]) -> bool:
        """Wait for health; False when the port was taken, an error when it died otherwise."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        problem = ""
        while time.monotonic() < deadline:
            problem = await asyncio.to_thread(health.find_problem, component.health, component.ca)
            if process.poll() is not None:
                log = self._directory.log(component.name)
                if PORT_TAKEN in log.read_text(errors="replace"):
                    return False
                raise self._failure(component, describe_end(process.returncode))
            if not problem:
                return True
            await asyncio.sleep(POLL_S)
        raise self._failure(component, f"is not healthy after {READY_TIMEOUT_S:.0f} s: {problem}")

    def _last_lines(self, component: Component) -> str:
        log = self._directory.log(component.name)
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "\n".join(lines[-LAST_LINES:])

    def _failure(self, component: Component, what: str) -> ControlPlanesError:
        log, tail = self._directory.log(component.name), self._last_lines(component)
        advice = f"; {INOTIFY_ADVICE}" if INOTIFY_USED_UP in tail else ""
        return ControlPlanesError(f"{component.name} {what}; its log is {log}{advice}", tail)


def describe_end(code: int) -> str:
    """Put an exit code into words; negative ones are signals."""
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def low_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on, below those for outgoing connections."""
    with ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            port = random.randrange(*LOW_PORTS)  # noqa: S311 - nothing secret
            one = stack.enter_context(socket.socket())
            try:
                one.bind((LOOPBACK, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                found.append(port)
        return found


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on at this moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            try:
                one.bind((LOOPBACK, 0))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise ControlPlanesError(
                        "no free port on 127.0.0.1; stop something first"
                    ) from error
                raise
        return [one.getsockname()[1] for one in sockets]
