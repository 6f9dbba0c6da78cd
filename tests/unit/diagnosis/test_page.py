"""The page of faults has each row of the table."""

from pathlib import Path

import pytest

from karmada_vc_agent.diagnosis.faults import FAULTS

PAGE = (Path(__file__).parents[3] / "docs" / "troubleshooting.md").read_text()


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_on_the_page_as_the_command_says_it(name: str) -> None:
    row = FAULTS[name]
    side = row["side"].replace("{whose}", "hub or host")
    assert f"| `{name}` | {side} | {row['says']} | {row['do']} |" in PAGE.splitlines()


def test_page_has_no_fault_that_is_none() -> None:
    names = [line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert names == list(FAULTS)
