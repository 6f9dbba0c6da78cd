"""The kind clusters of hack/kind-up, and how an administrator works on them."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.lab.api import Api, Object, collection
from e2e.lab.works import condition

ROOT = Path(__file__).parents[2]
AGENT = "karmada-vc-agent"
CLAIM = "virtualcluster.kubeedge.io/cluster"


@dataclass(frozen=True)
class Installed:
    """A set of kind clusters.

    environment: variables with which engine and kind are run. clusters: the name that kind has for
    hub and host. groups: of each worker of the host, by its name.
    """

    directory: Path
    hub: Api
    host: Api
    engine: str
    environment: Mapping[str, str]
    clusters: Mapping[str, str]
    karmada_server: str
    groups: Mapping[str, str]

    @staticmethod
    def read(directory: Path) -> "Installed":
        state = json.loads((directory / "kind.json").read_text())
        hub, host = (Api(directory / f"{name}.kubeconfig") for name in ("hub", "host"))
        return Installed(directory, hub, host, **state)

    def kubectl(
        self, *arguments: str, cluster: str = "host", content: str = "", code: int = 0
    ) -> str:
        """Run kubectl as the administrator of a cluster; content: its standard input.

        code: the exit code that is right.
        """
        kubeconfig = self.directory / f"{cluster}.kubeconfig"
        program = str(self.directory / "bin" / "kubectl")
        words = (program, "--kubeconfig", str(kubeconfig), *arguments)
        return command(*words, content=content, code=code)

    def join(self, *arguments: str) -> str:
        """Run `karmada-vc-agent join` of the release with the administrators' kubeconfigs."""
        hub = ("--karmada-kubeconfig", str(self.hub.kubeconfig))
        host = ("--kubeconfig", str(self.host.kubeconfig))
        server = ("--karmada-server", self.karmada_server)
        return command(os.environ["KIND_AGENT"], "join", *hub, *host, *server, *arguments)

    def load(self, archive: Path, cluster: str = "host") -> None:
        """Give all nodes of a cluster an image."""
        kind = str(self.directory / "bin" / "kind")
        self._run(kind, "load", "image-archive", str(archive), "--name", self.clusters[cluster])

    def on_node(self, node: str, script: str) -> str:
        """Run a shell script on a node."""
        return self._run(self.engine, "exec", node, "sh", "-euc", script)

    def in_pod(self, namespace: str, pod: str, script: str) -> str:
        """Run a Python script in a pod."""
        return self.kubectl("exec", "-n", namespace, pod, "--", "python3", "-c", script)

    def pods(self, cluster: str = "") -> list[Object]:
        """Return the pods of a virtual cluster that are to stay; of all where none is named."""
        selector = f"{CLAIM}={cluster}" if cluster else CLAIM
        spaces = self.host.list("/api/v1/namespaces", selector)
        return [
            pod
            for space in spaces
            for pod in self.host.list(collection("v1", "Pod", space["metadata"]["name"]))
            if not pod["metadata"].get("deletionTimestamp")
        ]

    def agent_pods(self) -> list[Object]:
        pods = self.host.list(collection("v1", "Pod", AGENT), f"app={AGENT}")
        return [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]

    def leader(self) -> str:
        """Return the name of the agent's pod that leads; AssertionError while none does."""
        path = f"{collection('coordination.k8s.io/v1', 'Lease', AGENT)}/{AGENT}"
        holder: str = self.host.get(path)["spec"]["holderIdentity"]
        leading = [pod for pod in map(_name, self.agent_pods()) if pod in holder]
        assert leading, f"{holder} leads, and is gone"
        return leading[0]

    def _run(self, *arguments: str) -> str:
        return command(*arguments, environment={**os.environ, **self.environment})


def command(
    *arguments: str,
    content: str = "",
    environment: Mapping[str, str] | None = None,
    code: int = 0,
) -> str:
    """Run a program; where it ends with another code, the test fails with what it said."""
    done = subprocess.run(
        arguments,
        input=content,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment,
    )
    said = (done.stdout + done.stderr)[-3000:]
    assert done.returncode == code, f"{' '.join(arguments[:6])} ...: {said}"
    return done.stdout


def is_ready(pod: Object) -> bool:
    try:
        return bool(condition(pod, "Ready")["status"] == "True")
    except AssertionError:
        return False


def lives(pods: list[Object]) -> dict[str, tuple[str, int]]:
    """Return of each pod its uid and how often its containers started again."""
    return {
        f"{pod['metadata']['namespace']}/{_name(pod)}": (
            pod["metadata"]["uid"],
            sum(each["restartCount"] for each in pod["status"].get("containerStatuses", [])),
        )
        for pod in pods
    }


def _name(pod: Any) -> str:
    return str(pod["metadata"]["name"])
