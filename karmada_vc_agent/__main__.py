"""Start of the command `karmada-vc-agent`, which can be told to end from the first moment on.

As process 1 of a container the kernel drops signals that have no handler, and loading the
program takes a while: hence handlers come before all imports that take time.
"""

import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command of the arguments."""
    if sys.argv[1:2] == ["run"]:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _end)
    try:
        from karmada_vc_agent import cli  # noqa: PLC0415 - takes time
    except KeyboardInterrupt:
        sys.exit("\nAborted!")  # with code 1, as click ends a command

    cli.main(prog_name="karmada-vc-agent")


def _end(_number: int, _frame: FrameType | None) -> None:
    """End an agent that has not begun; once it has, it ends in its own way (cli.py)."""
    sys.exit(0)


if __name__ == "__main__":
    main()
