"""Digests of settings are kept on hosts: a new version must find the same ones.

Where it finds others, each Cluster that was deleted on the hub is registered again.
"""

from pathlib import Path

import pytest
from msgspec.structs import replace

from karmada_vc_agent.cluster.registration import settings_digest
from karmada_vc_agent.config.loading import load_config, with_profile_defaults
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.model.virtual_cluster import Bounds
from tests.fakes import objects

SETTINGS = """\
apiVersion: config.virtualcluster.kubeedge.io/v1alpha1
kind: AgentConfig
agentName: agent-one
tenancy: Strict
clusterDNS: ["10.96.0.10"]
bounds: {kinds: 50}
virtualClusters:
- name: branch-a
  nodeSelector:
    matchLabels: {branch: a}
    matchExpressions:
    - {key: zone, operator: In, values: [x, "y"]}
    - {key: old, operator: DoesNotExist}
  clusterLabels: {tier: edge}
  provider: acme
  region: south
  zones: [s1]
  taints: [{key: a, value: b, effect: NoSchedule}]
  resourceModels: [{grade: 0, ranges: [{name: cpu, min: "0", max: "4"}]}]
  namespaces: OnDemand
  adoptNamespaces: [legacy]
  tolerations: [{key: edge, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]
  offlineTolerations: true
  tolerateNodeTaints: false
  quota: {cpu: "4", memory: 8Gi, pods: 10, limits.cpu: 2.5}
  limits: [{type: Container, default: {cpu: 100m}, max: {memory: 1Gi}}]
  networkPolicy: isolate
  podSecurity: baseline
  allowedKinds: ["apps/*", ConfigMap]
  deniedKinds: ["batch/Job"]
  applyAs: {namespace: agents, name: branch-a, clusterRole: edit}
  serviceNames: VirtualFirst
  allow: [HostPath]
  bounds: {works: 7, bytes: 1Mi}
- name: branch-b
  nodeNames: [n1, n2]
"""


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("branch-a", "0537c30d1d155b3fc1800eb96ac3adc5"),
        ("branch-b", "ea3b4288f382cb444354cf60e3c5d6ca"),
    ],
)
def test_digest_is_that_of_earlier_versions(tmp_path: Path, name: str, digest: str) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(SETTINGS)
    config = with_profile_defaults(load_config(CONFIG, path, {}), "agents")
    (vc,) = (vc for vc in config.virtual_clusters if vc.name == name)
    assert settings_digest(vc) == digest


def test_pause_is_no_other_description_of_the_cluster() -> None:
    assert settings_digest(objects.virtual_cluster(paused=True)) == settings_digest(
        objects.virtual_cluster()
    )


def test_share_of_the_loop_is_no_other_description_of_the_cluster() -> None:
    bounds = Bounds(works=7)
    assert settings_digest(
        objects.virtual_cluster(bounds=replace(bounds, loop_milliseconds=20))
    ) == settings_digest(objects.virtual_cluster(bounds=bounds))
