"""`check` reports all mistakes of files at once, each with its line."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from karmada_vc_agent.cli import main

HEADER = "apiVersion: config.virtualcluster.kubeedge.io/v1alpha1\nkind: AgentConfig\n"
OBJECT = """\
apiVersion: virtualcluster.kubeedge.io/v1alpha1
kind: VirtualCluster
metadata: {name: branch-a}
spec:
  nodeNames: [n1]
"""
NAMELESS = OBJECT.partition("metadata")[0]

CASES: dict[str, tuple[str, list[str]]] = {
    "settings that are right": (
        f"{HEADER}virtualClusters: [{{name: a, nodeNames: [n1]}}]\n",
        [],
    ),
    "an object that is right": (OBJECT, []),
    "mistakes of all sorts": (
        HEADER
        + """\
agentNme: x
clusterLeaseDuration: "40"
namespaceTemplate: "{namespace}"
virtualClusters:
- name: a.b
  nodeNames: n1
- nodeSelector: {matchLabels: {x: y}}
- name: c
  nodeNames: [N1, ok]
  taints: [{key: k, effect: Never}]
- name: c
  region: far away
  nodeNames: [e]
bounds: {works: -5}
""",
        [
            '3: agentNme: is unknown; did you mean "agentName"?',
            '4: clusterLeaseDuration: "40" is not a valid duration',
            '5: namespaceTemplate: "{namespace}" must be',
            '7: virtualClusters[0].name: "a.b" is not a valid Cluster name',
            '8: virtualClusters[0].nodeNames: is "n1", must be a list',
            "9: virtualClusters[1].name: is not set",
            '11: virtualClusters[2].nodeNames[0]: "N1" is not a valid node name',
            '12: virtualClusters[2].taints[0].effect: is "Never", must be NoSchedule',
            '13: virtualClusters[3].name: "c" is used by virtualClusters[2].name',
            '14: virtualClusters[3].region: "far away" is not a valid label value',
            "16: bounds.works: is -5, must be 0 (no bound) or more",
        ],
    ),
    "a wrong header": (
        "apiVersion: v1\nkind: AgentConfig\nvirtualClusters: []\n",
        ['1: apiVersion: is "v1", must be', "3: virtualClusters: is empty"],
    ),
    "an object with mistakes": (
        OBJECT.replace("branch-a", "A") + "  quotta: {}\n  deletionPolicy: Keep\n  zones: 5\n",
        [
            '3: metadata.name: "A" is not a valid Cluster name',
            '6: spec.quotta: is unknown; did you mean "quota"?',
            '7: spec.deletionPolicy: is "Keep", must be Delete or Preserve',
            "8: spec.zones: is 5, must be a list",
        ],
    ),
    "two objects of one name": (
        f"{OBJECT}---\n{OBJECT}",
        ['9: metadata.name: "branch-a" is defined in '],
    ),
    "objects that lack all": (
        f"{NAMELESS}---\n{NAMELESS}",
        [f"{line}: {part}: is not set" for line in (1, 4) for part in ("metadata.name", "spec")],
    ),
    "an object without a spec": (OBJECT.partition("spec")[0], ["1: spec: is not set"]),
    "another kind": ("kind: Pod", ['1: kind: is "Pod", must be AgentConfig or VirtualCluster']),
    "a list": ("- a", ["1: kind: is null, must be AgentConfig or VirtualCluster"]),
    "settings and another kind": (
        f"{HEADER}virtualClusters: [{{name: a, nodeNames: [n1]}}]\n---\nkind: Pod\n",
        ['5: kind: is "Pod", must be AgentConfig or VirtualCluster'],
    ),
    "no YAML": ("a:\n\tb: c", ["2: not valid YAML"]),
    "no UTF-8": ("a: \x00", ["1: not valid YAML"]),
    "a repeated key": ("a: 1\na: 2", ['2: "a" is set twice']),
}


@pytest.mark.parametrize("case", CASES)
def test_all_mistakes_are_reported_with_their_lines(tmp_path: Path, case: str) -> None:
    text, expected = CASES[case]
    file = tmp_path / "file.yaml"
    file.write_text(text)
    result = CliRunner().invoke(main, ["check", str(file)])
    lines = result.stderr.splitlines()
    assert [line[: len(f"karmada-vc-agent: {file}:")] for line in lines] == [
        f"karmada-vc-agent: {file}:"
    ] * len(expected), result.output
    reported = sorted(
        (line.partition(f"{file}:")[2] for line in lines),
        key=lambda line: int(line.partition(":")[0]),
    )
    for line, start in zip(reported, expected, strict=True):
        assert line.startswith(start)
    assert result.exit_code == (2 if expected else 0)


def test_objects_are_checked_with_the_settings_beside_them(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text(
        f"{HEADER}virtualClusters: [{{name: branch-a, nodeNames: [n2]}}]\n"
    )
    (tmp_path / "object.yaml").write_text(OBJECT)
    result = CliRunner().invoke(main, ["check", str(tmp_path)])
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"karmada-vc-agent: {tmp_path}/object.yaml:3: metadata.name: ")
    assert line.endswith(f'"branch-a" is defined in {tmp_path}/agent.yaml:1, too')
    assert result.exit_code == 2


@pytest.mark.parametrize("command", ["check", "plan"])
def test_no_path_and_no_document_are_mistakes(tmp_path: Path, command: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("# to do\n")
    for path, text in ((str(file), "there is no YAML document in it"), ("", "FILE: it is empty")):
        result = CliRunner().invoke(main, [command, path])
        assert result.exit_code == 2
        assert text in result.stderr
