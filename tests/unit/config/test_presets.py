"""Defaults that `link` changes."""

from pathlib import Path

import pytest

from karmada_vc_agent.config.loading import OF_LINK, WARNINGS, load_config
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import CONFIG

FILE = """\
apiVersion: config.virtualcluster.kubeedge.io/v1alpha1
kind: AgentConfig
virtualClusters:
- name: branch-a
  nodeSelector: {matchLabels: {branch: a}}
"""


def test_thin_link_changes_defaults_and_what_is_given_wins(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(f"{FILE}link: thin\nclusterStatusUpdateFrequency: 5s\n")
    config = load_config(CONFIG, path, {"cluster_lease_duration": "1m"})
    assert config.hub_events == WARNINGS
    assert config.clusters_by_name
    assert config.cluster_lease_renew_interval_fraction == 0.6
    assert config.cluster_status_update_frequency == 5.0
    assert config.cluster_lease_duration == 60.0


def test_link_may_be_a_flag_and_others_have_their_defaults(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(FILE)
    assert load_config(CONFIG, path, {"link": "thin"}).hub_events == WARNINGS
    assert load_config(CONFIG, path, {}).hub_events == AgentConfig().hub_events == "All"


@pytest.mark.parametrize("preset", OF_LINK.values())
def test_presets_are_of_settings(preset: dict[str, object]) -> None:
    assert set(preset) <= set(AgentConfig.__struct_fields__)
    assert all(getattr(AgentConfig(), name) != value for name, value in preset.items())
