"""manifests/ as its users apply it: rendered by kubectl and by Helm, and accepted by a host."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from control_planes import tools
from e2e.lab.agent import ROOT
from e2e.lab.api import Api, Object

MANIFESTS = ROOT / "manifests"
AGENT = "karmada-vc-agent"
KUSTOMIZED = ("base", "overlays/kubeedge", "overlays/dev")


def run(program: str, *arguments: str | Path) -> str:
    path = tools.program_paths()[program]
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def by_name(text: str) -> dict[tuple[str, str], Object]:
    """Return the objects of a YAML stream by kind and name."""
    objects = [obj for obj in yaml.safe_load_all(text) if obj]
    found = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}
    assert len(found) == len(objects)
    return found


def kustomize(directory: str) -> str:
    return run("kubectl", "kustomize", MANIFESTS / directory)


def helm(*flags: str, namespace: str = AGENT) -> str:
    chart = MANIFESTS / "chart"
    return run("helm", "template", AGENT, chart, "-n", namespace, "--include-crds", *flags)


@pytest.mark.parametrize("directory", KUSTOMIZED)
def test_a_host_accepts_every_object(host: Api, tmp_path: Path, directory: str) -> None:
    rendered = tmp_path / "rendered.yaml"
    # A dry run makes no namespace, so what goes into it is tried in another one.
    objects = [*by_name(kustomize(directory)).values()]
    for obj in objects:
        if "namespace" in obj["metadata"]:
            obj["metadata"]["namespace"] = "default"
    rendered.write_text(yaml.safe_dump_all(objects))
    flags = ("--dry-run=server", "--server-side", "--validate=strict")
    told = run("kubectl", "--kubeconfig", host.kubeconfig, "apply", *flags, "-f", rendered)
    assert len(told.splitlines()) == len(objects)


def test_chart_renders_what_the_base_has() -> None:
    base, chart = by_name(kustomize("base")), by_name(helm())
    del base["Namespace", AGENT]  # Helm needs it beforehand
    for objects in (base, chart):
        settings: Any = objects["ConfigMap", AGENT]["data"]
        settings["agent.yaml"] = yaml.safe_load(settings["agent.yaml"])
    assert chart == base


def test_values_reach_the_agent() -> None:
    flags = ("image=r.example/agent:2", "replicas=3", "resources.limits.memory=1Gi")
    rendered = by_name(helm("--set", ",".join((*flags, "monitoring=true")), namespace="edge"))
    spec = rendered["Deployment", AGENT]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert (spec["replicas"], container["image"]) == (3, "r.example/agent:2")
    assert container["resources"]["limits"] == {"memory": "1Gi"}
    spaces = {obj["metadata"].get("namespace") for obj in rendered.values()}
    assert spaces == {None, "edge"}
    assert ("PodMonitor", AGENT) in rendered
    (subject,) = rendered["ClusterRoleBinding", f"vc-agent:{AGENT}"]["subjects"]
    assert subject["namespace"] == "edge"


def test_overlays_change_what_they_say() -> None:
    dev = by_name(kustomize("overlays/dev"))["Deployment", AGENT]["spec"]
    (container,) = dev["template"]["spec"]["containers"]
    assert (dev["replicas"], container["image"]) == (1, f"{AGENT}:dev")
    assert "--log-level=debug" in container["args"]
    edge = by_name(kustomize("overlays/kubeedge"))["Deployment", AGENT]["spec"]
    tolerated = {each["key"] for each in edge["template"]["spec"]["tolerations"]}
    assert "node-role.kubernetes.io/control-plane" in tolerated
