"""Sample alerts and dashboard ask for metrics and labels that exist; the runbook has each alert."""

import json
import re
from pathlib import Path

import pytest
import yaml

from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.telemetry.metrics import OF_CORE, declared_families

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "manifests" / "samples"
ASKED = {
    name: family
    for path in filter(None, (OF_CORE, *(each.metrics for each in FEATURES)))
    for families in declared_families(path).values()
    for name, family in families.items()
}
(GROUP,) = yaml.safe_load((SAMPLES / "alerts.yaml").read_text())["spec"]["groups"]
PANELS = json.loads((SAMPLES / "dashboard.json").read_text())["panels"]
LABELS_OF_SCRAPES = {"pod"}


def assert_exists(expr: str, shown: list[str]) -> None:
    (family,) = [name for name in ASKED if re.search(rf"\b{name}\b", expr)]
    matched = re.findall(r"(\w+)=~?\"", expr)
    grouped = ", ".join(re.findall(r"by \(([\w, ]+)\)", expr)).split(", ")
    assert {*matched, *filter(None, grouped), *shown} <= {*ASKED[family].labels, *LABELS_OF_SCRAPES}


@pytest.mark.parametrize("rule", GROUP["rules"], ids=lambda rule: str(rule["alert"]))
def test_alert_rests_on_a_metric_and_its_labels(rule: dict[str, str]) -> None:
    assert_exists(rule["expr"], re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
def test_panel_rests_on_a_metric_and_its_labels(panel: dict[str, list[dict[str, str]]]) -> None:
    (target,) = panel["targets"]
    assert_exists(target["expr"], re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))


def test_runbook_has_each_alert() -> None:
    sections = re.findall(r"^## (\w+)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE)
    assert sections == [rule["alert"] for rule in GROUP["rules"]]
    for rule in GROUP["rules"]:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"


def test_total_loss_is_an_alert() -> None:
    assert any("absent(" in rule["expr"] for rule in GROUP["rules"])
