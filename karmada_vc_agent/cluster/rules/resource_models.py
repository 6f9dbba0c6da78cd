"""Sort nodes into the grades of spec.resourceModels by their free resources (contract 4.4)."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

from karmada_vc_agent.cluster.rules import resource_summary
from karmada_vc_agent.cluster.rules.resource_summary import CPU, PODS, Totals
from karmada_vc_agent.model import quantity
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.objects import Object


def allocatable_modelings(
    resource_models: Sequence[Object], nodes: Iterable[Node], pods_on_nodes: Iterable[Pod]
) -> list[Object]:
    """Count the nodes of each grade, one `{"grade", "count"}` for each model, in order.

    resource_models: as in Cluster.spec, `{"grade", "ranges": [{"name", "min", "max"}]}`.
    pods_on_nodes: finished ones are not counted. No models give no entries.
    Deviation: Karmada stops at the first node without a free pod slot, so its result depends on the
    order of its cache. Here such a node is skipped, and the others count.
    """
    minimums = _minimums(resource_models)
    if not minimums:
        return []
    pods_by_node: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods_on_nodes:
        if not pod.is_finished:
            pods_by_node[pod.spec.node_name].append(pod)
    counts = [0] * len(resource_models)
    for node in nodes:
        grade = _grade_index(minimums, node, pods_by_node.get(node.metadata.name, []))
        if grade >= 0:
            counts[grade] += 1
    return [
        {"grade": model.get("grade") or 0, "count": count}
        for model, count in zip(resource_models, counts, strict=True)
    ]


def _minimums(resource_models: Sequence[Object]) -> dict[str, list[int]]:
    """Return, for each resource of the models, its minimums in ascending order, in nano units."""
    minimums: dict[str, list[int]] = defaultdict(list)
    for model in resource_models:
        for range_ in model.get("ranges") or ():
            minimums[range_["name"]].append(quantity.parse(range_["min"]).nano)
    return minimums


def _grade_index(minimums: dict[str, list[int]], node: Node, pods: list[Pod]) -> int:
    """Return the index of the highest grade whose minimums a node meets, -1 for none."""
    allocatable = node.status.allocatable
    requested = resource_summary.sum_requests(pods) if pods else {}
    slots = resource_summary.in_unit(PODS, allocatable.get(PODS, "0"))
    if pods and slots <= requested[PODS]:
        return -1
    return min(
        bisect_right(steps, _available(name, allocatable.get(name), requested)) - 1
        for name, steps in minimums.items()
    )


def _available(name: str, allocatable: str | None, requested: Totals) -> int:
    """Return the free amount of a resource on a node, in nano units; negative if overcommitted."""
    offered = quantity.read(allocatable or "")
    if offered is None:
        return 0
    amount = requested.get(name, 0)
    taken = quantity.of_milli(amount) if name == CPU else quantity.of_whole(amount)
    return offered.nano - taken.nano
