"""What is run only nightly exists, and so does what holds the same, which is always run."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from e2e.lab.tiers import HELD_BY, is_in_half

ROOT = Path(__file__).parents[3]
NIGHTLY = {f"{file}::{name}" for file, table in HELD_BY.items() for name in table}
HOLDERS = {
    name if "::" in name else f"{file}::{name}"
    for file, table in HELD_BY.items()
    for name in table.values()
}


@cache
def collected() -> set[str]:
    """Return the ids in the files of the table, with and without their rows."""
    files = sorted({f"e2e/{name.partition('::')[0]}" for name in NIGHTLY | HOLDERS})
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", *files]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(  # noqa: S603 - our own words
        words, cwd=ROOT, env=plain, capture_output=True, text=True, check=True
    )
    ids = {line.removeprefix("e2e/") for line in done.stdout.splitlines() if "::" in line}
    return ids | {each.partition("[")[0] for each in ids}


def test_nightly_stories_and_what_holds_the_same_exist() -> None:
    assert not (NIGHTLY | HOLDERS) - collected()


def test_what_holds_the_same_is_not_nightly() -> None:
    whole = {name for name in NIGHTLY if "[" not in name}
    assert not HOLDERS & NIGHTLY
    assert not {name.partition("[")[0] for name in HOLDERS} & whole


def test_each_story_is_of_one_half_and_the_halves_are_alike() -> None:
    halves = [{name for name in collected() if is_in_half(name, half)} for half in (0, 1)]
    assert halves[0] | halves[1] == collected()
    assert not halves[0] & halves[1]
    assert 0.6 < len(halves[0]) / len(halves[1]) < 1.6
