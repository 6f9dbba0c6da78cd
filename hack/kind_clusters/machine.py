"""Settings of the kernel that several nodes on one machine need, put back afterwards."""

import json
from pathlib import Path

from control_planes.errors import ControlPlanesError

ROOT = Path("/proc/sys")
WANTED = {
    "fs/inotify/max_user_instances": 2048,  # systemd, containerd, kubelet and pods of each node
    "fs/inotify/max_user_watches": 131072,
}


MODULES = Path("/lib/modules")
"""Kind mounts it into each node; a kernel without modules has none."""


def prepare(record: Path, root: Path = ROOT) -> None:
    """Raise what is too low. record: file that gets what it was before, unless it is there.

    Raises ControlPlanesError.
    """
    before = {name: int((root / name).read_text()) for name in WANTED}
    low = {name: value for name, value in before.items() if value < WANTED[name]}
    if low and not record.exists():
        record.write_text(json.dumps(low))
    for name in low:
        try:
            (root / name).write_text(str(WANTED[name]))
        except OSError as error:
            setting = f"{name.replace('/', '.')}={WANTED[name]}"
            raise ControlPlanesError(f"run `sysctl {setting}` as root: {error}") from error


def restore(record: Path, root: Path = ROOT) -> None:
    """Put back what `prepare` raised."""
    if not record.exists():
        return
    for name, value in json.loads(record.read_text()).items():
        if name in WANTED and int((root / name).read_text()) == WANTED[name]:
            (root / name).write_text(str(value))
    record.unlink()
