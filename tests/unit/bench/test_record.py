"""Repetitions become medians, spreads and ratios; a page keeps one table of each bench."""

import json
from pathlib import Path

import pytest

from bench import report
from bench.record import BARE, THEIRS, Goal, Record, publish


@pytest.fixture
def record() -> Record:
    found = Record("drain", "Works", {"wall-clock, s": Goal(1.3, BARE), "CPU, ms": Goal(2, at=10)})
    found.machine = {"cores": "2"}
    for size in (10, 100):
        for repetition in (1, 3, 2):
            found.add("wall-clock, s", repetition * size, at=size)
            found.add("wall-clock, s", 2 * size, BARE, at=size)
            found.add("CPU, ms", 2.5, at=size)
    found.add("wall-clock, s", 40, THEIRS, at=10)
    return found


def test_line_has_medians_spread_ratios_and_goal(record: Record) -> None:
    lines = record.table().splitlines()
    assert lines[0] == (
        "| what | ours | karmada-agent | bare client | ratio to karmada-agent"
        " | ratio to bare client | goal | met |"
    )
    assert lines[2] == (
        "| wall-clock, s, 10 Works | 20.00 (10.00 to 30.00) | 40.00 | 20.00 (20.00 to 20.00)"
        " | 0.50 | 1.00 | <= 1.3 of bare client | yes |"
    )


def test_goal_may_be_of_one_size_only(record: Record) -> None:
    lines = [line for line in record.table().splitlines() if line.startswith("| CPU")]
    assert [line.endswith("| <= 2 | no |") for line in lines] == [True, False]


def test_percentiles_are_lines_and_samples_are_kept(record: Record) -> None:
    record.add_samples("single, ms", [float(n) for n in range(1, 101)])
    found = {each.what: each.values["ours"] for each in record.figures}
    assert [found[f"single, ms, p{share}"] for share in (50, 95, 99)] == [[50.0], [95.0], [99.0]]
    assert len(record.samples["single, ms, ours"][0]) == 100


def test_json_holds_all(record: Record, tmp_path: Path) -> None:
    report.write(record, tmp_path / "results.json")
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["figures"][0]["values"]["ours"] == [10, 30, 20]
    assert written["goals"]["wall-clock, s"] == {"limit": 1.3, "of": "bare client", "at": None}


def test_page_has_the_newest_table_once(record: Record) -> None:
    once = publish("# Performance\n", record, "a.json", is_drawn=True)
    twice = publish(once + "\nafterwards\n", record, "b.json", is_drawn=False)
    assert "a.json" in once
    assert "![curves](performance/drain.svg)" in once
    assert "a.json" not in twice
    assert twice.count(record.table()) == 1
    assert twice.startswith("# Performance\n")
    assert twice.endswith("\nafterwards\n")


def test_without_sizes_there_are_no_curves(tmp_path: Path) -> None:
    found = Record("fair")
    found.add("latency", 1.0)
    assert not found.draw(tmp_path / "fair.svg")
