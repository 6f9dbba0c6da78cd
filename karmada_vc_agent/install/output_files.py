"""The files that `join` writes, readable by their owner only."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from karmada_vc_agent.commands.command_errors import CommandError

_PRIVATE = 0o600
"""host.yaml and hub.kubeconfig hold the agent's private key."""


def make_directory(directory: Path) -> None:
    """Create a directory and its parents. Raises CommandError."""
    with _explained(directory):
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass


def read_file(path: Path) -> str:
    """Return the content of a file, "" if it does not exist. Raises CommandError."""
    with _explained(path):
        return path.read_text(errors="replace") if path.exists() else ""


def write_file(path: Path, text: str) -> bool:
    """Write a file if its content differs; return whether it did. Raises CommandError."""
    with _explained(path):
        if path.exists() and path.read_text(errors="replace") == text:
            path.chmod(_PRIVATE)
            return False
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, _PRIVATE)
        with os.fdopen(descriptor, "w") as stream:
            os.fchmod(
                descriptor, _PRIVATE
            )  # before the content: an existing file may be readable by others
            stream.truncate(0)
            stream.write(text)
    return True


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Return the path, what is wrong with it, and what to do."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        problem = f"{where}: {error.strerror or error}"
        advice = "choose an --output-dir that you may write to"
        raise CommandError(f"{problem}; {advice}") from error
