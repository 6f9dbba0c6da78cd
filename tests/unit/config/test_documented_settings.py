"""docs/flags.md names every setting that only the file has."""

import re
from pathlib import Path

import msgspec

from karmada_vc_agent.config import file
from karmada_vc_agent.config.settings import FLAGS, camel

DOCUMENT = Path(__file__).parents[3] / "docs" / "flags.md"
ROW = re.compile(r"^\| `([a-z]\w*)` \|", re.MULTILINE)


def documented(heading: str) -> list[str]:
    section = DOCUMENT.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return ROW.findall(section)


def test_settings_of_the_agent_that_are_no_flags_are_documented() -> None:
    flags = {camel(setting.name) for setting in FLAGS}
    names = {field.encode_name for field in msgspec.structs.fields(file._FileSchema)}
    assert set(documented("Only in the file")) == names - flags - {"apiVersion", "kind"}


def test_settings_of_a_virtual_cluster_are_documented() -> None:
    names = [field.encode_name for field in msgspec.structs.fields(file._VirtualClusterEntry)]
    assert sorted(documented("A virtual cluster")) == sorted(names)
