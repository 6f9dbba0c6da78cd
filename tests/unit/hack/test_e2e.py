"""hack/e2e runs its tiers in order, and ends where a smoke story fails."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HACK = Path(__file__).parents[3] / "hack"
PYTEST = """#!/bin/sh
case "$*" in
  *--collect-only*) exit 0 ;;
  *"-m smoke"*) echo smoke; exit "${SMOKE:-0}" ;;
  *"-m not smoke and not nightly --share ${SHARE:-100} "*) echo others; exit "${OTHERS:-0}" ;;
  *"-m nightly"*) echo nightly ;;
  *"-m not nightly"*) echo chosen ;;
  *e2e/differential*) echo comparison ;;
  *) echo "unknown: $*" ;;
esac
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(HACK / "lib", tmp_path / "hack" / "lib")
    shutil.copy(HACK / "e2e", tmp_path / "hack")
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "e2e" / "lab").mkdir(parents=True)
    (tmp_path / "e2e" / "test_x.py").write_text("")
    shutil.copy(HACK.parent / "e2e" / "lab" / "tiers.py", tmp_path / "e2e" / "lab")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    python = f'#!/bin/sh\nexec {sys.executable} "$@"\n'
    for name, content in {"pytest": PYTEST, "python": python}.items():
        (programs / name).write_text(content)
        (programs / name).chmod(0o755)
    (tmp_path / ".venv" / ".stamp").write_text(hashlib.sha256(b"").hexdigest()[:32])
    return tmp_path


def run(root: Path, *arguments: str, **environment: str) -> tuple[int, list[str]]:
    done = subprocess.run(  # noqa: S603
        [root / "hack" / "e2e", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ
        | {"HUB_KUBECONFIG": "x", "HOST_KUBECONFIG": "x", "TMPDIR": str(root)}
        | environment,
    )
    return done.returncode, done.stdout.split()


@pytest.mark.parametrize(
    ("arguments", "ran"),
    [
        ((), ["smoke", "others", "comparison"]),
        (("-k", "drift"), ["smoke", "others", "comparison"]),
        (("smoke",), ["smoke"]),
        (("nightly",), ["nightly"]),
        (("nightly", "e2e/test_x.py"), ["nightly"]),
        (("e2e/test_x.py::test_one",), ["chosen"]),
        (("e2e/differential",), ["comparison"]),
    ],
)
def test_tier_runs_its_tests(root: Path, arguments: tuple[str, ...], ran: list[str]) -> None:
    assert run(root, *arguments) == (0, ran)


def test_nothing_else_runs_after_a_smoke_story_that_fails(root: Path) -> None:
    assert run(root, SMOKE="1") == (1, ["smoke"])


def test_slow_machine_runs_a_share_of_the_other_stories(root: Path) -> None:
    code, said = run(root, SHARE="10", E2E_LIMIT_S="1")
    assert (code, said[-2:]) == (0, ["others", "comparison"])
    assert "10 of 100 are run" in " ".join(said)


def test_comparison_runs_after_other_stories_that_fail(root: Path) -> None:
    assert run(root, OTHERS="1") == (1, ["smoke", "others", "comparison"])


def test_tier_in_which_nothing_is_chosen_is_no_failure(root: Path) -> None:
    assert run(root, "-k", "absent", SMOKE="5", OTHERS="5") == (
        0,
        ["smoke", "others", "comparison"],
    )
