"""`plan` without a host: what is shown of files, and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from karmada_vc_agent.cli import main
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.diagnosis.documents import kustomized

HEADER = "apiVersion: config.virtualcluster.kubeedge.io/v1alpha1\nkind: AgentConfig\n"
SETTINGS = f"""{HEADER}virtualClusters:
- name: branch-a
  nodeNames: [n1]
- name: branch-b
  nodeSelector: {{matchLabels: {{branch: b}}}}
"""
SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: bank}
stringData: {password: hunter2}
"""
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true}]
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: one}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: spy, namespace: bank}
spec:
  nodeName: %s
  containers: [{name: c, image: i}]
"""
POLICY = """\
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: p, namespace: bank}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Pod}]
  placement: {clusterAffinity: {clusterNames: [branch-b, brunch-a]}}
"""
OBJECT = """\
---
apiVersion: virtualcluster.kubeedge.io/v1alpha1
kind: VirtualCluster
metadata: {name: branch-z}
spec: {nodeNames: [n9]}
"""
TENANTS_ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: readers}
subjects: [{kind: ServiceAccount, name: x, namespace: bank}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c, namespace: bank}
"""
ONLY_HUB = """\
apiVersion: policy.karmada.io/v1alpha1
kind: FederatedResourceQuota
metadata: {name: q, namespace: bank}
"""
ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: r, namespace: bank}
rules: [{apiGroups: [""], resources: [pods], verbs: ["*"]}]
"""
NODE_PORT = """\
apiVersion: v1
kind: Service
metadata: {name: s, namespace: bank}
spec: {type: NodePort, ports: [{port: 80, nodePort: 30080}]}
"""


def plan(folder: Path, text: str, *flags: str) -> Result:
    (folder / "agent.yaml").write_text(SETTINGS)
    (folder / "app.yaml").write_text(text)
    arguments = ("plan", str(folder / "app.yaml"), "--config", str(folder / "agent.yaml"))
    return CliRunner().invoke(main, [*arguments, *flags])


CASES: dict[str, tuple[str, str, int, list[str]]] = {
    "for every virtual cluster": (
        SECRET,
        "2 virtual clusters: 2 create",
        0,
        ["+++ Secret bank-v-branch-a/key", "+++ Secret bank-v-branch-b/key"],
    ),
    "a kind that the files define": (
        DEFINITION,
        "2 virtual clusters: 4 create",
        0,
        ["+++ Widget default-v-branch-a/one", "+++ CustomResourceDefinition widgets.example.com"],
    ),
    "refused in one": (
        POD % "n1",
        "2 virtual clusters: 1 create, 1 refused",
        1,
        ["app.yaml:5: Pod bank/spy in branch-b: refused: NodeNameForbidden: spec.nodeName"],
    ),
    "where a policy sends it": (
        POD % "n1" + POLICY,
        "1 virtual cluster: 1 refused",
        1,
        ["  by PropagationPolicy bank/p", '"brunch-a" is none of these virtual clusters; did you'],
    ),
    "that no policy matches": (
        SECRET + POLICY,
        "0 virtual clusters: 1 nowhere",
        0,
        ["app.yaml:1: Secret bank/key: nowhere: no policy matches"],
    ),
    "virtual clusters of the files, too": (
        SECRET + OBJECT,
        "3 virtual clusters: 3 create",
        0,
        ["+++ Secret bank-v-branch-z/key"],
    ),
    "a binding in each namespace": (
        TENANTS_ROLE,
        "2 virtual clusters: 4 create",
        0,
        ["+++ RoleBinding bank-v-branch-a/"],
    ),
    "rules that only a host completes": (
        ROLE,
        "2 virtual clusters: 2 create",
        0,
        ["without --kubeconfig * is nothing"],
    ),
    "of the hub alone": (
        ONLY_HUB,
        "0 virtual clusters: nothing to plan",
        0,
        ["# ", "FederatedResourceQuota is of the hub alone"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_files_become_objects_of_the_host(tmp_path: Path, case: str) -> None:
    text, summary, code, shown = CASES[case]
    result = plan(tmp_path, text)
    assert (result.stderr.strip(), result.exit_code) == (summary, code), result.output
    for part in shown:
        assert part in result.stdout


def test_values_of_secrets_are_not_shown(tmp_path: Path) -> None:
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    secret = yaml.safe_load(SECRET)
    secret["metadata"]["annotations"] = {applied: json.dumps(secret)}
    for form in ("diff", "yaml"):
        output = plan(tmp_path, yaml.safe_dump(secret), "-o", form).output
        assert "hunter2" not in output
        assert "(not shown)" in output


def test_yaml_is_what_the_host_would_have(tmp_path: Path) -> None:
    result = plan(tmp_path, POD % "n1", "-o", "yaml", "-C", "branch-a")
    (pod,) = filter(None, yaml.safe_load_all(result.stdout))
    assert pod["metadata"]["namespace"] == "bank-v-branch-a"
    assert pod["spec"]["nodeSelector"]


@pytest.mark.parametrize(
    "profile", [{}, {"tenancy": "Strict"}], ids=["in the usual profile", "in profile Strict"]
)
def test_the_settings_decide_what_is_refused(tmp_path: Path, profile: dict[str, Any]) -> None:
    settings = yaml.safe_load(SETTINGS) | profile
    (tmp_path / "strict.yaml").write_text(yaml.safe_dump(settings))
    result = plan(tmp_path, NODE_PORT, "--config", str(tmp_path / "strict.yaml"))
    assert result.exit_code == (1 if profile else 0), result.output


def test_lists_and_names_of_namespaces_that_are_none_end_with_one_line(tmp_path: Path) -> None:
    for text, flags, expected in (
        ("apiVersion: v1\nkind: List\nitems: []", (), "app.yaml:2: kind: is List; give its items"),
        (POD % "n1", ("-n", "Bad_Name!"), '--namespace: "Bad_Name!" is not a valid DNS label'),
    ):
        result = plan(tmp_path, text, *flags)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert expected in result.stderr


def test_kustomize_that_does_not_end_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\nexec sleep 600\n")
    kubectl.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ConfigError, match=r"kustomize base: kubectl did not end within 0\.2 s"):
        kustomized("base", 0.2)
