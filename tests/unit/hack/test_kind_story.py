"""hack/kind-story removes the clusters of runs that were killed, and no others."""

import os
import shutil
import subprocess
from pathlib import Path

HACK = Path(__file__).parents[3] / "hack"
KIND_UP = "[ $1 = --can-run ]"
"""Can run, but makes no clusters: the story ends there."""


def make_runs(root: Path) -> dict[str, Path]:
    """Make directories of runs by what became of them, and a hack/ that makes no clusters."""
    shutil.copytree(HACK / "lib", root / "hack" / "lib")
    shutil.copy(HACK / "kind-story", root / "hack")
    (root / ".venv").symlink_to(root)
    for name, script in {"kind-up": KIND_UP, "kind-down": 'echo "down $1"'}.items():
        stub = root / "hack" / name
        stub.write_text(f"#!/usr/bin/env bash\n{script}\n")
        stub.chmod(0o755)
    ended = subprocess.Popen(["true"])  # noqa: S607
    ended.wait()
    pids = {"killed": f"{ended.pid}\n", "running": f"{os.getpid()}\n", "beginning": ""}
    runs = {name: root / f"karmada-vc-kind.{name}" for name in (*pids, "ended")}
    for name, directory in runs.items():
        (directory / "kind").mkdir(parents=True)
        if name in pids:
            (directory / "pid").write_text(pids[name])
    return runs


def run(root: Path, **environment: str) -> list[str]:
    """Return the directories whose clusters were removed."""
    others = {key: text for key, text in os.environ.items() if not key.startswith("KIND_")}
    done = subprocess.run(  # noqa: S603
        [root / "hack" / "kind-story"],
        capture_output=True,
        text=True,
        check=False,
        env=others | {"TMPDIR": str(root)} | environment,
    )
    assert done.returncode != 0
    return [line.removeprefix("down ") for line in done.stdout.splitlines() if "down " in line]


def test_clusters_of_a_run_that_was_killed_are_removed(tmp_path: Path) -> None:
    runs = make_runs(tmp_path)
    first, _of_its_own = run(tmp_path)
    assert first == str(runs["killed"] / "kind")
    owners = {path.parent for path in tmp_path.glob("karmada-vc-kind.*/pid")}
    assert owners == {runs["running"], runs["beginning"]}


def test_clusters_that_are_to_be_used_are_kept(tmp_path: Path) -> None:
    runs = make_runs(tmp_path)
    assert run(tmp_path, KIND_DIRECTORY=str(runs["killed"] / "kind")) == []
    assert (runs["killed"] / "pid").exists()


def test_run_that_cannot_remove_its_clusters_leaves_them_to_the_next(tmp_path: Path) -> None:
    runs = make_runs(tmp_path)
    (tmp_path / "hack" / "kind-down").write_text("#!/usr/bin/env bash\nexit 1\n")
    run(tmp_path)
    owners = {path.parent for path in tmp_path.glob("karmada-vc-kind.*/pid")}
    assert runs["killed"] in owners
    assert len(owners - set(runs.values())) == 1, "its own"
