"""hack/house measures the source, and its bounds are only ever lowered."""

import json
import re

import pytest

from lib.house import ADDED, BOUNDS, PACKAGE, ROOT, TRIP, exceeded, lowered, measure
from tests.fakes.trip import files_of_a_trip

STACK = ROOT / "docs" / "adr" / "0001-stack.md"
ONE = '''"""What is found; a word like founded or foundling is another one."""


class Shown:
    def tell(self) -> None:
        """Be one of three lines."""
        return


class _Hidden:
    pass
'''
OTHER = "class Shown:\n    found_at = FOUND = 1\n\n\ndef short() -> int: return 1\n"


def test_source_is_measured() -> None:
    measured = measure({"a.py": ONE, "b.py": OTHER}, lambda: ["a.py", "a.py", "b.py"])
    assert {name: number for name, number in measured.items() if number} == {
        "source lines": 16,
        "source files": 2,
        "public classes": 2,
        "class names defined more than once": 1,
        "lines of the longest function": 3,
        "lines of the median function": 2,
        TRIP: 2,
        'words "told/tell/tells"': 1,
        'words "found"': 3,
    }


def test_lines_of_an_added_folder_are_counted_in_its_own_row() -> None:
    measured = measure({f"/x/{PACKAGE}/{ADDED[0]}a.py": ONE, f"/x/{PACKAGE}/b.py": OTHER}, list)
    assert measured["source lines"] == OTHER.count("\n")
    assert measured[f"lines of {ADDED[0]}"] == ONE.count("\n")
    assert measured["source files"] == 1
    assert measured["public classes"] == 1


def test_what_exceeds_its_bound_or_has_none_is_named() -> None:
    measured = {"equal": 3, "less": 2, "more": 5, "new": 0}
    assert exceeded(measured, {"equal": 3, "less": 3, "more": 4}) == [
        "more: 5 is above the bound of 4",
        "new: 0 has no bound",
    ]


def test_bounds_are_lowered_and_never_raised() -> None:
    measured = {"equal": 3, "less": 2, "more": 5, "new": 7}
    bounds = {"equal": 3, "less": 3, "more": 4, "not measured any more": 1}
    assert lowered(measured, bounds) == {"equal": 3, "less": 2, "more": 4, "new": 7}


def test_everything_measured_has_a_bound() -> None:
    bounds = json.loads(BOUNDS.read_text(encoding="utf-8"))
    assert measure({}, list).keys() == bounds.keys()


@pytest.mark.parametrize(
    ("claim", "files"),
    [
        (r"has ([\d,]+) lines of Python", ["**/*.py"]),
        (r"([\d,]+) of them in `kube/`", ["kube/*.py"]),
        (
            r"typed models; ([\d,]+) lines",
            [f"kube/{name}.py" for name in ("reflector", "informers", "store", "controller")]
            + ["kube/leader_election.py"],
        ),
        (r"account are ([\d,]+) lines", ["kube/kubeconfig.py", "kube/transport.py"]),
    ],
)
def test_lines_that_are_ours_by_hand_are_as_many_as_the_decision_says(
    claim: str, files: list[str]
) -> None:
    (said,) = re.findall(claim, STACK.read_text())
    paths = [path for pattern in files for path in (ROOT / PACKAGE).glob(pattern)]
    lines = sum(path.read_text().count("\n") for path in paths)
    assert abs(int(said.replace(",", "")) - lines) <= max(50, lines // 50), lines


def test_trip_of_a_work_runs_from_its_watch_to_its_status() -> None:
    files = files_of_a_trip()
    steps = ("kube/reflector.py", "translation/translate.py", "kube/client.py")
    assert set(steps) <= set(files)
    assert len(files) <= json.loads(BOUNDS.read_text(encoding="utf-8"))[TRIP]
