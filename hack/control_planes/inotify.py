"""Room for another set: the kernel gives each user a limited number of inotify instances.

API servers, controllers and karmada-webhook take some and do not start, or end, without. Sets
therefore start one after the other, each once there is room for it.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from control_planes.errors import ControlPlanesError

EACH = 13
"""What a hub takes, and what a host takes (measured 2026-11 with Kubernetes 1.34)."""
LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
WAIT_S = 600.0
_POLL_S = 1.0
_ADVICE = "bring another set down, or raise sysctl fs.inotify.max_user_instances"


def limit() -> int:
    """Return how many instances this user may have."""
    return int(LIMIT.read_text())


def used(processes: Path = Path("/proc")) -> int:
    """Count the instances that processes of this user have."""
    return sum(_instances(entry) for entry in processes.iterdir() if entry.name.isdigit())


@contextmanager
def room(needed: int, lock: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Wait until `needed` instances are free; nobody else may take this room meanwhile.

    lock: file that all sets of this user share. say: is told what is waited for.
    Raises ControlPlanesError.
    """
    if needed > limit():
        raise ControlPlanesError(
            f"this set needs {needed} inotify instances, and a user may have {limit()}; "
            "raise sysctl fs.inotify.max_user_instances"
        )
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        _wait(lambda: _take(file.fileno()), "another set is starting", say)
        _wait(lambda: limit() - used() >= needed, f"{needed} inotify instances are not free", say)
        yield


def _wait(is_there: Callable[[], bool], problem: str, say: Callable[[str], None]) -> None:
    deadline = time.monotonic() + WAIT_S
    has_said = False
    while not is_there():
        problem_now = f"{problem} ({used()} of {limit()} inotify instances in use)"
        if time.monotonic() > deadline:
            raise ControlPlanesError(f"{problem_now}, for {WAIT_S:.0f} s; {_ADVICE}")
        if not has_said:
            say(f"{problem_now}: waiting up to {WAIT_S:.0f} s; {_ADVICE}")
            has_said = True
        time.sleep(_POLL_S)


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _instances(process: Path) -> int:
    try:
        if process.stat().st_uid != os.getuid():
            return 0
        return sum(_leads_to(entry) == "anon_inode:inotify" for entry in (process / "fd").iterdir())
    except OSError:  # it has ended
        return 0


def _leads_to(entry: Path) -> str:
    try:
        return str(entry.readlink())
    except OSError:  # it was closed meanwhile
        return ""
