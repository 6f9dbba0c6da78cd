"""Nodes that kwok simulates: as many as wanted, labels spread over them in turn."""

import asyncio
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from control_planes.api import ApiError, ApiServer, Object
from control_planes.errors import ControlPlanesError
from control_planes.wait import POLL_S, TIMEOUT_S, wait_for

KWOK_ANNOTATION = "kwok.x-k8s.io/node"
LABEL = re.compile(r"(?P<key>[^=,\s]+)=(?P<values>[^=\s]*)")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?")
QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
NODES = "/api/v1/nodes"
WRITERS = 4
SHOWN = 5
NODE_S = 0.3
"""How much longer each node may take on a busy machine."""
POLL_NODE_S = 0.002
"""A list of all nodes costs in proportion."""


@dataclass(frozen=True, slots=True)
class NodeSize:
    """What each node offers, as Kubernetes quantities."""

    cpu: str = "4"
    memory: str = "8Gi"
    pods: int = 110
    storage: str = "100Gi"


@dataclass(frozen=True, slots=True)
class NodeBatch:
    """Nodes to be made together. labels: as given, `branch=a,b,c`."""

    count: int = 0
    labels: tuple[str, ...] = ()
    size: NodeSize = NodeSize()
    prefix: str = "node"


def check(batch: NodeBatch) -> None:
    """Refuse what an API server would refuse, before anything is started."""
    for name, quantity in (("cpu", batch.size.cpu), ("memory", batch.size.memory)):
        if not QUANTITY.fullmatch(quantity):
            problem = f'"{quantity}" is not a valid quantity; say "4" or "8Gi"'
            raise ControlPlanesError(f"--{name} {problem}")
    if not NAME.fullmatch(batch.prefix):
        raise ControlPlanesError(
            f'--prefix "{batch.prefix}" makes no node names; use lower-case letters, digits and -'
        )
    for key, values in map(parse_label, batch.labels):
        for value in values:
            if not LABEL_VALUE.fullmatch(value):
                raise ControlPlanesError(f'--label {key}: "{value}" is not a valid label value')


def parse_label(text: str) -> tuple[str, list[str]]:
    """Split `branch=a,b,c` into the key and its values."""
    match = LABEL.fullmatch(text)
    if match is None:
        raise ControlPlanesError(f'--label "{text}" is not of the form KEY=VALUE,VALUE,...')
    return match["key"], match["values"].split(",")


def spread_labels(count: int, labels: Iterable[str]) -> list[dict[str, str]]:
    """Give each of `count` nodes one value of every label, in turn: a, b, c, a, b, c, ..."""
    parsed = [parse_label(text) for text in labels]
    return [
        {key: values[number % len(values)] for key, values in parsed} for number in range(count)
    ]


def choose_names(count: int, prefix: str, taken: Iterable[str]) -> list[str]:
    """Name new nodes node-1, node-2, ..., counting on from the highest that is there."""
    form = re.compile(rf"{re.escape(prefix)}-(\d+)")
    numbers = [int(match[1]) for name in taken if (match := form.fullmatch(name))]
    first = max(numbers, default=0) + 1
    return [f"{prefix}-{number}" for number in range(first, first + count)]


def describe_node(name: str, labels: dict[str, str], size: NodeSize) -> Object:
    """Return a node as an edge kubelet would register it, marked as kwok's."""
    resources = {
        "cpu": size.cpu,
        "memory": size.memory,
        "pods": str(size.pods),
        "ephemeral-storage": size.storage,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {KWOK_ANNOTATION: "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "beta.kubernetes.io/arch": "amd64",
                "node-role.kubernetes.io/edge": "",
                "node-role.kubernetes.io/agent": "",
            }
            | labels,
        },
        "status": {"capacity": resources, "allocatable": resources},
    }


async def add_nodes(api: ApiServer, batch: NodeBatch) -> list[str]:
    """Create nodes, wait until they are Ready and can take pods, return their names."""
    spread = spread_labels(batch.count, batch.labels)
    present = await asyncio.to_thread(api.get, NODES)
    taken = (item["metadata"]["name"] for item in present["items"])
    names = choose_names(batch.count, batch.prefix, taken)
    rest = iter([describe_node(*one, batch.size) for one in zip(names, spread, strict=True)])
    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(_create(api, rest))

    def unready() -> str:
        ready = {item["metadata"]["name"] for item in api.get(NODES)["items"] if is_usable(item)}
        missing = [name for name in names if name not in ready]
        shown = ", ".join(missing[:SHOWN])
        return f"{shown} and {len(missing) - SHOWN} more" if len(missing) > SHOWN else shown

    await wait_for(
        "nodes",
        unready,
        timeout_s=TIMEOUT_S + NODE_S * batch.count,
        poll_s=POLL_S + POLL_NODE_S * batch.count,
    )
    return names


async def _create(api: ApiServer, rest: Iterator[Object]) -> None:
    for node in rest:
        try:
            await asyncio.to_thread(api.create, node)
        except ApiError as error:
            name = node["metadata"]["name"]
            raise ControlPlanesError(f"node {name} is refused: {error}") from error


def is_usable(node: Object) -> bool:
    """Tell whether a node is Ready and has lost the taints that new nodes carry."""
    conditions = node.get("status", {}).get("conditions") or []
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not node.get("spec", {}).get("taints")
