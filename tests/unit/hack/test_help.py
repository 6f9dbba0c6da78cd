"""Every command of hack/ tells what it does by --help, and does nothing else then."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COMMANDS = sorted(path.name for path in (ROOT / "hack").iterdir() if path.is_file())
TAKE_NOTHING = (
    "test",
    "update-conditions",
    "update-kinds",
    "update-metrics",
    "update-settings",
)
LINKED = (
    "bench",
    "constraints.txt",
    "docs",
    "e2e",
    "hack",
    "karmada_vc_agent",
    "manifests",
    "pyproject.toml",
    "tests",
)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a clone whose .venv is whole: its Python is the one that runs the tests."""
    for name in LINKED:
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    pins = b"".join((ROOT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt"))
    (tmp_path / ".venv" / ".stamp").write_text(hashlib.sha256(pins).hexdigest()[:32] + "\n")
    return tmp_path


def run(clone: Path, name: str, argument: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [clone / "hack" / name, argument],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_how_to_use_a_command(clone: Path, name: str) -> None:
    done = run(clone, name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    first, _, rest = done.stdout.partition("\n")
    assert first.lower().startswith(f"usage: hack/{name}")
    assert rest.strip(), "says what it does"


@pytest.mark.parametrize("name", TAKE_NOTHING)
def test_argument_that_means_nothing_is_refused(clone: Path, name: str) -> None:
    done = run(clone, name, "--typo")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Usage: hack/{name}\n")


def test_all_of_them_are_commands() -> None:
    assert [name for name in COMMANDS if not os.access(ROOT / "hack" / name, os.X_OK)] == []
