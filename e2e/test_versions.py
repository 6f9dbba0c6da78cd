"""Hosts and hubs of versions that were not measured, on a real API server."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
import yaml

from e2e.lab import objects
from e2e.lab.agent import ROOT, clean_environment
from e2e.lab.api import Api
from e2e.lab.lab import CLUSTERS
from e2e.lab.lone_server import lone_api_server
from e2e.lab.page_front import Fault, PageFront
from e2e.lab.wait import TIMEOUT_S, within
from karmada_vc_agent.model import versions
from tests.fakes.pages import PageFault

SETTINGS = """\
apiVersion: config.virtualcluster.kubeedge.io/v1alpha1
kind: AgentConfig
virtualClusters:
- {name: branch-a, nodeNames: [node-1]}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with lone_api_server(tmp_path_factory.mktemp("server") / "planes") as api:
        yield api


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command until its end, at most 20 s."""
    file = folder / "agent.yaml"
    file.write_text(SETTINGS)
    command, *others = arguments
    return subprocess.run(
        [
            *("timeout", "20", sys.executable, "-m", "karmada_vc_agent", command),
            *("--config", str(file), *others),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=clean_environment() | environment,
    )


def serve_version(server: Api, folder: Path, version: str) -> tuple[PageFront, Path]:
    """Return a proxy, not yet started, that says another version, and its kubeconfig."""
    kubeconfig = folder / "front.kubeconfig"
    kubeconfig.write_bytes(server.kubeconfig.read_bytes())
    front = PageFront(kubeconfig, folder / "front")
    front.begin(Fault(PageFault(200, orjson.dumps({"gitVersion": version})), ("/version",)))
    return front, kubeconfig


@pytest.mark.parametrize(("version", "code"), [("v1.29.15", 2), ("v1.34.4", 124), ("v1.38.0", 124)])
def test_join_warns_of_a_host_that_was_not_measured_and_the_agent_too_or_ends(
    server: Api, tmp_path: Path, version: str, code: int
) -> None:
    """The agent waits for its hub until it is ended; as an administrator nothing confines it."""
    front, kubeconfig = serve_version(server, tmp_path, version)
    hub = tmp_path / "hub.kubeconfig"
    content = yaml.safe_load(server.kubeconfig.read_text())
    content["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    hub.write_text(yaml.safe_dump(content))
    with front:
        joined = run(tmp_path, "join", "--kubeconfig", str(kubeconfig), "-o", "yaml")
        flags = ("--kubeconfig", str(kubeconfig), "--karmada-kubeconfig", str(hub))
        off = ("--health-probe-bind-address", "0", "--metrics-bind-address", "0")
        served = run(tmp_path, "run", *flags, *off, MANIFESTS_VERSION="0.0.9")
    text = versions.not_measured(version)
    assert joined.returncode == 0, joined.stderr
    assert joined.stderr == (f"Warning: {text}\n" if text else "")
    assert served.returncode == code, served.stderr
    assert (versions.unconfined(version) in served.stderr) == (code == 2)
    assert ("which was not measured" in served.stderr) == (version == "v1.38.0")
    assert "0.0.9" in served.stderr
    assert versions.OWN in served.stderr


def test_join_names_the_field_that_the_works_of_an_older_hub_lack(
    server: Api, tmp_path: Path
) -> None:
    entry = {"type": "object", "properties": {"health": {"type": "string"}}}
    status = {"manifestStatuses": {"type": "array", "items": entry}}
    parts = {
        "spec": {"type": "object", "properties": {"suspendDispatching": {"type": "boolean"}}},
        "status": {"type": "object", "properties": status},
    }
    works = objects.custom_definition("work.karmada.io", "Work", versions=("v1alpha1",))
    schema = {"type": "object", "properties": parts}
    works["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    clusters = objects.custom_definition("cluster.karmada.io", "Cluster", versions=("v1alpha1",))
    clusters["spec"]["scope"] = "Cluster"
    for definition in (works, clusters):
        server.create(definition)
    within(TIMEOUT_S, server.get, CLUSTERS)

    hub = str(server.kubeconfig)
    joined = run(tmp_path, "join", "--karmada-kubeconfig", hub, "-o", "yaml")

    assert joined.returncode == 0, joined.stderr
    (warning,) = (line for line in joined.stderr.splitlines() if "older Karmada" in line)
    assert "its Works have no spec.preserveResourcesOnDeletion" in warning
