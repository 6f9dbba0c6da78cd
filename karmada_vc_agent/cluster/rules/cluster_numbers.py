"""The numbers of a Cluster status that karmada-agent exposes as metrics (contract 9.6)."""

from karmada_vc_agent.cluster.rules.conditions import find_condition
from karmada_vc_agent.cluster.rules.readiness import READY
from karmada_vc_agent.model import quantity
from karmada_vc_agent.model.objects import Object, dig

_NANO = 1e9
_RESOURCES = {
    "memory": "cluster_memory_{}_bytes",
    "cpu": "cluster_cpu_{}_number",
    "pods": "cluster_pod_{}_number",
}


def cluster_numbers(status: Object) -> dict[str, float]:
    """Return metric name -> value: bytes, cores, pods, nodes.

    What the status does not report has no value: no resources while resource modeling is off. A
    resource missing in a summary is 0, since summaries omit zeros (contract 4.4).
    Source: karmada pkg/metrics/cluster.go, which keeps the last value instead.
    """
    ready = find_condition(status.get("conditions"), READY)
    numbers = {"cluster_ready_state": float(ready is not None and ready["status"] == "True")}
    nodes = status.get("nodeSummary")
    if nodes is not None:
        numbers["cluster_node_number"] = float(nodes.get("totalNum", 0))
        numbers["cluster_ready_node_number"] = float(nodes.get("readyNum", 0))
    if status.get("resourceSummary") is not None:
        for part in ("allocatable", "allocated"):
            resources = dig(status, "resourceSummary", part) or {}
            for resource, name in _RESOURCES.items():
                amount = quantity.read(resources.get(resource, 0))
                numbers[name.format(part)] = amount.nano / _NANO if amount is not None else 0.0
    return numbers
