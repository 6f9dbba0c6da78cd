"""Tell on standard error what is being done, and since when."""

import sys
import time

_BEGAN = time.monotonic()


def say(text: str) -> None:
    """Print a line with the seconds since the command began."""
    line = f"[{time.monotonic() - _BEGAN:4.0f} s] {text}\n"  # one write: threads say things, too
    print(line, end="", file=sys.stderr, flush=True)
