"""hack/test runs its stages in order and sums them up on its last lines."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HACK = Path(__file__).parents[3] / "hack"
STAGES = {
    "check": "echo '2 passed, 1 skipped in 3.00s'",
    "verify-admission": "true",
    "control-planes": "[ $1 = build ]",
    "e2e": "echo '==== 5 passed in 60.00s (0:01:00) ===='; echo '9 cases, 9 equal'",
    "kind-story": "echo '=== 4 passed in 9.00s ==='",
}
NOT_RUN = "hack/kind-story: NOT RUN: no container engine that works here"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(HACK / "lib", tmp_path / "hack" / "lib")
    shutil.copy(HACK / "test", tmp_path / "hack")
    for name, script in STAGES.items():
        stage(tmp_path, name, script)
    return tmp_path


def stage(root: Path, name: str, script: str) -> None:
    path = root / "hack" / name
    path.write_text(f"#!/usr/bin/env bash\n{script}\n")
    path.chmod(0o755)


def run(root: Path) -> tuple[int, list[str]]:
    """Return exit code and lines of output; temporary files go to a directory of the test."""
    done = subprocess.run(  # noqa: S603
        [root / "hack" / "test"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"TMPDIR": str(root)},
    )
    return done.returncode, done.stdout.splitlines()


def test_last_line_sums_up_all_tests(root: Path) -> None:
    code, said = run(root)
    assert code == 0
    assert set(said[-1].split(", ")) == {"11 passed", "1 skipped"}
    assert said[-2] == "9 cases, 9 equal"
    assert not any("NOT RUN" in line for line in said)


def test_story_that_cannot_run_is_no_failure_but_is_said(root: Path) -> None:
    stage(root, "kind-story", f"echo '12 skipped in 0.10s'; echo '{NOT_RUN}' >&2; exit 3")
    code, said = run(root)
    assert code == 0
    assert set(said[-1].split(", ")) == {"7 passed", "13 skipped"}
    assert said[-2] == NOT_RUN


@pytest.mark.parametrize("name", STAGES)
def test_first_stage_that_fails_ends_it(root: Path, name: str) -> None:
    stage(root, name, "exit 1")
    code, said = run(root)
    assert code == 1
    assert "hack/test: FAILED" in said
    begun = [line.rpartition("hack/")[2].split()[0] for line in said if line.startswith("--- ")]
    assert begun == list(STAGES)[: list(STAGES).index(name) + 1]


def test_only_the_story_may_say_that_it_cannot_run(root: Path) -> None:
    stage(root, "e2e", "exit 3")
    assert run(root)[0] == 3
