"""What a running agent takes of settings that changed."""

from pathlib import Path

import pytest

from karmada_vc_agent.cli import read_settings, reload_settings
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.features.discovered.records import DiscoveredFields
from karmada_vc_agent.model.vocabulary import HOST_LABEL

HEAD = """
apiVersion: config.virtualcluster.kubeedge.io/v1alpha1
kind: AgentConfig
agentNamespace: agents
"""
ONE = """
virtualClusters:
- name: a
  nodeSelector: {matchLabels: {branch: a}}
"""
TWO = f"""{ONE}
- name: b
  nodeSelector: {{matchLabels: {{branch: b}}}}
"""


def reloaded(folder: Path, before: str, after: str) -> tuple[list[str], tuple[str, ...]]:
    path = folder / "agent.yaml"
    path.write_text(HEAD + before)
    running = read_settings(path, {}, {})
    path.write_text(HEAD + after)
    found, at_restart = reload_settings(running, lambda: read_settings(path, {}, {}), path)
    return [vc.name for vc in found.virtual_clusters], at_restart


def test_virtual_clusters_are_taken_at_once(tmp_path: Path) -> None:
    assert reloaded(tmp_path, ONE, TWO) == (["a", "b"], ())


def test_what_is_laid_under_virtual_clusters_is_taken_with_them(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(HEAD + ONE)
    running = read_settings(path, {}, {})
    path.write_text(f"{HEAD}clusterRegion: north\nclusterHost: plant\nbounds: {{works: 7}}\n{ONE}")
    found, at_restart = reload_settings(running, lambda: read_settings(path, {}, {}), path)
    (vc,) = found.virtual_clusters
    assert (vc.region, vc.bounds.works) == ("north", 7)
    assert vc.cluster_labels == {HOST_LABEL: "plant"}
    assert at_restart == ()


def test_other_settings_wait_for_a_restart_and_are_named(tmp_path: Path) -> None:
    after = f"logLevel: debug\nclusterAPIQPS: 7\n{TWO}"
    assert reloaded(tmp_path, ONE, after) == (["a", "b"], ("clusterAPIQPS", "logLevel"))


def test_what_a_virtual_cluster_needs_it_needs_of_the_settings_in_use(tmp_path: Path) -> None:
    wanting = f"{ONE}  serviceNames: VirtualFirst\n"
    told = "needs clusterDNS to be set; restart the agent to use clusterDNS of the file"
    with pytest.raises(ConfigError, match=told):
        reloaded(tmp_path, ONE, f"clusterDNS: [10.0.0.10]\n{wanting}")


def test_accounts_are_those_of_the_profile_in_use(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(f"{HEAD}tenancy: Strict\n{ONE}")
    running = read_settings(path, {}, {})
    path.write_text(HEAD + TWO)
    found, at_restart = reload_settings(running, lambda: read_settings(path, {}, {}), path)
    assert at_restart == ("tenancy",)
    assert [vc.apply_as and vc.apply_as.name for vc in found.virtual_clusters] == [
        "a.karmada-vc-agent",
        "b.karmada-vc-agent",
    ]


@pytest.mark.parametrize("bad", ["virtualClusters: []\n", "virtualClusters: [\n", f"{ONE}{ONE}"])
def test_bad_settings_are_refused_as_a_whole(tmp_path: Path, bad: str) -> None:
    with pytest.raises(ConfigError, match=r"agent\.yaml"):
        reloaded(tmp_path, ONE, bad)


def test_discovery_settings_apply_at_once(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(HEAD + ONE)
    running = read_settings(path, {}, {})
    path.write_text(f"{HEAD}nodeGroups: {{enabled: true}}\ndiscover: {{nodeLabel: shop}}\n{ONE}")
    found, at_restart = reload_settings(running, lambda: read_settings(path, {}, {}), path)
    own = found.of(DiscoveredFields)
    assert own.node_groups.enabled
    assert own.discover.node_label == "shop"
    assert at_restart == ()


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("nodeGroups: {enabled: true, nameTemplate: x}", "nodeGroups.nameTemplate"),
        ("discover: {nodeLabel: 'a b'}", "discover.nodeLabel"),
        ("nodeGroups: {enabled: true, gracePeriod: -1s}", "nodeGroups.gracePeriod"),
    ],
)
def test_bad_way_to_find_them_is_refused(tmp_path: Path, bad: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        reloaded(tmp_path, ONE, f"{bad}\n{ONE}")


def test_last_source_is_not_given_up(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="virtualClusters: is empty"):
        reloaded(tmp_path, "discover: {nodeLabel: shop}\n", "discover: {}\n")
