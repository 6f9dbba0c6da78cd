"""Run programs, and say on one line what failed."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from control_planes.errors import ControlPlanesError

Argument = str | Path
_LAST_LINES = 15


def run(
    *command: Argument,
    environment: Mapping[str, str] | None = None,
    content: bytes | None = None,
    timeout_s: float = 1800,
) -> str:
    """Run a program and return its standard output. content: its standard input.

    Raises ControlPlanesError with the end of what it said.
    """
    shown = " ".join(str(each) for each in command[:3])
    try:
        done = subprocess.run(
            command,
            env=environment,
            input=content,
            stdin=subprocess.DEVNULL if content is None else None,
            capture_output=True,
            check=False,
            timeout=timeout_s,
        )
    except FileNotFoundError as error:
        raise ControlPlanesError(f"{command[0]} is missing; install it") from error
    except subprocess.TimeoutExpired as error:
        raise ControlPlanesError(f"`{shown} ...` did not end within {timeout_s:.0f} s") from error
    said = (done.stdout + done.stderr).decode(errors="replace").splitlines()
    if done.returncode != 0:
        tail = "\n".join(said[-_LAST_LINES:])
        raise ControlPlanesError(f"`{shown} ...` failed (exit code {done.returncode})", tail)
    return done.stdout.decode(errors="replace")


def succeeds(*command: Argument, environment: Mapping[str, str] | None = None) -> bool:
    """Tell whether a program ends with exit code 0."""
    try:
        run(*command, environment=environment, timeout_s=120)
    except ControlPlanesError:
        return False
    return True
