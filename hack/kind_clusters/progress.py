"""Tell on standard error what is being done, and since when."""

import sys
import time

_BEGAN = time.monotonic()


def say(text: str) -> None:
    """Print a line with the seconds since the command began."""
    print(f"[{time.monotonic() - _BEGAN:4.0f} s] {text}", file=sys.stderr, flush=True)
