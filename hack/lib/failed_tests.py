"""Print the ids of the tests that failed, one a line, from a JUnit report of pytest.

Usage: failed_tests.py REPORT
"""

import sys
from pathlib import Path
from xml.etree import ElementTree as ET


def failed_tests(report: str) -> list[str]:
    """Return ids as pytest takes them (`e2e/test_x.py::test_y[case]`), in order, each once.

    report: XML of `pytest --junit-xml`. A test fails by itself or in its set-up or teardown.
    """
    cases = ET.fromstring(report).iter("testcase")  # noqa: S314 - our own file
    failed = (
        f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    )
    return list(dict.fromkeys(failed))


if __name__ == "__main__":
    for test in failed_tests(Path(sys.argv[1]).read_text(encoding="utf-8")):
        print(test)
