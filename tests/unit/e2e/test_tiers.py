"""The smoke tier stays small; what is nightly exists, as does what holds the same."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from e2e.lab.tiers import HELD_BY, affordable, is_in_share

ROOT = Path(__file__).parents[3]
SMOKE = re.compile(r"^@pytest\.mark\.smoke\n(?:@.*\n)*def (test_\w+)", re.MULTILINE)
NIGHTLY = {f"{file}::{name}" for file, table in HELD_BY.items() for name in table}
HOLDERS = {
    name if "::" in name else f"{file}::{name}"
    for file, table in HELD_BY.items()
    for name in table.values()
}


def test_smoke_tier_has_few_stories() -> None:
    paths = (ROOT / "e2e").glob("test_*.py")
    stories = [story for path in paths for story in SMOKE.findall(path.read_text("utf-8"))]
    assert 40 <= len(stories) <= 55


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


def test_shares_are_as_large_as_they_say_and_join_without_a_gap() -> None:
    ids = collected()
    chosen = [{each for each in ids if is_in_share(each, 30, begin)} for begin in (10, 40, 70, 0)]
    assert 0.2 < len(chosen[0]) / len(ids) < 0.4
    assert not chosen[0] & chosen[1]
    tenth = {each for each in ids if is_in_share(each, 10, 0)}
    assert set.union(*chosen[:3], tenth) == ids
    assert all(is_in_share(each, 100, 93) for each in ids)


@pytest.mark.parametrize(("smoke_s", "percent"), [(1, 100), (250, 100), (430, 56), (5000, 10)])
def test_a_slow_machine_affords_fewer_stories(smoke_s: int, percent: int) -> None:
    assert affordable(smoke_s, 4800) == percent
