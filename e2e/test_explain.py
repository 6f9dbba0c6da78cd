"""`explain` where nothing is broken, `status`, and both in a Pod of the agent.

What is broken is in test_seeded_faults.py.
"""

import base64
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from e2e.lab import objects
from e2e.lab.access import account_kubeconfig
from e2e.lab.agent import ROOT, clean_environment, run_command
from e2e.lab.api import Object, collection
from e2e.lab.in_pod import VARIABLE, mounted
from e2e.lab.joining import Joining
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import THROUGH_HUB_S, within
from karmada_vc_agent.kube.kubeconfig import SERVICE_ACCOUNT

pytestmark = pytest.mark.shared_agent

FINE, HOST = 0, 5


def served(lab: Lab) -> Group:
    group = lab.group("a")
    lab.serve(group)
    return group


def by_administrators(lab: Lab) -> tuple[str, ...]:
    files = ("--karmada-kubeconfig", str(lab.hub.kubeconfig))
    return (*files, "--kubeconfig", str(lab.host.kubeconfig))


def test_nothing_is_broken_and_each_link_is_shown(lab: Lab) -> None:
    group = served(lab)
    template = objects.deployment(lab.namespace(), replicas=1)
    lab.propagate([template], group)
    namespace = template["metadata"]["namespace"]
    servers = (*by_administrators(lab), "--config", str(lab.agents[0].config))

    def look() -> None:
        done = run_command("explain", f"{namespace}/deploy/web", *servers)
        first, second, *_ = done.stdout.splitlines()
        text = f"nothing is broken in what was seen of Deployment {namespace}/web"
        assert (first, second) == (text, "next: nothing"), done.stdout + done.stderr
        assert done.returncode == FINE
        assert "1 of 1 ready" in done.stdout
        assert f"{namespace} is {group.host_namespace(namespace)} on the host" in done.stdout

    within(THROUGH_HUB_S, look)


def cells(table: str) -> dict[str, str]:
    """Return the first row of what `status` prints, by its columns."""
    head, row, *_ = table.splitlines()
    return dict(zip(head.split(), row.split(), strict=False))


def test_status_shows_nodes_works_and_why_one_is_not_ready(lab: Lab) -> None:
    group = served(lab)
    template = objects.config_map(lab.namespace())
    lab.propagate([template], group, suspension={"dispatching": True})

    def look() -> None:
        row = cells(run_command("status", group.name, *by_administrators(lab)).stdout)
        assert (row["READY"], row["NODES"], row["SUSPENDED"]) == ("True", "1/1", "1"), row

    within(THROUGH_HUB_S, look)


@pytest.mark.own_agent
def test_both_work_in_a_pod_of_the_agent_with_its_rights_and_mounts(lab: Lab) -> None:
    group = lab.group("a")
    joining = Joining(lab, group)
    joining.as_administrator()
    joining.serve()
    template = objects.deployment(lab.namespace(), replicas=1, cpu="64")
    lab.propagate([template], group)
    lab.on_host(template, group)
    in_pod = InPod(joining)
    row = cells(in_pod.run("status", group.name))
    assert (row["NAME"], row["READY"], row["NODES"]) == (group.name, "True", "1/1"), row
    what = (f"{template['metadata']['namespace']}/deploy/web", "-C", group.name)

    def look() -> None:
        text = in_pod.run("explain", *what, code=HOST)
        first = text.partition("\n")[0]
        named = (
            f"pods of Deployment {what[0].replace('deploy/', '')} fit on no node of {group.name}"
        )
        assert first.startswith(named), text
        assert "Applied=True" in text
        # It may not read what tenants of others write.
        assert "template not seen: hub: the account used needs rule" in text

    within(THROUGH_HUB_S, look)


class InPod:
    """Runs commands with what Pods of the Deployment have that `join` installed."""

    def __init__(self, joining: Joining) -> None:
        lab, namespace, name = joining.lab, joining.agent.namespace, joining.agent.name
        self._host, self._namespace, self._root = lab.host, namespace, lab.directory / "pod"
        deployments = collection("apps/v1", "Deployment", namespace)
        pod = lab.host.get(f"{deployments}/{name}")["spec"]["template"]["spec"]
        volumes = {each["name"]: each for each in pod["volumes"]}
        for mount in pod["containers"][0]["volumeMounts"]:
            self._mount(volumes[mount["name"]], Path(mount["mountPath"]))
        file = account_kubeconfig(lab.host.kubeconfig, namespace, name, lab.directory / "account")
        content = yaml.safe_load(file.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._write(SERVICE_ACCOUNT, {"token": user["token"], "ca.crt": ca, "namespace": namespace})
        server = urlsplit(cluster["server"])
        self._environment = clean_environment() | {
            VARIABLE: str(self._root),
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT": str(server.port),
        }

    def _mount(self, volume: Object, path: Path) -> None:
        if config_map := volume.get("configMap"):
            live = self._host.get(
                f"{collection('v1', 'ConfigMap', self._namespace)}/{config_map['name']}"
            )
            self._write(path, live["data"])
        elif "secret" in volume:
            name = volume["secret"]["secretName"]
            live = self._host.find(f"{collection('v1', 'Secret', self._namespace)}/{name}") or {}
            decoded = {
                key: base64.b64decode(text).decode() for key, text in live.get("data", {}).items()
            }
            self._write(path, decoded)

    def _write(self, path: Path, files: dict[str, str]) -> None:
        folder = mounted(self._root, path)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_text(content)

    def run(self, *arguments: str, code: int = FINE) -> str:
        """Run a command to its end; return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "e2e.lab.in_pod", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env=self._environment,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout
