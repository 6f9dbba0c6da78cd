"""Sample alerts and dashboard: by promtool, and by the /metrics of an agent on control planes."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from control_planes import tools
from e2e.lab import objects
from e2e.lab.agent import ROOT
from e2e.lab.checkpoint import KEPT
from e2e.lab.endpoints import Endpoints
from e2e.lab.lab import FAST, QUICK_LEASE, Lab
from e2e.lab.wait import STARTED_S, within

SAMPLES = ROOT / "manifests" / "samples"
SPEC = yaml.safe_load((SAMPLES / "alerts.yaml").read_text())["spec"]
RULES = [rule for group in SPEC["groups"] for rule in group["rules"]]
PANELS = json.loads((SAMPLES / "dashboard.json").read_text())["panels"]
OF_PROMETHEUS = {"pod"}
"""Labels that a scrape adds."""
SELECTOR = re.compile(r"\b([a-z]+(?:_[a-z]+)+)\b(?:\{(.*?)\})?")
"""A metric, whose name has an underscore as no function's has here, and its matchers."""


ONLY_WHILE_KEYS_WAIT = "virtual_cluster_queue_oldest_seconds"
"""Its labels are compared with the families in tests/unit/telemetry/test_alerts.py."""


@pytest.fixture(scope="module")
def promtool() -> Path:
    return tools.build_missing((tools.PROMETHEUS,))["promtool"]


def test_rules_are_valid_and_fire_when_they_should(promtool: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(SPEC))
    shutil.copy(ROOT / "tests" / "cases" / "alerts" / "alerts.yaml", tmp_path)
    check, test = ("check", "rules", "--lint-fatal", "rules.yaml"), ("test", "rules", "alerts.yaml")
    for command in (check, test):
        done = subprocess.run(
            [promtool, *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_agent_serves_each_metric_and_label_of_alerts_and_dashboard(lab: Lab) -> None:
    endpoints = Endpoints.new()
    group = lab.group("a")
    # GroupTrusted is False, as nodes may set the label that selects the group.
    flags = (*FAST, *QUICK_LEASE, *endpoints.flags(), "--log-format", "json")
    agent = lab.new_agent(group, flags=flags, checkpoint=KEPT).start()
    lab.wait_serving(agent)
    refused = objects.deployment(lab.id, "bad", node_selector={lab.label: "b"})
    lab.wait_applied(lab.create_work(group, "bad", refused), "False")
    used = [*map(_of_rule, RULES), *map(_of_panel, PANELS)]
    assert all(selectors for selectors, _ in used)

    def look() -> None:
        samples = [s for f in endpoints.scrape().families.values() for s in f.samples]
        for selectors, labels in used:
            for name, matchers in selectors:
                if name == ONLY_WHILE_KEYS_WAIT:
                    continue
                there = [s.labels for s in samples if s.name == name and _fits(s.labels, matchers)]
                assert there, f"{name}{{{matchers}}} is not served"
                assert labels <= {*there[0], *OF_PROMETHEUS}, f"{name} has {sorted(there[0])}"

    within(STARTED_S, look)
    messages = [json.loads(line)["msg"] for line in agent.log().splitlines()]
    assert {"Serving", "Not applying all of a Work"} <= set(messages)


Used = tuple[list[tuple[str, str]], set[str]]
"""Metrics with their matchers, and labels that are grouped by or shown."""


def _of_rule(rule: dict[str, str]) -> Used:
    shown = re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))
    return _selectors(rule["expr"]), {*shown, *_grouped(rule["expr"])}


def _of_panel(panel: dict[str, list[dict[str, str]]]) -> Used:
    (target,) = panel["targets"]
    shown = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
    return _selectors(target["expr"]), {*shown, *_grouped(target["expr"])}


def _selectors(expr: str) -> list[tuple[str, str]]:
    return SELECTOR.findall(re.sub(r"\bby \(.*?\)", "", expr))


def _grouped(expr: str) -> list[str]:
    return [name for names in re.findall(r"\bby \((.*?)\)", expr) for name in names.split(", ")]


def _fits(labels: dict[str, str], matchers: str) -> bool:
    pairs = re.findall(r'(\w+)=(~?)"(.*?)"', matchers)
    return all(
        re.fullmatch(value if is_pattern else re.escape(value), labels.get(name, ""))
        for name, is_pattern, value in pairs
    )
