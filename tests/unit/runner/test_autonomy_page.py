"""docs/autonomy.md says what each reason of CheckpointKept means."""

import re
from pathlib import Path

from karmada_vc_agent.features.checkpoint.entries import Reason

PAGE = Path(__file__).parents[3] / "docs" / "autonomy.md"
NOT_WRITTEN = {"Kept", "NoRights", "NotWritten", "TooLarge"}


def test_page_has_each_reason() -> None:
    section = PAGE.read_text().partition("\n## CheckpointKept\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(NOT_WRITTEN | set(Reason))
