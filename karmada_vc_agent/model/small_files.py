"""Files that people write, read as far as such a file can be: a device has no end."""

import errno
from pathlib import Path

LARGEST_MIB = 16


def read_small(path: Path) -> bytes:
    """Return the content of a file. Raises OSError, also for one that is too large."""
    most = LARGEST_MIB * 2**20
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        problem = f"has more than {LARGEST_MIB} MiB; no file of its kind has that much"
        raise OSError(errno.EFBIG, problem, str(path))
    return content
