"""Settings of the kernel that several nodes on one machine need, put back after the last set."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from control_planes.errors import ControlPlanesError
from control_planes.tools import cache_root
from kind_clusters.locks import locked

ROOT = Path("/proc/sys")
WANTED = {
    "fs/inotify/max_user_instances": 2048,  # systemd, containerd, kubelet and pods of each node
    "fs/inotify/max_user_watches": 131072,
}


MODULES = Path("/lib/modules")
"""Kind mounts it into each node; a kernel without modules has none."""


def record_path() -> Path:
    """Return the file that knows what was before, and who needs more: all sets share it."""
    return cache_root() / "kind" / "settings.json"


def prepare(user: Path, record: Path, root: Path = ROOT) -> None:
    """Raise what is too low. user: a file that is there as long as somebody needs it.

    Raises ControlPlanesError.
    """
    with _recorded(record, user) as state:
        state["users"].append(str(user))
        for name, wanted in WANTED.items():
            value = int((root / name).read_text())
            if value >= wanted:
                continue
            state["before"].setdefault(name, value)
            try:
                (root / name).write_text(str(wanted))
            except OSError as error:
                setting = f"{name.replace('/', '.')}={wanted}"
                raise ControlPlanesError(f"run `sysctl {setting}` as root: {error}") from error


def restore(user: Path, record: Path, root: Path = ROOT) -> None:
    """Put back what `prepare` raised, unless somebody else still needs it."""
    with _recorded(record, user) as state:
        if state["users"]:
            return
        for name, value in state["before"].items():
            if name in WANTED and int((root / name).read_text()) == WANTED[name]:
                (root / name).write_text(str(value))
        state["before"] = {}


@contextmanager
def _recorded(record: Path, user: Path) -> Iterator[dict[str, Any]]:
    """Yield what is recorded, without this user and those that are gone; write it afterwards."""
    with locked(record) as file:
        file.seek(0)
        state = {"before": {}, "users": [], **json.loads(file.read() or "{}")}
        others = [each for each in state["users"] if each != str(user)]
        state["users"] = [each for each in others if Path(each).exists()]
        try:
            yield state
        finally:
            file.truncate(0)
            json.dump(state, file)
