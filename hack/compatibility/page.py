"""Write docs/compatibility.md from the records."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from compatibility.measure import RESULTS, STAGES
from control_planes.directory import ETCD

PAGE = RESULTS.with_suffix(".md")
NOTES = RESULTS / "notes.md"
"""What the figures do not say; written by hand, the end of the page."""
_HEAD = """\
# Compatibility

`hack/compat` measures each row on real control planes of these versions and writes this page;
the date links to the record. A cell has the number of tests that passed, and of those that failed;
*skipped* are tests of what the version does not have.

| Host | Karmada | Hub | {stages} | Measured |
|---|---|---|{rules}|---|
"""


def page(records: Mapping[str, Mapping[str, Any]], notes: str) -> str:
    """Return the page; records: file name -> record."""
    head = _HEAD.format(stages=" | ".join(STAGES), rules="---|" * (len(STAGES) - 1) + "---")
    rows = sorted(records.items(), key=lambda item: _order(item[1]))
    return head + "".join(_row(name, record) for name, record in rows) + "\n" + notes


def _row(name: str, record: Mapping[str, Any]) -> str:
    store = "" if record["datastore"] == ETCD else f" on {record['datastore']}"
    cells = [record["host"] + store, record["karmada"], record["hub"]]
    cells += [_cell(record["stages"].get(stage)) for stage in STAGES]
    cells.append(f"[{record['date']}](compatibility/{name}) at {record['commit']}")
    return f"| {' | '.join(cells)} |\n"


def _cell(stage: Mapping[str, Any] | None) -> str:
    if stage is None:
        return "not run"
    parts = [f"{stage['passed']} passed"]
    if stage["failures"]:
        parts.append(f"**{len(stage['failures'])} failed**")
    if stage["skipped"]:
        parts.append(f"{stage['skipped']} skipped")
    return ", ".join(parts)


def _order(record: Mapping[str, Any]) -> list[list[int]]:
    return [_numbers(record[part]) for part in ("karmada", "host", "hub")]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.removeprefix("v").split(".")]


def records(paths: Iterable[Path] = ()) -> dict[str, dict[str, Any]]:
    """Read the records, by file name."""
    found = paths or sorted(RESULTS.glob("*.json"))
    return {path.name: json.loads(path.read_text()) for path in found}


def write() -> None:
    """Write the page from all records there are."""
    PAGE.write_text(page(records(), NOTES.read_text()))
