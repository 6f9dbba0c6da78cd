"""docs/flags.md names every setting that only the file has."""

import re
from pathlib import Path

from karmada_vc_agent.config.declared import settings_of
from karmada_vc_agent.config.settings import SETTINGS
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

DOCUMENT = Path(__file__).parents[3] / "docs" / "flags.md"
ROW = re.compile(r"^\| `([a-z]\w*)` \|", re.MULTILINE)


def documented(heading: str) -> list[str]:
    section = DOCUMENT.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return ROW.findall(section)


def test_settings_of_the_agent_that_are_no_flags_are_documented() -> None:
    names = {setting.key for setting in SETTINGS if not setting.is_flag}
    assert set(documented("Only in the file")) == names


def test_settings_of_a_virtual_cluster_are_documented() -> None:
    names = [setting.key for setting in settings_of(VirtualCluster)]
    assert sorted(documented("A virtual cluster")) == sorted(names)
