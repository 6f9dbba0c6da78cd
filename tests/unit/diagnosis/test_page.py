"""The page of troubleshooting has each row of both tables, and each seeded fault has its maker."""

from pathlib import Path

import pytest

from e2e.seeded import chain, site
from e2e.seeded.table import ROWS, expression, page
from karmada_vc_agent.diagnosis.faults import FAULTS

PAGE = (Path(__file__).parents[3] / "docs" / "troubleshooting.md").read_text()


def rows(begin: str) -> list[str]:
    """Return the rows below the head of a table that begins so."""
    _, _, below = PAGE.partition(f"| {begin} |")
    return below.partition("\n\n")[0].splitlines()[2:]


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_on_the_page_as_the_command_says_it(name: str) -> None:
    row = FAULTS[name]
    side = row["side"].replace("{whose}", "hub or host")
    assert f"| `{name}` | {side} | {row['says']} | {row['do']} |" in rows("fault")


def test_page_has_no_fault_that_is_none() -> None:
    assert [line.split("`")[1] for line in rows("fault")] == list(FAULTS)


def test_symptoms_of_the_page_are_those_that_stories_make() -> None:
    assert rows("symptom") == page()


@pytest.mark.parametrize("name", ROWS)
def test_each_symptom_has_what_makes_it(name: str) -> None:
    assert callable(getattr(chain if ROWS[name].command == "explain" else site, name))


def test_values_of_a_text_are_no_expressions() -> None:
    given = expression('no Cluster "{cluster}" ({why})', {"cluster": "a.b"})
    assert given == r'no\ Cluster\ "a\.b"\ \(.*\)'
