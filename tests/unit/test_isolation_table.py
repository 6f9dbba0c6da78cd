"""The table of attempted escapes in the docs is the one that the e2e suite tries."""

import re
from pathlib import Path

from e2e.escapes.table import ATTEMPTS, BY_PROFILE
from karmada_vc_agent.model.virtual_cluster import GUARDS_IN_BOTH, Guard

DOCUMENT = Path(__file__).parents[2] / "docs" / "isolation.md"
ROW = re.compile(r"^\| ((?:Work|Tenant|Host|Gateway): [^|]+) \| ([^|]+) \|$", re.MULTILINE)
BY_PROFILE_ROW = re.compile(
    r"^\| ((?:Work|Tenant|Host|Gateway): [^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE
)
GUARD_ROW = re.compile(r"^\| `(\w+)`[^|]* \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def test_attempts_and_outcomes_are_those_of_the_docs() -> None:
    documented = ROW.findall(DOCUMENT.read_text())
    assert documented == [(attempt.title, attempt.outcome) for attempt in ATTEMPTS]


def test_outcomes_by_profile_are_those_of_the_docs() -> None:
    documented = BY_PROFILE_ROW.findall(DOCUMENT.read_text())
    assert documented == [
        (attempt.title, attempt.outcome, attempt.strict or "the same") for attempt in BY_PROFILE
    ]


def test_each_guard_is_in_the_docs_as_it_holds() -> None:
    found = GUARD_ROW.findall(DOCUMENT.read_text())
    assert {name for name, _, _ in found} == set(Guard)
    for name, shared, strict in found:
        assert (shared == "refused") == (name in GUARDS_IN_BOTH), name
        assert strict == "refused", name


def test_no_attempt_is_listed_twice() -> None:
    titles = [attempt.title for attempt in (*ATTEMPTS, *BY_PROFILE)]
    assert len(titles) == len(set(titles))
