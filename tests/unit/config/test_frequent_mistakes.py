"""Mistakes that people make often: refused in one line that says what was meant."""

from pathlib import Path

import pytest

from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.loading import load_config
from karmada_vc_agent.feature_list import CONFIG

HEAD = "apiVersion: config.virtualcluster.kubeedge.io/v1alpha1\nkind: AgentConfig\n"
ONE = "virtualClusters: [{name: a, nodeNames: [n]}]\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.yaml"


def problem(path: Path, text: str) -> str:
    path.write_text(HEAD + text)
    with pytest.raises(ConfigError) as raised:
        load_config(CONFIG, path, {})
    return str(raised.value).removeprefix(f"{path}: ")


def test_key_that_is_set_twice_is_refused_at_its_place(path: Path) -> None:
    told = 'line 4: "virtualClusters" is set twice, first in line 3; keep one of them'
    assert problem(path, ONE + ONE) == told


def test_key_that_a_merge_overrides_is_set_once(path: Path) -> None:
    first = "{name: a, nodeSelector: &s {matchLabels: {k: a}}}"
    second = "{name: b, nodeSelector: {<<: *s, matchLabels: {k: b}}}"
    path.write_text(f"{HEAD}virtualClusters: [{first}, {second}]\n")
    selectors = [
        vc.node_selector.match_labels for vc in load_config(CONFIG, path, {}).virtual_clusters
    ]
    assert selectors == [{"k": "a"}, {"k": "b"}]


@pytest.mark.parametrize(
    ("selector", "advice"),
    [
        ("{branch: a}", "write labels as nodeSelector: {matchLabels: {branch: ...}}"),
        ("{matchLabels: {edge: true}}", 'write it in quotes: "true"'),
        ("{matchLabels: {edge: 5}}", 'write it in quotes: "5"'),
    ],
)
def test_selector_that_is_written_otherwise_says_how(
    path: Path, selector: str, advice: str
) -> None:
    told = problem(path, f"virtualClusters: [{{name: a, nodeSelector: {selector}}}]\n")
    assert told.startswith("virtualClusters[0].nodeSelector")
    assert told.endswith(f"; {advice}")


@pytest.mark.parametrize("name", ["kubeAPIQPS", "clusterAPIQPS", "rateLimiterQPS"])
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("-1", "is -1, must be 0 (no limit) or more"),
        (".nan", "is nan, must be a finite number"),
        (".inf", "is inf, must be a finite number"),
    ],
)
def test_rate_that_is_none_is_refused(path: Path, name: str, value: str, told: str) -> None:
    assert problem(path, f"{ONE}{name}: {value}\n") == f"{name}: {told}"
