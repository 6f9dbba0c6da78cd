"""manifests/ as its users apply it: rendered by kubectl and by Helm, and accepted by a host."""

import os
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from control_planes import tools
from e2e.lab.agent import ROOT
from e2e.lab.api import Api, Object, path_of
from e2e.lab.lone_server import lone_api_server
from e2e.lab.wait import PERIODIC_S, wait_until_deleted, within
from generate.manifests import files
from karmada_vc_agent.cli import main
from karmada_vc_agent.model.vocabulary import (
    AGENT_LABEL,
    CLUSTER_LABEL,
    NAMESPACE_LABEL,
    gateway_role,
)

MANIFESTS = ROOT / "manifests"
AGENT = "karmada-vc-agent"
SETTINGS = MANIFESTS / "base" / "agent.yaml"
KUSTOMIZED = ("base", "overlays/kubeedge", "overlays/dev")
CLUSTER_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
VIRTUAL_CLUSTER_CRD = ("CustomResourceDefinition", "virtualclusters.virtualcluster.kubeedge.io")
KUBERNETES = (tools.TOOL_MODULES / "kubernetes" / "go.mod").read_text()
Named = dict[tuple[str, str], Object]


def run(program: str, *arguments: str | Path) -> str:
    path = tools.program_paths()[program]
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def by_name(text: str) -> Named:
    """Return the objects of a YAML stream by kind and name."""
    objects = [obj for obj in yaml.safe_load_all(text) if obj]
    found = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}
    assert len(found) == len(objects)
    return found


def read(text: str) -> Named:
    """Return the objects by kind and name, with the agent's settings read, to compare them.

    Without the Namespace, which Helm needs beforehand.
    """
    found = {key: obj for key, obj in by_name(text).items() if key[0] != "Namespace"}
    settings: Any = found["ConfigMap", AGENT]["data"]
    settings["agent.yaml"] = yaml.safe_load(settings["agent.yaml"])
    return found


def kustomize(directory: str | Path) -> str:
    return run("kubectl", "kustomize", MANIFESTS / directory)


def helm(*flags: str | Path, namespace: str = AGENT) -> str:
    """Render the chart as for a host of the version that the tests run."""
    version = tools.required_version(KUBERNETES, "k8s.io/kubernetes")
    told = ("--include-crds", "--kube-version", version, *flags)
    return run("helm", "template", AGENT, MANIFESTS / "chart", "-n", namespace, *told)


@pytest.mark.parametrize("directory", KUSTOMIZED)
def test_a_host_accepts_every_object(host: Api, tmp_path: Path, directory: str) -> None:
    rendered = tmp_path / "rendered.yaml"
    # A dry run makes no namespace, so what goes into it is tried in another one.
    objects = [*by_name(kustomize(directory)).values()]
    for obj in objects:
        if "namespace" in obj["metadata"]:
            obj["metadata"]["namespace"] = "default"
    rendered.write_text(yaml.safe_dump_all(objects))
    # Other stories join this host meanwhile, so some fields have owners already.
    flags = ("--dry-run=server", "--server-side", "--force-conflicts", "--validate=strict")
    told = run("kubectl", "--kubeconfig", host.kubeconfig, "apply", *flags, "-f", rendered)
    assert len(told.splitlines()) == len(objects)


def test_chart_renders_what_the_base_has() -> None:
    assert read(helm()) == read(kustomize("base"))


def test_chart_with_values_renders_what_an_overlay_with_them_has(tmp_path: Path) -> None:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    settings = yaml.safe_load(SETTINGS.read_text()) | {"objects": {"enabled": True}}
    (tmp_path / "agent.yaml").write_text(yaml.safe_dump(settings))
    values = {"image": "r.example:5000/agent:2", "replicas": 3, "resources": resources}
    more = {"monitoring": True, "konnectivity": True}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values | more))
    path = "/spec/template/spec/containers/0/resources"
    replaced = [{"op": "replace", "path": path, "value": resources}]
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "sortOptions": {"order": "fifo"},
        "resources": [os.path.relpath(MANIFESTS / "base", tmp_path)],
        "components": [
            os.path.relpath(MANIFESTS / "components" / name, tmp_path)
            for name in ("monitoring", "konnectivity")
        ],
        "images": [{"name": AGENT, "newName": "r.example:5000/agent", "newTag": "2"}],
        "replicas": [{"name": AGENT, "count": 3}],
        "patches": [
            {
                "target": {"kind": "Deployment", "name": AGENT},
                "patch": yaml.safe_dump(replaced),
            }
        ],
        "configMapGenerator": [
            {"name": AGENT, "namespace": AGENT, "behavior": "replace", "files": ["agent.yaml"]}
        ],
        "generatorOptions": {"disableNameSuffixHash": True},
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    chart = read(
        helm(
            *("--values", tmp_path / "values.yaml"),
            *("--set-file", f"settings={tmp_path / 'agent.yaml'}"),
        )
    )
    assert chart["ConfigMap", AGENT]["data"] == {"agent.yaml": settings}
    assert chart["Deployment", AGENT]["spec"]["replicas"] == 3
    assert ("PodMonitor", AGENT) in chart
    assert ("Deployment", "konnectivity-agent") in chart
    assert chart == read(kustomize(tmp_path))


