"""Which stories are run once more: read from pytest's own report."""

import sys
from pathlib import Path
from subprocess import run

from lib.failed_tests import failed_tests

TESTS = """
import pytest

@pytest.mark.parametrize("case", ["a b", "c"])
def test_case(case):
    assert case == "c"

@pytest.fixture
def broken():
    yield
    raise RuntimeError

def test_teardown(broken):
    pass
"""


def test_failed_tests_are_named_as_pytest_takes_them(tmp_path: Path) -> None:
    (tmp_path / "e2e").mkdir()
    (tmp_path / "e2e" / "test_x.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    run([*command, "--junit-xml", str(report), "e2e"], cwd=tmp_path, check=False)  # noqa: S603

    named = failed_tests(report.read_text(encoding="utf-8"))

    assert named == ["e2e/test_x.py::test_case[a b]", "e2e/test_x.py::test_teardown"]


def test_report_without_failures_names_none() -> None:
    assert (
        failed_tests('<testsuites><testsuite><testcase name="t"/></testsuite></testsuites>') == []
    )
