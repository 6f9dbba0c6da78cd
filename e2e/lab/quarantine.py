"""Stories that may fail until they are mended, by name, each with its reason."""

from collections.abc import Iterable, Mapping

import pytest

LIMIT = 3
"""With more of them the suite fails: mend one first."""
QUARANTINED: dict[str, str] = {}
"""Id of a test, with or without its case -> why it fails at times, and since when."""
_MARK = "quarantined: "


def check(table: Mapping[str, str]) -> None:
    """Raise UsageError if the table has more than LIMIT rows, or one without a reason."""
    if len(table) > LIMIT:
        raise pytest.UsageError(f"{len(table)} tests are quarantined, at most {LIMIT} may be")
    if without := [name for name, reason in table.items() if not reason.strip()]:
        raise pytest.UsageError(f"quarantined without a reason: {', '.join(without)}")


def mark(items: Iterable[pytest.Item], table: Mapping[str, str]) -> None:
    """Let quarantined tests run without an effect on the outcome of the suite."""
    for item in items:
        reason = table.get(item.nodeid) or table.get(item.nodeid.partition("[")[0])
        if reason:
            item.add_marker(pytest.mark.xfail(reason=f"{_MARK}{reason}", strict=False))


def summary(outcomes: Mapping[str, Iterable[pytest.TestReport]]) -> list[str]:
    """Return a line for each quarantined test that was run: its name, outcome and reason.

    outcomes: what pytest calls an outcome -> the reports that ended so.
    """
    return [
        f"{report.nodeid}: {word}: {reason.removeprefix(_MARK)}"
        for outcome, word in (("xfailed", "failed"), ("xpassed", "passed"))
        for report in outcomes.get(outcome, ())
        if (reason := getattr(report, "wasxfail", "")).startswith(_MARK)
    ]
