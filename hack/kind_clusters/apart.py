"""Keep real nodes and simulated ones apart: `python -m kind_clusters.apart DIR HOST`.

Pods of the suite have images that nobody can pull, and count what runs on their nodes: they must
not come to a real node, nor kind's own pods to a simulated one.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from control_planes.nodes import KWOK_ANNOTATION
from kind_clusters import shell

EDGE = "node-role.kubernetes.io/edge"
"""The label of every node that a test makes, and of none that kind makes."""
TAINT = "karmada-vc-agent/real=:NoSchedule"
_OFF_EDGE = {"matchExpressions": [{"key": EDGE, "operator": "DoesNotExist"}]}
_REQUIRED = {"nodeSelectorTerms": [_OFF_EDGE]}
PATCH: dict[str, Any] = {
    "spec": {
        "template": {
            "spec": {
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _REQUIRED}
                }
            }
        }
    }
}
"""What KubeEdge tells administrators to do with kube-proxy."""
_SETTLED = "--timeout=120s"


def commands(nodes: dict[str, Any], workloads: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield arguments of kubectl. nodes: a NodeList. workloads: Deployments and DaemonSets."""
    for workload in workloads["items"]:
        metadata, kind = workload["metadata"], workload["kind"].lower()
        target = ("-n", metadata["namespace"], f"{kind}/{metadata['name']}")
        yield ("patch", *target, "--patch", json.dumps(PATCH))
        yield ("rollout", "status", *target, _SETTLED)
    for node in nodes["items"]:
        if KWOK_ANNOTATION not in node["metadata"].get("annotations", {}):
            yield ("taint", "--overwrite", "node", node["metadata"]["name"], TAINT)


def keep_apart(kubectl: Path, kubeconfig: Path) -> None:
    """Keep both apart in a cluster; may be done again. Raises ControlPlanesError."""

    def run(*arguments: str) -> str:
        return shell.run(kubectl, "--kubeconfig", kubeconfig, *arguments)

    nodes = json.loads(run("get", "nodes", "-o", "json"))
    workloads = json.loads(run("get", "deployments,daemonsets", "-A", "-o", "json"))
    for arguments in commands(nodes, workloads):
        run(*arguments)


if __name__ == "__main__":
    found = Path(sys.argv[1])
    keep_apart(found / "bin" / "kubectl", found / f"{sys.argv[2]}.kubeconfig")
