"""Run a command of click as scripts of hack/ do: a failure is one line, not a traceback."""

import signal
import sys
from collections.abc import Sequence

import click

from control_planes.errors import ControlPlanesError


def run_command(command: click.Command, name: str, arguments: Sequence[str] | None = None) -> None:
    """Run a command under a name; a failure is one line, after the log lines that explain it.

    arguments: those of the program, unless given. Exits with 1 if it failed, 130 if interrupted.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        command.main(arguments, prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except ControlPlanesError as error:
        for line in error.detail.splitlines():
            print(f"  | {line}", file=sys.stderr)
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        print(f"{name}: interrupted", file=sys.stderr)
        sys.exit(130)
