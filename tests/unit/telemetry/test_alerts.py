"""The sample alerts ask for metrics and labels that exist."""

import re
from pathlib import Path

import pytest
import yaml

from karmada_vc_agent.feature_list import FEATURES
from karmada_vc_agent.telemetry.metrics import Metrics

SAMPLE = Path(__file__).parents[3] / "manifests" / "samples" / "alerts.yaml"
ASKED = Metrics(each.metrics for each in FEATURES).sampled
(GROUP,) = yaml.safe_load(SAMPLE.read_text())["spec"]["groups"]


@pytest.mark.parametrize("rule", GROUP["rules"], ids=lambda rule: str(rule["alert"]))
def test_alert_rests_on_a_metric_and_its_labels(rule: dict[str, str]) -> None:
    (family,) = [name for name in ASKED if re.search(rf"\b{name}\b", rule["expr"])]
    matched = re.findall(r"(\w+)=\"", rule["expr"]) + re.findall(r"by \((\w+)\)", rule["expr"])
    shown = re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))
    assert {*matched, *shown} <= set(ASKED[family].labels)
