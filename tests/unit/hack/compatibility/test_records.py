"""What a measured pair is recorded as, and the page made of records."""

from pathlib import Path

from compatibility import measure, page

REPORT = """<testsuites><testsuite>
<testcase classname="e2e.test_a" name="test_works"/>
<testcase classname="e2e.test_a" name="test_fails"><failure message="no"/></testcase>
<testcase classname="e2e.test_a" name="test_breaks"><error message="no"/></testcase>
<testcase classname="e2e.test_a" name="test_is_left_out"><skipped message="old"/></testcase>
</testsuite></testsuites>"""
RECORD = {
    "host": "v1.32.13",
    "datastore": "kine",
    "hub": "v1.34.4",
    "karmada": "v1.17.1",
    "date": "2026-11-26",
    "commit": "abc",
    "stages": {"smoke": {"passed": 51, "skipped": 1, "failures": ["e2e.test_a::test_fails"]}},
}


def test_report_is_counted_and_failures_have_names(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)

    result = measure.read(report)

    assert (result.passed, result.skipped) == (1, 1)
    assert result.failures == ["e2e.test_a::test_fails", "e2e.test_a::test_breaks"]


def test_stage_without_a_report_has_failed(tmp_path: Path) -> None:
    assert measure.read(tmp_path / "none.xml").failures


def test_page_has_a_row_with_what_passed_failed_and_was_not_run() -> None:
    text = page.page({"a.json": RECORD}, "notes")

    row = "| v1.32.13 on kine | v1.17.1 | v1.34.4 | 51 passed, **1 failed**, 1 skipped | not run |"
    assert row in text
    assert text.endswith("notes")


def test_page_is_that_of_the_records() -> None:
    assert page.PAGE.read_text() == page.page(page.records(), page.NOTES.read_text())
