"""What a process holds, as the kernel tells."""

from pathlib import Path
from typing import NamedTuple


class Held(NamedTuple):
    """Resident memory, open files and threads of a process."""

    rss_mb: float
    files: int
    threads: int


def held(process: int) -> Held:
    root = Path("/proc", str(process))
    lines = dict(line.split(":", 1) for line in (root / "status").read_text().splitlines())
    kilobytes, threads = int(lines["VmRSS"].split()[0]), int(lines["Threads"])
    return Held(kilobytes / 1024, len(list((root / "fd").iterdir())), threads)
