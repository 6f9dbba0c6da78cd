"""hack/lib/venv.sh takes only a whole .venv for a good one."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

VENV_SH = Path(__file__).parents[3] / "hack" / "lib" / "venv.sh"
PIP = """#!/bin/sh
echo "pip $*" >>"$LOG"
case "$*" in *"$FAILS"*) exit 1 ;; *"$KILLED_BY"*) kill -9 $PPID ;; esac
"""
PYTHON = """#!/bin/sh
[ "$1" = -m ] || exit 0
shift
echo "$*" >>"$LOG"
mkdir -p "$ROOT/.venv/bin"
cp "$ROOT/pip" "$ROOT/.venv/bin"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "hack" / "lib").mkdir(parents=True)
    shutil.copy(VENV_SH, tmp_path / "hack" / "lib")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "constraints.txt").write_text("one")
    for name, content in (("pip", PIP), ("python", PYTHON)):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def ensure(
    root: Path, fails: str = "nothing fails", killed_by: str = "nothing kills"
) -> tuple[bool, list[str]]:
    """Return whether it went well, and what was called."""
    log = root / "log"
    log.write_text("")
    names = {"ROOT": str(root), "LOG": str(log), "FAILS": fails, "KILLED_BY": killed_by}
    names["PYTHON"] = str(root / "python")
    command = ["bash", "-c", f". {root}/hack/lib/venv.sh; ensure_venv"]
    done = subprocess.run(  # noqa: S603
        command, env=os.environ | names, check=False, capture_output=True
    )
    return done.returncode == 0, log.read_text().splitlines()


def test_is_made_once_with_hashes(root: Path) -> None:
    good, calls = ensure(root)
    assert good
    assert [call for call in calls if "--require-hashes" in call and "constraints.txt" in call]
    (project,) = [call for call in calls if "--editable" in call]
    for flag in ("--no-deps", "--no-build-isolation", "--no-index"):
        assert flag in project
    assert ensure(root) == (True, [])


@pytest.mark.parametrize("fails", ["--require-hashes", "--editable", " check"])
def test_what_failed_is_made_again_from_nothing(root: Path, fails: str) -> None:
    assert not ensure(root, fails)[0]
    good, calls = ensure(root)
    assert good
    assert calls[0].startswith("venv --clear ")


@pytest.mark.parametrize("killed_by", ["--require-hashes", "--editable", " check"])
def test_what_was_interrupted_is_made_again_from_nothing(root: Path, killed_by: str) -> None:
    assert not ensure(root, killed_by=killed_by)[0]
    good, calls = ensure(root)
    assert good
    assert calls[0].startswith("venv --clear ")


def test_change_that_failed_does_not_leave_the_old_stamp(root: Path) -> None:
    assert ensure(root)[0]
    (root / "constraints.txt").write_text("two")
    assert not ensure(root, "--require-hashes")[0]
    (root / "constraints.txt").write_text("one")
    good, calls = ensure(root)
    assert good
    assert calls[0].startswith("venv --clear ")
