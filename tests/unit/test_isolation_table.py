"""The table of attempted escapes in the docs is the one that the e2e suite tries."""

import re
from pathlib import Path

from e2e.escapes.table import ATTEMPTS

DOCUMENT = Path(__file__).parents[2] / "docs" / "isolation.md"
ROW = re.compile(r"^\| ((?:Work|Tenant|Host): .+?) \| (.+?) \|$", re.MULTILINE)


def test_attempts_and_outcomes_are_those_of_the_docs() -> None:
    documented = ROW.findall(DOCUMENT.read_text())
    assert documented == [(attempt.title, attempt.outcome) for attempt in ATTEMPTS]


def test_no_attempt_stands_there_twice() -> None:
    titles = [attempt.title for attempt in ATTEMPTS]
    assert len(titles) == len(set(titles))
