"""Kind clusters: made, loaded with images, removed."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from control_planes.errors import ControlPlanesError
from kind_clusters import network, shell
from kind_clusters.engine import Engine
from kind_clusters.progress import say

GROUP_LABEL = "node-restriction.kubernetes.io/branch"
READY_S = 240
NETWORK_IS_THERE = "network already exists"
"""What podman says to the second one that makes it; kind has not begun with the cluster then."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A kind cluster. groups: the group of each worker. kubeconfig: of its administrator.

    node_port: a port of the node that is also one of the machine's loopback; 0 for none.
    """

    name: str
    kubeconfig: Path
    groups: Sequence[str] = ()
    node_port: int = 0

    @property
    def control_plane(self) -> str:
        return f"{self.name}-control-plane"

    @property
    def workers(self) -> list[str]:
        """Return the names of the workers, as kind gives them."""
        numbers = range(1, len(self.groups) + 1)
        return [f"{self.name}-worker{'' if number == 1 else number}" for number in numbers]


def kind_config(cluster: Cluster, *, own_network: bool) -> str:
    """Return kind's configuration. own_network: whether the nodes get routes instead of a CNI."""
    control_plane: dict[str, Any] = {"role": "control-plane"}
    if cluster.node_port:
        port = {"containerPort": cluster.node_port, "hostPort": cluster.node_port}
        control_plane["extraPortMappings"] = [{**port, "listenAddress": "127.0.0.1"}]
    document = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {"disableDefaultCNI": own_network, "podSubnet": network.PODS},
        "nodes": [control_plane, *({"role": "worker"} for _ in cluster.groups)],
    }
    return yaml.safe_dump(document, sort_keys=False)


class Kind:
    """Kind and kubectl with one engine. programs: both, by name. image: of the nodes."""

    def __init__(self, engine: Engine, programs: Mapping[str, Path], image: str = "") -> None:
        self._engine = engine
        self._kind, self._kubectl = programs["kind"], programs["kubectl"]
        self._image = image

    def create(self, cluster: Cluster) -> None:
        """Make a cluster and return once its nodes are Ready. Raises ControlPlanesError."""
        say(f"{cluster.name}: starting {1 + len(cluster.groups)} node(s)")
        own_network = not self._engine.pulls_nodes
        config = kind_config(cluster, own_network=own_network).encode()
        flags = ("--name", cluster.name, "--image", self._image, "--config", "-")
        kubeconfig = ("--kubeconfig", cluster.kubeconfig)
        try:
            self._run("create", "cluster", *flags, *kubeconfig, content=config)
        except ControlPlanesError as error:
            if NETWORK_IS_THERE not in error.detail:
                raise
            # The first clusters of a machine look for kind's network, and make it, at once.
            self._run("create", "cluster", *flags, *kubeconfig, content=config)
        if own_network:
            network.connect(self._engine, self._addresses(cluster))
        self.kubectl(cluster, "wait", "nodes", "--all", "--for=condition=Ready", _timeout())
        for worker, group in zip(cluster.workers, cluster.groups, strict=True):
            self.kubectl(cluster, "label", "node", worker, f"{GROUP_LABEL}={group}")
        deployments = ("-n", "kube-system", "deployment/coredns")
        self.kubectl(cluster, "rollout", "status", *deployments, _timeout())
        say(f"{cluster.name}: ready")

    def _addresses(self, cluster: Cluster) -> list[network.NodeAddress]:
        """Return the addresses of all nodes, once each has its range of pods."""
        deadline = time.monotonic() + READY_S
        while len(found := network.addresses(self.nodes(cluster))) <= len(cluster.groups):
            if time.monotonic() > deadline:
                raise ControlPlanesError(f"{cluster.name}: not every node has a podCIDR")
            time.sleep(1)
        return found

    def load(self, cluster: Cluster, archive: Path) -> None:
        """Give all nodes of a cluster the image of an archive. Raises ControlPlanesError."""
        self._run("load", "image-archive", archive, "--name", cluster.name)

    def retire_node(self, cluster: Cluster) -> None:
        """Take the one node of a cluster away; its control plane goes on without a kubelet.

        Raises ControlPlanesError.
        """
        node = cluster.control_plane
        workloads = ("delete", "deployments,daemonsets", "-A", "--all")
        self.kubectl(cluster, *workloads, "--cascade=foreground")
        self._engine.inside(node, "systemctl", "disable", "--quiet", "--now", "kubelet")
        self.kubectl(cluster, "delete", "node", node)
        own = ("--field-selector", f"spec.nodeName={node}")
        self.kubectl(cluster, "delete", "pods", "-A", *own, "--force", "--grace-period=0")
        say(f"{cluster.name}: has no node any more")

    def delete(self, name: str) -> None:
        """Remove a cluster, or what is left of one. Raises ControlPlanesError."""
        self._run("delete", "cluster", "--name", name)

    def names(self) -> list[str]:
        """Return the names of all kind clusters of this machine."""
        return self._run("get", "clusters").split()

    def nodes(self, cluster: Cluster) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl(cluster, "get", "nodes", "-o", "json"))
        return found

    def address(self, cluster: Cluster) -> str:
        """Return the address of the control plane's node, which all containers reach."""
        control_plane = [
            node
            for node in network.addresses(self.nodes(cluster))
            if node.name == cluster.control_plane
        ]
        return control_plane[0].address

    def kubectl(self, cluster: Cluster, *arguments: str) -> str:
        return shell.run(self._kubectl, "--kubeconfig", cluster.kubeconfig, *arguments)

    def _run(self, *arguments: shell.Argument, content: bytes | None = None) -> str:
        environment = self._engine.environment
        return shell.run(self._kind, *arguments, environment=environment, content=content)


def _timeout() -> str:
    return f"--timeout={READY_S}s"
