"""Entry point of `karmada-vc-agent`; it can be terminated from the first moment on.

For process 1 of a container the kernel ignores signals without a handler, and loading the program
takes a while: hence handlers are installed before all slow imports.
"""

import gc
import signal
import sys
from importlib.metadata import version
from types import FrameType

GC_THRESHOLDS = (10_000, 20, 20)
"""With Python's default of 700 the garbage collector takes 6 % of the CPU of a burst of Works, and
a third of loading the program; informers hold many dicts that stay."""
_ENDING = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Run the command given by the arguments."""
    gc.set_threshold(*GC_THRESHOLDS)
    if sys.argv[1:] == ["--version"]:
        print("karmada-vc-agent", version("karmada-vc-agent"))  # noqa: T201 - click is not loaded
        return
    if sys.argv[1:2] in (["run"], ["gateway"]):
        for number in _ENDING:
            signal.signal(number, _end)
    try:
        from karmada_vc_agent import cli  # noqa: PLC0415 - slow
    except KeyboardInterrupt:
        print("\nAborted!", file=sys.stderr)  # noqa: T201 - click is not loaded
        sys.exit(128 + signal.SIGINT)

    cli.main(prog_name="karmada-vc-agent")


def _end(_number: int, _frame: FrameType | None) -> None:
    """Exit a process that has not started; after that, runner/process.py handles signals."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


if __name__ == "__main__":
    main()
