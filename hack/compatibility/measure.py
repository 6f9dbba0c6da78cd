"""Measure one pair: start it, run the stages against it, record what passed."""

import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET  # of pytest, on this machine
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from compatibility.pairs import Pair
from control_planes import tools

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "compatibility"
_AT_ONCE = ("--numprocesses", "3", "--dist", "worksteal")
STAGES: dict[str, tuple[str, ...]] = {
    "smoke": (*_AT_ONCE, "-m", "smoke", "e2e", "--ignore=e2e/differential", "--ignore=e2e/kind"),
    "escapes": (*_AT_ONCE, "e2e/test_escapes.py", "e2e/test_escapes_strict.py"),
    "gateway": (
        *_AT_ONCE,
        "e2e/test_gateway_conformance.py",
        "e2e/test_gateway_namespaces_conformance.py",
    ),
    "placement": (*_AT_ONCE, "e2e/test_placement_enforced.py"),
    "comparison": ("e2e/differential",),
}
"""Stage -> arguments of pytest. `join`, `leave` and the demo's steps are stories of smoke."""


@dataclass(slots=True)
class StageResult:
    """What one stage gave; failures: names of tests."""

    passed: int = 0
    skipped: int = 0
    seconds: int = 0
    failures: list[str] = field(default_factory=list)


def measure(pair: Pair, stages: list[str]) -> dict[str, Any]:
    """Run stages against a pair; return and write the record, which keeps those not run now."""
    path = RESULTS / pair.file_name
    record = json.loads(path.read_text()) if path.exists() else {"stages": {}}
    record |= {
        "host": _full(tools.KUBERNETES, pair.host),
        "datastore": pair.datastore,
        "hub": _full(tools.KUBERNETES, pair.hub),
        "karmada": _full(tools.KARMADA, pair.karmada),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "commit": _commit(),
    }
    with tempfile.TemporaryDirectory(prefix="karmada-vc-compat.") as work:
        planes = Path(work) / "control-planes"
        up = ["hack/control-planes", "up", str(planes), "--hosts", "2", "--access", "--audit"]
        try:
            subprocess.run([*up, *pair.options], cwd=ROOT, check=True)
            for stage in stages:
                _say(f"{pair}: {stage}")
                record["stages"][stage] = asdict(_run(stage, pair, planes, Path(work)))
                path.write_text(json.dumps(record, indent=2) + "\n")
        finally:
            subprocess.run(["hack/control-planes", "down", planes], cwd=ROOT, check=False)
    return record


def _run(stage: str, pair: Pair, planes: Path, work: Path) -> StageResult:
    report = work / f"{stage}.xml"
    began = time.monotonic()
    environment = os.environ | {
        "HOST_KUBERNETES": pair.host,
        "HUB_KUBECONFIG": str(planes / "hub.kubeconfig"),
        "HOST_KUBECONFIG": str(planes / "host.kubeconfig"),
        "HOST2_KUBECONFIG": str(planes / "host2.kubeconfig"),
        "AUDIT_LOGS": str(planes / "logs"),
        "KARMADA_AGENT": str(planes / "bin" / "karmada-agent"),
        "KUBECTL_KARMADA": str(planes / "bin" / "kubectl-karmada"),
        "COREDNS": str(planes / "bin" / "coredns"),
    }
    subprocess.run(
        [
            *(".venv/bin/pytest", "-q", f"--junitxml={report}", f"--basetemp={work / stage}"),
            *("-o", "junit_family=xunit1"),  # the comparison records properties of tests
            *STAGES[stage],
        ],
        cwd=ROOT,
        env=environment,
        check=False,
    )
    result = read(report)
    result.seconds = round(time.monotonic() - began)
    return result


def read(report: Path) -> StageResult:
    """Count what a report of pytest says; one that is missing is a failure of the stage."""
    result = StageResult()
    if not report.exists():
        result.failures.append("the stage gave no report")
        return result
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - written by pytest here
        if case.find("failure") is not None or case.find("error") is not None:
            result.failures.append(f"{case.get('classname')}::{case.get('name')}")
        elif case.find("skipped") is not None:
            result.skipped += 1
        else:
            result.passed += 1
    return result


def _full(module: tools.ToolModule, minor: str) -> str:
    go_mod = tools.pinned(module, minor).go_mod.read_text()
    return tools.required_version(go_mod, module.version_of)


def _commit() -> str:
    """Return the commit, marked if anything but what this program writes differs from it."""
    changed = _git("status", "--porcelain", "--", ".", f":!{RESULTS}", f":!{RESULTS}.md")
    return _git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def _say(text: str) -> None:
    print(f"hack/compat: {text}", file=sys.stderr, flush=True)