def test_chart_with_shards_renders_what_the_component_makes(tmp_path: Path) -> None:
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "sortOptions": {"order": "fifo"},
        "resources": [os.path.relpath(MANIFESTS / "base", tmp_path)],
        "components": [os.path.relpath(MANIFESTS / "components/shards", tmp_path)],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    rendered = read(helm("--set", "shards=2"))
    spec = rendered["Deployment", AGENT]["spec"]
    assert spec["replicas"] == 3
    assert spec["template"]["spec"]["containers"][0]["args"][-1] == "--shard=auto/2"
    assert rendered == read(kustomize(tmp_path))


def test_chart_in_another_namespace_renders_what_join_makes_for_it() -> None:
    """Kustomize cannot: policies name the agent's account in expressions."""
    sides = ("--only", "host", "--agent-namespace", "edge", "--image", "r.example/agent:2")
    made = CliRunner().invoke(main, ["join", "--config", str(SETTINGS), *sides, "-o", "yaml"])
    assert made.exit_code == 0, made.output
    wanted = read(made.output)
    # Of the settings: their digest, which restarts the agent where it does not read them again.
    del wanted["Deployment", AGENT]["spec"]["template"]["metadata"]["annotations"]
    chart = read(helm("--set", "image=r.example/agent:2", namespace="edge"))
    del chart[VIRTUAL_CLUSTER_CRD]
    assert {obj["metadata"].get("namespace") for obj in chart.values()} == {None, "edge"}
    assert chart == wanted


def test_both_are_installed_and_removed_as_the_readme_says(tmp_path: Path) -> None:
    with lone_api_server(tmp_path / "host") as host:
        base = MANIFESTS / "base"
        kubectl = ("kubectl", "--kubeconfig", host.kubeconfig)
        run(*kubectl, "apply", "-k", base)
        by_kubectl = live(host, by_name(kustomize("base")))
        run(*kubectl, "delete", "--wait=false", "-k", base)
        # Helm leaves a CRD alone that is being deleted.
        wait_until_deleted(host, path_of(by_name(kustomize("base"))[VIRTUAL_CLUSTER_CRD]))
        namespace = "edge"  # the other one stays: nobody finalises namespaces here
        access = ("--kubeconfig", host.kubeconfig, "-n", namespace)
        installs = ("upgrade", "--install", "--create-namespace", AGENT, MANIFESTS / "chart")
        run("helm", *installs, *access)
        by_helm = live(host, by_name(helm(namespace=namespace)))
        assert by_helm == by_kubectl - {("Namespace", AGENT)}
        run("helm", "uninstall", AGENT, *access)
        assert live(host, by_name(helm(namespace=namespace))) == {VIRTUAL_CLUSTER_CRD}


def live(host: Api, objects: Named) -> set[tuple[str, str]]:
    """Return which of these objects a host has."""
    return {key for key, obj in objects.items() if host.find(path_of(obj)) is not None}


def test_overlays_change_what_they_say() -> None:
    dev = by_name(kustomize("overlays/dev"))["Deployment", AGENT]["spec"]
    (container,) = dev["template"]["spec"]["containers"]
    assert (dev["replicas"], container["image"]) == (1, f"{AGENT}:dev")
    assert "--log-level=debug" in container["args"]
    edge = by_name(kustomize("overlays/kubeedge"))["Deployment", AGENT]["spec"]
    tolerated = {each["key"] for each in edge["template"]["spec"]["tolerations"]}
    assert "node-role.kubernetes.io/control-plane" in tolerated


