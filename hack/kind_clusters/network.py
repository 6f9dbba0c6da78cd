"""The network between nodes where no CNI image can be pulled: routes between their podCIDRs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kind_clusters.engine import Engine

PODS = "10.244.0.0/16"
CONFIG = "/etc/cni/net.d/10-routes.conflist"
ROUTES = "/etc/kubernetes/pod-routes.sh"
UNIT = "/etc/systemd/system/pod-routes.service"
IPTABLES = "iptables-nft -w"
"""The same as kube-proxy has; what `iptables` is, the entrypoint of a node guesses."""
_ROUTE = """route() {
  address="$(getent ahostsv4 "$2" | { read -r first rest || true; echo "$first"; })"
  if [ -n "$address" ]; then ip route replace "$1" via "$address"; fi
}"""
_SERVICE = f"""[Unit]
Description=Routes to the pods of other nodes
[Service]
ExecStart=/bin/sh -c 'while :; do sh {ROUTES}; sleep 5; done'
Restart=always
[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """A node: its name, its address and the range of its pods."""

    name: str
    address: str
    pods: str


def addresses(nodes: dict[str, Any]) -> list[NodeAddress]:
    """Read a NodeList. Nodes without an address or a range of pods are left out."""
    found = []
    for node in nodes["items"]:
        internal = [
            each["address"]
            for each in node["status"].get("addresses", [])
            if each["type"] == "InternalIP" and "." in each["address"]
        ]
        if internal and (pods := node["spec"].get("podCIDR")):
            found.append(NodeAddress(node["metadata"]["name"], internal[0], pods))
    return found


def conflist(pods: str) -> str:
    """Return the configuration of a node: a link for each pod, host ports. pods: its range."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/cni-ipam-state",
    }
    plugins = [
        {"type": "ptp", "ipMasq": False, "ipam": ipam, "mtu": 1500},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "0.4.0", "name": "routes", "plugins": plugins}, indent=2)


def script(node: NodeAddress, others: list[NodeAddress]) -> str:
    """Return what a node runs: routes to the pods of the others, its address to elsewhere.

    Others are found by name: the engine may give a node another address when it starts again.
    """
    rule = f"POSTROUTING -s {node.pods} ! -d {PODS} -j MASQUERADE"
    lines = [
        _ROUTE,
        *(f"route {other.pods} {other.name}" for other in others),
        f"{IPTABLES} -t nat -C {rule} 2>/dev/null || {IPTABLES} -t nat -A {rule}",
    ]
    return "\n".join(lines) + "\n"


def connect(engine: Engine, nodes: list[NodeAddress]) -> None:
    """Configure all nodes; may be done again. A node's container has the name of the node."""
    for node in nodes:
        others = [other for other in nodes if other != node]
        for path, content in ((ROUTES, script(node, others)), (UNIT, _SERVICE)):
            _write(engine, node, path, content)
        engine.inside(node.name, "sh", "-eu", ROUTES)
        engine.inside(node.name, "systemctl", "enable", "--quiet", "--now", Path(UNIT).name)
        _write(engine, node, CONFIG, conflist(node.pods))


def _write(engine: Engine, node: NodeAddress, path: str, content: str) -> None:
    write = f"mkdir -p {Path(path).parent}; cat >{path}"
    engine.inside(node.name, "sh", "-euc", write, content=content.encode())
