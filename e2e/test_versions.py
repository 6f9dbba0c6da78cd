"""Hosts and hubs of versions that were not measured, on a real API server."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
import yaml

from e2e.lab import objects
from e2e.lab.agent import EXIT_S, ROOT, clean_environment, run_command
from e2e.lab.api import Api
from e2e.lab.lab import CLUSTERS
from e2e.lab.lone_server import lone_api_server
from e2e.lab.page_front import Fault, PageFront
from e2e.lab.wait import STARTED_S, eventually, within
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


WAITS = "Waiting for API server | server=hub"


def settings(folder: Path) -> str:
    """Write a settings file; return its path."""
    file = folder / "agent.yaml"
    file.write_text(SETTINGS)
    return str(file)


def join(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return run_command("join", "--config", settings(folder), *flags, "-o", "yaml")


def serve(folder: Path, *flags: str, **environment: str) -> tuple[int, str]:
    """Run the agent until it ends or waits for its hub; return exit code and what it writes."""
    log = folder / "agent.log"
    command = [sys.executable, "-m", "karmada_vc_agent", "run", "--config", settings(folder)]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*command, *flags],
            stdout=output,
            stderr=output,
            cwd=ROOT,
            env=clean_environment() | environment,
        ) as process,
    ):

        def look() -> None:
            assert process.poll() is not None or WAITS in log.read_text(), log.read_text()

        try:
            within(STARTED_S, look)
        finally:
            process.terminate()
        code = process.wait(EXIT_S)
    return code, log.read_text()


def serve_version(server: Api, folder: Path, version: str) -> tuple[PageFront, Path]:
    """Return a proxy, not yet started, that says another version, and its kubeconfig."""
    kubeconfig = folder / "front.kubeconfig"
    kubeconfig.write_bytes(server.kubeconfig.read_bytes())
    front = PageFront(kubeconfig, folder / "front")
    front.begin(Fault(PageFault(200, orjson.dumps({"gitVersion": version})), ("/version",)))
    return front, kubeconfig


@pytest.mark.parametrize(("version", "code"), [("v1.29.15", 2), ("v1.34.4", 0), ("v1.38.0", 0)])
def test_join_warns_of_a_host_that_was_not_measured_and_the_agent_too_or_ends(
    server: Api, tmp_path: Path, version: str, code: int
) -> None:
    """The agent waits for its hub; as an administrator nothing confines it."""
    front, kubeconfig = serve_version(server, tmp_path, version)
    hub = tmp_path / "hub.kubeconfig"
    content = yaml.safe_load(server.kubeconfig.read_text())
    content["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    hub.write_text(yaml.safe_dump(content))
    with front:
        joined = join(tmp_path, "--kubeconfig", str(kubeconfig))
        flags = ("--kubeconfig", str(kubeconfig), "--karmada-kubeconfig", str(hub))
        off = ("--health-probe-bind-address", "0", "--metrics-bind-address", "0")
        ended, log = serve(tmp_path, *flags, *off, MANIFESTS_VERSION="0.0.9")
    text = versions.not_measured(version)
    assert joined.returncode == 0, joined.stderr
    assert joined.stderr == (f"Warning: {text}\n" if text else "")
    assert ended == code, log
    assert (versions.unconfined(version) in log) == (code == 2)
    assert ("which was not measured" in log) == (version == "v1.38.0")
    assert "0.0.9" in log
    assert versions.OWN in log


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
    eventually(server.get, CLUSTERS)

    joined = join(tmp_path, "--karmada-kubeconfig", str(server.kubeconfig))

    assert joined.returncode == 0, joined.stderr
    (warning,) = (line for line in joined.stderr.splitlines() if "older Karmada" in line)
    assert "its Works have no spec.preserveResourcesOnDeletion" in warning