def test_manifests_and_join_may_be_mixed_and_repeated(tmp_path: Path) -> None:
    with lone_api_server(tmp_path / "host") as host:
        apply = ("--kubeconfig", host.kubeconfig, "apply", "--server-side")
        base = ("-k", MANIFESTS / "base")
        run("kubectl", *apply, *base)
        join_host(host, SETTINGS)
        run("kubectl", *apply, *base)

        # By other settings other rights follow, and one of both has to give way.
        other = tmp_path / "agent.yaml"
        settings = yaml.safe_load(SETTINGS.read_text())
        other.write_text(yaml.safe_dump(settings | {"objects": {"enabled": True, "anyName": True}}))
        join_host(host, other)
        with pytest.raises(AssertionError, match="conflict"):
            run("kubectl", *apply, *base)
        run("kubectl", *apply, "--force-conflicts", *base)
        join_host(host, other)


@pytest.mark.parametrize("installs", ["kustomize", "server-side", "helm"])
def test_applying_manifests_again_keeps_the_names_that_join_gave(
    tmp_path: Path, installs: str
) -> None:
    """NodeGroups with a gateway, whose names the settings do not have (ADR 62)."""
    manifests = tmp_path / "manifests"
    settings = manifests / "base" / "agent.yaml"
    shutil.copytree(MANIFESTS, manifests)
    head = {key: yaml.safe_load(SETTINGS.read_text())[key] for key in ("apiVersion", "kind")}
    sources = {"nodeGroups": {"enabled": True}, "discover": {"nodeLabel": "shop"}}
    gateway = {"gateway": {"enabled": True, "host": "gateway.example"}}
    settings.write_text(yaml.safe_dump(head | sources | gateway))
    for path, text in files(settings).items():
        if path.is_relative_to(MANIFESTS):  # the CRD of the package does not depend on settings
            (manifests / path.relative_to(MANIFESTS)).write_text(text)
    with lone_api_server(tmp_path / "host") as host:
        program, *arguments = _install(installs, manifests, host)
        install = partial(run, program, *arguments)
        agent = host.acting_as(f"system:serviceaccount:{AGENT}:{AGENT}")
        install()
        assert "cannot create" in claim(agent, "branch-east"), "no rights before join"
        join_host(host, settings, "branch-east")
        install()
        within(PERIODIC_S, claims_alone, agent, {"branch-east"}, "branch-west")
        assert len(readers(host)) == 1
        join_host(host, settings, "branch-west")
        install()
        within(PERIODIC_S, claims_alone, agent, {"branch-east", "branch-west"}, "branch-north")
        assert len(readers(host)) == 2


def _install(way: str, manifests: Path, host: Api) -> tuple[str, ...]:
    """Return the command that installs manifests on a host in one way."""
    access = ("--kubeconfig", str(host.kubeconfig))
    if way == "helm":
        release = ("--install", "--create-namespace", AGENT, str(manifests / "chart"), "-n", AGENT)
        return ("helm", "upgrade", *release, *access)
    flags = ("--server-side", "--force-conflicts") if way == "server-side" else ()
    return ("kubectl", *access, "apply", *flags, "-k", str(manifests / "base"))


def claims_alone(agent: Api, clusters: set[str], other: str) -> None:
    """Assert that the agent may claim namespaces for these virtual clusters, and not another."""
    assert [claim(agent, cluster) for cluster in clusters] == [""] * len(clusters)
    assert "may write only namespaces that it claims" in claim(agent, other)


def claim(agent: Api, cluster: str) -> str:
    """Claim a namespace for a virtual cluster by dry run; return the refusal."""
    labels = {CLUSTER_LABEL: cluster, NAMESPACE_LABEL: "bank", AGENT_LABEL: AGENT}
    metadata = {"name": f"bank-v-{cluster}", "labels": labels}
    return agent.refusal({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def readers(host: Api) -> set[str]:
    """Return the virtual clusters whose callers may read what has no namespace."""
    binding = host.get(f"{CLUSTER_BINDINGS}/{gateway_role(AGENT)}:readers")
    return {subject["name"].split(":")[1] for subject in binding["subjects"]}


def join_host(host: Api, settings: Path, *names: str) -> None:
    """Run `join` for the host alone, as an administrator of it."""
    sides = ["--only", "host", "--apply", "--kubeconfig", str(host.kubeconfig)]
    sides += [flag for name in names for flag in ("--name", name)]
    joined = CliRunner().invoke(main, ["join", "--config", str(settings), *sides])
    assert joined.exit_code == 0, joined.output
