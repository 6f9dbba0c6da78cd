"""Settings that cannot be used end the agent at once, with one line that says where and why."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.lab.agent import ROOT, clean_environment, settings_file

A: dict[str, Any] = {"name": "a", "nodeSelector": {"matchLabels": {"group": "a"}}}
B: dict[str, Any] = {"name": "b", "nodeSelector": {"matchLabels": {"group": "b"}}}
CLOSED_PORT = "https://127.0.0.1:1"

# settings -> path of the setting, part of the problem
CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "no virtual clusters": ({}, "virtualClusters", "is empty"),
    "unknown setting": (
        {"virtualClusters": [A], "agentNme": "x"},
        "agentNme",
        "is unknown",
    ),
    "unknown setting of a virtual cluster": (
        {"virtualClusters": [A, B | {"nodeSelektor": {}}]},
        "virtualClusters[1].nodeSelektor",
        "is unknown",
    ),
    "wrong type": (
        {"virtualClusters": [A | {"nodeNames": "n1"}]},
        "virtualClusters[0].nodeNames",
        'is "n1", must be a list',
    ),
    "no nodes": ({"virtualClusters": [{"name": "a"}]}, "virtualClusters[0].nodeSelector", "no nod"),
    "name with a dot": (
        {"virtualClusters": [A | {"name": "a.b"}]},
        "virtualClusters[0].name",
        '"a.b" is not a valid Cluster name',
    ),
    "name too long": (
        {"virtualClusters": [A | {"name": "a" * 49}]},
        "virtualClusters[0].name",
        "at most 48 characters",
    ),
    "name twice": (
        {"virtualClusters": [A, B | {"name": "a"}]},
        "virtualClusters[1].name",
        '"a" is used by virtualClusters[0]',
    ),
    "same nodes": (
        {"virtualClusters": [A, B | {"nodeSelector": A["nodeSelector"]}]},
        "virtualClusters[1].nodeSelector",
        "selects the same nodes as virtualClusters[0].nodeSelector",
    ),
    "unknown operator": (
        {
            "virtualClusters": [
                {
                    "name": "a",
                    "nodeSelector": {"matchExpressions": [{"key": "x", "operator": "Is"}]},
                }
            ]
        },
        "virtualClusters[0].nodeSelector.matchExpressions[0].operator",
        'is "Is", must be In, NotIn, Exists or DoesNotExist',
    ),
    "label value": (
        {"virtualClusters": [A | {"region": "far away"}]},
        "virtualClusters[0].region",
        "far away",
    ),
    "duration": (
        {"virtualClusters": [A], "clusterLeaseDuration": "40"},
        "clusterLeaseDuration",
        '"40" is not a valid duration; write for example 40s or 2m',
    ),
    "agent name": ({"virtualClusters": [A], "agentName": "A_B"}, "agentName", "is not a valid DNS"),
    "deadline after duration": (
        {"virtualClusters": [A], "leaderElectRenewDeadline": "20s"},
        "leaderElectRenewDeadline",
        "is 20s, must be less than leaderElectLeaseDuration (15s)",
    ),
    "mode of namespaces": (
        {"virtualClusters": [A | {"namespaces": "Never"}]},
        "virtualClusters[0].namespaces",
        "must be Always or OnDemand",
    ),
}

FLAG_CASES = {
    "duration": (("--cluster-lease-duration", "soon"), '"soon" is not a valid duration'),
    "number": (("--kube-api-qps", "many"), "must be a number"),
    "level of the log": (("--log-level", "loud"), "must be debug, info, warning or error"),
    "reregister": (("--reregister", "nobody"), '"nobody" is not a virtual cluster of the settings'),
}


@pytest.mark.parametrize("case", CASES)
def test_wrong_file_is_reported_in_one_line_with_file_path_and_problem(
    tmp_path: Path, case: str
) -> None:
    settings, path, problem = CASES[case]
    file = _write(tmp_path, settings_file(settings))
    line = _refusal(tmp_path, file)
    where = f"{file}: {path}: " if path else f"{file}: "
    assert line.startswith(f"karmada-vc-agent: {where}")
    assert problem in line


@pytest.mark.parametrize("case", FLAG_CASES)
def test_wrong_flag_is_reported_in_one_line_that_names_it(tmp_path: Path, case: str) -> None:
    flags, problem = FLAG_CASES[case]
    file = _write(tmp_path, settings_file({"virtualClusters": [A]}))
    line = _refusal(tmp_path, file, *flags)
    assert line.startswith(f"karmada-vc-agent: flags: {flags[0]}: ")
    assert problem in line


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("virtualClusters: [", "not valid YAML"),
        ("", "empty, or not a mapping of settings"),
        ("- a", "empty, or not a mapping of settings"),
        ("apiVersion: v1\nkind: AgentConfig\n", 'is "v1", must be'),
    ],
)
def test_file_that_is_no_settings_file_is_reported_in_one_line(
    tmp_path: Path, content: str, problem: str
) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(content)
    line = _refusal(tmp_path, file)
    assert line.startswith(f"karmada-vc-agent: {file}: ")
    assert problem in line


def test_missing_file_is_reported_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "absent.yaml"
    assert _refusal(tmp_path, file) == f"karmada-vc-agent: {file}: No such file or directory"


def test_missing_kubeconfig_is_reported_in_one_line(tmp_path: Path) -> None:
    file = _write(tmp_path, settings_file({"virtualClusters": [A]}))
    missing = tmp_path / "absent.kubeconfig"
    line = _refusal(tmp_path, file, "--karmada-kubeconfig", str(missing))
    assert str(missing) in line


def test_settings_from_the_environment_are_checked_too(tmp_path: Path) -> None:
    file = _write(tmp_path, settings_file({"virtualClusters": [A]}))
    line = _refusal(tmp_path, file, KARMADA_VC_AGENT_KUBE_API_QPS="many")
    assert line.startswith("karmada-vc-agent: environment KARMADA_VC_AGENT_KUBE_API_QPS: ")


def _refusal(directory: Path, file: Path, *flags: str, **environment: str) -> str:
    """Run the agent, which must end with exit code 2 and one line; return the line."""
    kubeconfig = _write(directory, _kubeconfig(), "any.kubeconfig")
    command = [
        *(sys.executable, "-m", "karmada_vc_agent", "run", "--config", str(file)),
        *("--karmada-kubeconfig", str(kubeconfig), "--kubeconfig", str(kubeconfig), *flags),
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=clean_environment() | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert not done.stdout
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def _write(directory: Path, content: dict[str, Any], name: str = "agent.yaml") -> Path:
    path = directory / name
    path.write_text(yaml.safe_dump(content))
    return path


def _kubeconfig() -> dict[str, Any]:
    """Return one that is right, though nobody listens there."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "any",
        "contexts": [{"name": "any", "context": {"cluster": "any", "user": "any"}}],
        "clusters": [{"name": "any", "cluster": {"server": CLOSED_PORT}}],
        "users": [{"name": "any", "user": {"token": "none"}}],
    }
