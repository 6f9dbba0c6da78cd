"""Entry point of `karmada-vc-agent`; it can be terminated from the first moment on.

For process 1 of a container the kernel ignores signals without a handler, and loading the program
takes a while: hence handlers are installed before all slow imports.
"""

import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command given by the arguments."""
    if sys.argv[1:2] == ["run"]:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _end)
    try:
        from karmada_vc_agent import cli  # noqa: PLC0415 - slow
    except KeyboardInterrupt:
        sys.exit("\nAborted!")  # exit code 1, as click aborts a command

    cli.main(prog_name="karmada-vc-agent")


def _end(_number: int, _frame: FrameType | None) -> None:
    """Exit an agent that has not started; after that, cli.py handles signals."""
    sys.exit(0)


if __name__ == "__main__":
    main()
