"""Start processes that outlive us, remember them, and end exactly those.

A pid alone is no identity: numbers come round. A record therefore keeps when the kernel started
the process as well, and a process is signalled only through a pidfd that was opened before both
were compared.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from control_planes.errors import ControlPlanesError

STATE_FIELD = 0  # fields of /proc/PID/stat behind the command name, see proc(5)
START_TIME_FIELD = 19
EXIT_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A process that we started. health: URL; ca: file with its authority, or ""."""

    component: str
    pid: int
    start_ticks: int
    program: str
    health: str
    ca: str
    log: str


def spawn(command: list[str], log: Path, working_directory: Path) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, with both outputs in its log."""
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=working_directory,
            start_new_session=True,
            # nothing of ours: a proxy or a KUBECONFIG set by chance would change what runs
            env={"PATH": os.defpath, "HOME": str(working_directory)},
        )


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None when it is gone.

    A zombie is gone: it runs nothing, and only its parent can take it away.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[STATE_FIELD] in "ZX" else int(fields[START_TIME_FIELD])


def is_running(record: ProcessRecord) -> bool:
    """Tell whether the very process of a record still runs.

    One that has only just been started has no command line yet.
    """
    if start_ticks(record.pid) != record.start_ticks:
        return False
    command = _command(record.pid)
    return record.program in command or not any(command)


def write_record(directory: Path, record: ProcessRecord) -> None:
    path = directory / f"{record.component}.json"
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps(asdict(record), indent=2) + "\n")
    unfinished.rename(path)


def read_records(directory: Path) -> list[ProcessRecord]:
    """Return what was started, oldest first."""
    records = [ProcessRecord(**json.loads(path.read_text())) for path in directory.glob("*.json")]
    return sorted(records, key=lambda record: (record.start_ticks, record.pid))


def stop(records: list[ProcessRecord]) -> int:
    """End the processes of these records, wait until they are gone, return how many there were.

    SIGKILL: their data goes next, and API servers take their time to end politely.
    """
    ended: list[tuple[ProcessRecord, int]] = []
    with contextlib.ExitStack() as stack:
        for record in records:
            try:
                pidfd = os.pidfd_open(record.pid)
            except ProcessLookupError:
                continue
            stack.callback(os.close, pidfd)
            if is_running(record):
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                ended.append((record, pidfd))
        deadline = time.monotonic() + EXIT_TIMEOUT_S
        for record, pidfd in ended:
            _wait_for_exit(record, pidfd, deadline)
    return len(ended)


def _wait_for_exit(record: ProcessRecord, pidfd: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise ControlPlanesError(
            f"{record.component} (pid {record.pid}) does not end after SIGKILL; "
            "look at its state in /proc, then run down again"
        )


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []
