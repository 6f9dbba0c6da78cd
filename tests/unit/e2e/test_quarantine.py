"""Quarantined stories do not fail the suite, are reported by name, and are few."""

import os
import re
from pathlib import Path
from subprocess import run
from sys import executable

import pytest

from e2e.lab import quarantine

ROOT = Path(__file__).parents[3]
CONFTEST = """
from e2e.lab import quarantine

TABLE = {"test_x.py::test_flaky": "a race, since 2026-11-25", "test_x.py::test_case[b]": "slow"}

def pytest_collection_modifyitems(items):
    quarantine.mark(items, TABLE)

def pytest_terminal_summary(terminalreporter):
    for line in quarantine.summary(terminalreporter.stats):
        terminalreporter.write_line(f"> {line}")
"""
TESTS = """
import pytest

def test_flaky():
    assert False

@pytest.mark.parametrize("case", ["a", "b"])
def test_case(case):
    pass

@pytest.mark.xfail(reason="of another kind")
def test_other():
    assert False
"""


def test_quarantined_test_is_reported_and_does_not_fail_the_suite(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "test_x.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\nxfail_strict = true\npythonpath = {ROOT}\n", encoding="utf-8"
    )
    command = [executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = run(  # noqa: S603
        command, cwd=tmp_path, check=False, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout
    assert re.findall("^> (.*)$", done.stdout, re.MULTILINE) == [
        "test_x.py::test_flaky: failed: a race, since 2026-11-25",
        "test_x.py::test_case[b]: passed: slow",
    ]


def test_more_than_the_limit_are_refused() -> None:
    quarantine.check(dict.fromkeys("abc", "flaky"))
    with pytest.raises(pytest.UsageError, match="4 tests are quarantined, at most 3 may be"):
        quarantine.check(dict.fromkeys("abcd", "flaky"))


def test_one_without_a_reason_is_refused() -> None:
    with pytest.raises(pytest.UsageError, match="quarantined without a reason: a"):
        quarantine.check({"a": " "})


def test_each_quarantined_test_exists_and_has_a_reason() -> None:
    quarantine.check(quarantine.QUARANTINED)
    for name in quarantine.QUARANTINED:
        path, _, test = name.partition("::")
        assert f"def {test.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8")
