"""docs/settings.md is what the settings declare of themselves, docs/commands.md what help says."""

from pathlib import Path

from generate import commands_page
from generate.settings_page import page
from karmada_vc_agent.config.decoding import flags_of, settings_of
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

DOCUMENT = Path(__file__).parents[3] / "docs" / "settings.md"


def rows() -> dict[str, list[str]]:
    """Return setting -> what else stands in its row."""
    lines = (line for line in page().splitlines() if line.startswith("| `"))
    cells = ([cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines)
    return {setting: rest for setting, *rest in cells}


def test_page_is_up_to_date() -> None:
    assert DOCUMENT.read_text() == page(), "run hack/update-settings"


def test_page_of_commands_is_up_to_date() -> None:
    text = commands_page.page()
    assert "\n## join\n" in text
    assert DOCUMENT.with_name("commands.md").read_text() == text, "run hack/update-settings"


def test_every_setting_has_a_row() -> None:
    of_cluster = {f"virtualClusters[].{setting.key}" for setting in settings_of(VirtualCluster)}
    assert {setting.key for setting in settings_of(CONFIG)} | of_cluster <= set(rows())


def test_row_of_a_flag_says_where_it_may_be_set() -> None:
    for setting in flags_of(CONFIG):
        assert rows()[setting.key][:2] == [setting.flag, setting.variable]


def test_row_says_type_default_and_unit() -> None:
    table = rows()
    assert table["clusterLeaseDuration"][2:5] == ["duration, 1s or more", "40s", "s"]
    assert table["kubeAPIQPS"][2:5] == ["number, 0 (no limit) or more", "400", "per second"]
    assert table["logFormat"][2:4] == ["text`, `json", "text"]
    assert table["bounds.bytes"][:3] == ["size, 0 (no bound) or more", "32Mi", "bytes"]
    assert table["infrastructureNamespaces"][:2] == ["list of strings", "[kube-system, kubeedge]"]
    assert table["virtualClusters[].name"][:2] == ["string", "required"]
    assert table["virtualClusters[].quota"][:2] == ["map of quantities", "{}"]
    path = "virtualClusters[].nodeSelector.matchExpressions[].values"
    assert table[path][:2] == ["list of strings", "[]"]


def test_what_is_in_two_settings_is_shown_once() -> None:
    table = rows()
    assert table["virtualClusters[].bounds"][0] == "object, as in `bounds"
    assert "virtualClusters[].bounds.works" not in table
