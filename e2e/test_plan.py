"""What `plan` shows of files is what the agent then applies, and nonsense ends in one line."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.lab import objects
from e2e.lab.agent import ROOT, clean_environment, run_command, settings_file
from e2e.lab.api import Object, path_of
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import THROUGH_HUB_S, within
from karmada_vc_agent.diagnosis.plan import shown

AGENT = (sys.executable, "-m", "karmada_vc_agent")
POLICY_API = "policy.karmada.io/v1alpha1"


def run(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return run_command(*map(str, arguments), stdin=stdin)


def plan_on_host(lab: Lab, files: Path, *flags: object) -> subprocess.CompletedProcess[str]:
    settings = lab.directory / "plan-settings.yaml"
    settings.write_text(yaml.safe_dump(settings_file(lab.agents[0].settings)))
    host = ("--kubeconfig", lab.host.kubeconfig)
    return run("plan", files, "--config", settings, *host, *flags)


def objects_of(output: str) -> dict[tuple[str, str, str], Object]:
    found = {}
    for obj in filter(None, yaml.safe_load_all(output)):
        place = obj["metadata"]
        found[obj["kind"], place.get("namespace", ""), place["name"]] = obj
    return found


def write(path: Path, *documents: Object) -> Path:
    path.write_text(yaml.safe_dump_all(documents))
    return path


def override(namespace: str, template: Object, group: Group) -> Object:
    selector = {"apiVersion": template["apiVersion"], "kind": template["kind"]}
    overriders = {
        "imageOverrider": [{"component": "Tag", "operator": "replace", "value": "v2"}],
        "argsOverrider": [{"containerName": "main", "operator": "add", "value": ["--for", "a"]}],
        "plaintext": [{"path": "/spec/replicas", "operator": "replace", "value": 3}],
    }
    rule = {"targetCluster": {"clusterNames": [group.name]}, "overriders": overriders}
    return {
        "apiVersion": POLICY_API,
        "kind": "OverridePolicy",
        "metadata": {"name": "for-one", "namespace": namespace},
        "spec": {"resourceSelectors": [selector], "overrideRules": [rule]},
    }


def test_plan_against_the_host_is_what_the_agent_then_applies(lab: Lab) -> None:
    group_a, group_b = lab.group("a"), lab.group("b")
    lab.serve(group_a, group_b)
    namespace = lab.namespace()
    web = objects.deployment(namespace)
    web["spec"]["template"]["spec"]["containers"][0]["name"] = "main"
    templates = [web, objects.config_map(namespace, key="one"), objects.service(namespace)]
    placement = objects.to_clusters(group_a.name, group_b.name)
    policy = objects.policy(namespace, "all", templates, placement)
    file = write(lab.directory / "app.yaml", override(namespace, web, group_a), policy, *templates)
    for group in (group_a, group_b):
        within(THROUGH_HUB_S, lab.host.get, f"/api/v1/namespaces/{group.host_namespace(namespace)}")

    planned = plan_on_host(lab, file, "-o", "yaml")
    assert planned.returncode == 0, planned.stderr
    assert planned.stderr.strip() == "2 virtual clusters: 6 create"
    lab.hub.create(override(namespace, web, group_a))
    lab.hub.create(policy)
    for template in templates:
        lab.hub.create(template)
    _wait_equal(lab, planned.stdout)

    again = plan_on_host(lab, file)
    assert (again.returncode, again.stderr.strip()) == (0, "2 virtual clusters: 6 unchanged")
    assert "+++" not in again.stdout

    templates[1]["data"] = {"key": "two"}
    web["spec"]["template"]["metadata"]["labels"]["more"] = "yes"
    write(file, override(namespace, web, group_a), policy, *templates)
    changed = plan_on_host(lab, file, "-o", "yaml", "-C", group_a.name)
    assert changed.stderr.strip() == "1 virtual cluster: 2 change, 1 unchanged"
    for template in templates[:2]:
        lab.hub.patch(
            path_of(template), {k: template[k] for k in ("data", "spec") if k in template}
        )
    _wait_equal(lab, changed.stdout)


def _wait_equal(lab: Lab, planned: str) -> None:
    """Wait until the host has the planned objects, but for what it assigns itself."""

    def look() -> None:
        for (kind, namespace, name), obj in objects_of(planned).items():
            live = lab.host.get(
                path_of(
                    {"apiVersion": obj["apiVersion"], "kind": kind}
                    | {"metadata": {"namespace": namespace, "name": name}}
                )
            )
            assert _comparable(live) == _comparable(obj)

    within(THROUGH_HUB_S, look)


def _comparable(obj: Object) -> Object:
    obj = shown(obj)
    obj["metadata"].get("annotations", {}).pop("deployment.kubernetes.io/revision", None)
    for key in ("clusterIP", "clusterIPs"):
        obj.get("spec", {}).pop(key, None)
    return obj


def test_a_refusal_and_a_foreign_object_end_the_plan_with_code_1(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    namespace = lab.namespace()
    host_namespace = group.host_namespace(namespace)
    within(THROUGH_HUB_S, lab.host.get, f"/api/v1/namespaces/{host_namespace}")
    lab.host.create(objects.config_map(host_namespace, "taken"))
    web = objects.deployment(namespace, node_selector={lab.label: "b"})
    file = write(lab.directory / "app.yaml", objects.config_map(namespace, "taken"), web)
    planned = plan_on_host(lab, file)
    assert planned.returncode == 1
    assert planned.stderr.strip() == "1 virtual cluster: 2 refused"
    assert "refused: resource(kind=ConfigMap" in planned.stdout
    assert "already exists in the cluster" in planned.stdout
    assert "refused: NodeSelectorConflict: spec.template.spec.nodeSelector" in planned.stdout


def test_plan_writes_nothing_to_the_host(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group)
    namespace = lab.namespace()
    host_namespace = group.host_namespace(namespace)
    within(THROUGH_HUB_S, lab.host.get, f"/api/v1/namespaces/{host_namespace}")
    template = objects.config_map(namespace)
    new = objects.config_map(f"{namespace}-new")
    file = write(lab.directory / "app.yaml", template, new, objects.namespace(f"{namespace}-new"))
    assert plan_on_host(lab, file).returncode == 0
    assert lab.host.find(lab.host_path(template, group)) is None
    assert lab.host.find(f"/api/v1/namespaces/{group.host_namespace(namespace)}-new") is None


SETTINGS: dict[str, Any] = {"virtualClusters": [{"name": "branch-a", "nodeNames": ["edge-1"]}]}
NONSENSE = {
    "no YAML": ("a: [b", 2),
    "a tab": ("a:\n\tb: c", 2),
    "a repeated key": ("a: b\nc: d\na: e", 3),
    "no object": ("- a\n- b", 1),
    "a text": ("hello", 1),
    "no kind": ("apiVersion: v1\nmetadata: {name: a}", 1),
    "no name": ("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {}", 2),
    "a name that is a path": ("apiVersion: v1\nkind: Pod\nmetadata: {name: ../x}", 1),
    "an odd placement": (
        (
            "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\n"
            "metadata: {name: a, namespace: b}\nspec:\n  resourceSelectors: []\n  placement: here"
        ),
        6,
    ),
    "an odd operator": (
        (
            "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\n"
            "metadata: {name: a, namespace: b}\nspec:\n  overriders:\n    plaintext:\n"
            "    - {path: /a, operator: eat}"
        ),
        7,
    ),
    "a settings file": (yaml.safe_dump(settings_file(SETTINGS), sort_keys=False), 2),
    "a wrong VirtualCluster": (
        (
            "apiVersion: virtualcluster.kubeedge.io/v1alpha1\nkind: VirtualCluster\n"
            "metadata: {name: b}\nspec:\n  nodeNames: [n1]\n  quotta: {}"
        ),
        6,
    ),
    "a key of two parts": ("? [a, b]\n: c", 1),
    "no number": ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx: .nan", 1),
    "aliases without end": (
        "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n"
            for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        1,
    ),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_nonsense_ends_the_plan_with_code_2_and_file_and_line(tmp_path: Path, case: str) -> None:
    text, number = NONSENSE[case]
    file = tmp_path / "app.yaml"
    file.write_text(text)
    settings = write(tmp_path / "agent.yaml", settings_file(SETTINGS))
    ended = run("plan", file, "--config", settings)
    (line,) = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout) == (2, "")
    assert line.startswith(f"karmada-vc-agent: {file}:{number}: "), line


FLAGS = {
    "no files": ((), "flags: FILE: give files"),
    "an absent file": (("absent.yaml",), "absent.yaml: No such file"),
    "no virtual clusters": (("app.yaml",), "flags: --config: give the settings file"),
    "an unknown one": (
        ("app.yaml", "--config", "agent.yaml", "-C", "branch-b"),
        '"branch-b" is not a virtual cluster; did you mean "branch-a"?',
    ),
    "an empty folder": (("empty",), "empty: has no .yaml, .yml, .json file"),
    "no kustomization": (("-k", "empty", "--config", "agent.yaml"), "kustomize empty: "),
    "a host that is away": (
        ("app.yaml", "--config", "agent.yaml", "--kubeconfig", "away.kubeconfig"),
        "no answer from the host",
    ),
}


@pytest.mark.parametrize("case", FLAGS)
def test_a_plan_that_cannot_be_made_ends_with_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    write(tmp_path / "app.yaml", objects.config_map("bank"))
    write(tmp_path / "agent.yaml", settings_file(SETTINGS))
    write(tmp_path / "away.kubeconfig", _kubeconfig("https://127.0.0.1:1"))
    (tmp_path / "empty").mkdir()
    arguments, text = FLAGS[case]
    ended = subprocess.run(
        [*AGENT, "plan", *arguments],
        env=clean_environment() | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (line,) = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout) == (2, ""), ended
    assert text in line


def _kubeconfig(server: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
