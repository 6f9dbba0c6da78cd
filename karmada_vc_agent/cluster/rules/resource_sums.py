"""Sums of capacity, requests and grades of nodes, counted as Karmada counts (4.4)."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from karmada_vc_agent.model import quantity
from karmada_vc_agent.model.core import Container, Node, Pod
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.quantity import Quantity, Raw

Totals = dict[str, int]
"""Resource name -> amount: cpu in milli-cores, everything else in whole units."""

CPU = "cpu"
PODS = "pods"

_BINARY_NAMES = frozenset(("memory", "ephemeral-storage"))
_COUNTED_NAMES = _BINARY_NAMES | {CPU, PODS}
_HUGE_PAGES_PREFIX = "hugepages-"
_ATTACHABLE_VOLUMES_PREFIX = "attachable-volumes-"
_NATIVE_DOMAIN = "kubernetes.io/"
_QUOTA_PREFIX = "requests."


def summarize_resources(
    nodes: Iterable[Node], pods_on_nodes: Iterable[Pod], pending_pods: Iterable[Pod]
) -> Object:
    """Return resourceSummary without allocatableModelings; empty lists are omitted.

    nodes: all of the virtual cluster, ready or not. pods_on_nodes: every pod bound to one of them;
    finished ones are not counted. pending_pods: its pods without a node, any phase.
    Source: contract 4.4.
    """
    summary = {
        "allocatable": sum_allocatable(nodes),
        "allocating": resource_list(sum_requests(pending_pods)),
        "allocated": resource_list(sum_requests(p for p in pods_on_nodes if not p.is_finished)),
    }
    return {name: resources for name, resources in summary.items() if resources}


def sum_allocatable(nodes: Iterable[Node]) -> dict[str, str]:
    """Sum the allocatable of nodes by resource; a sum keeps the format of its first addend.

    Karmada takes nodes in the order of its cache; here they are sorted by name, so that the format
    does not change between syncs.
    """
    sums: dict[str, Quantity] = {}
    for node in sorted(nodes, key=lambda node: node.metadata.name):
        for name, raw in node.status.allocatable.items():
            amount = quantity.read(raw)
            if amount is not None:
                sums[name] = sums[name] + amount if name in sums else amount
    return {name: str(sums[name]) for name in sorted(sums)}


def within_quota(allocatable: Mapping[str, str], quota: Mapping[str, str]) -> dict[str, str]:
    """Return the allocatable, capped by a quota for each resource.

    quota: `hard` of a ResourceQuota; its limits do not restrict what can be requested.
    """
    capped = dict(allocatable)
    for name, raw in quota.items():
        resource = _resource_of_quota(name)
        if resource in capped:
            allowed = quantity.parse(raw)
            if allowed.nano < quantity.parse(capped[resource]).nano:
                capped[resource] = str(allowed)
    return capped


def _resource_of_quota(name: str) -> str:
    """Return the node resource that an entry of a quota restricts: `requests.cpu` -> `cpu`."""
    if name == f"count/{PODS}":
        return PODS
    return name.removeprefix(_QUOTA_PREFIX)


def sum_requests(pods: Iterable[Pod]) -> Totals:
    """Sum the requests of pods as Karmada does, not as the scheduler does.

    The quirk: the total runs over all pods, and an init container only raises it to its own request
    if that is more. So the order of pods matters; they are sorted by name. The key `pods` counts
    them. Source: contract 4.4; karmada pkg/util/resource.go.
    """
    totals: Totals = {PODS: 0}
    for pod in sorted(pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name)):
        for container in pod.spec.containers:
            _add(totals, container.resources.requests)
        for container in pod.spec.init_containers:
            _raise_to(totals, container)
        _add(totals, pod.spec.overhead)
        totals[PODS] += 1
    return totals


def resource_list(totals: Totals) -> dict[str, str]:
    """Return totals as quantities in Karmada's format, positive ones only."""
    return {name: str(_quantity(name, totals[name])) for name in sorted(totals) if totals[name] > 0}


def in_unit(name: str, raw: Raw) -> int:
    """Return a quantity in the unit of `Totals`, rounded up; 0 if it is invalid."""
    try:
        return quantity.milli_units(raw) if name == CPU else quantity.whole_units(raw)
    except ValueError:
        return 0


@lru_cache(maxsize=1024)
def is_counted(name: str) -> bool:
    """Return True if Karmada counts requests of this resource (contract 4.4).

    Counted: cpu, memory, ephemeral-storage, pods and scalar names. Not: storage and unknown names
    without a domain.
    """
    if name in _COUNTED_NAMES or name.startswith((_HUGE_PAGES_PREFIX, _ATTACHABLE_VOLUMES_PREFIX)):
        return True
    if _NATIVE_DOMAIN in name:
        return True
    return "/" in name and not name.startswith(_QUOTA_PREFIX)


def _add(totals: Totals, requests: dict[str, Raw]) -> None:
    for name, raw in requests.items():
        if is_counted(name):
            totals[name] = totals.get(name, 0) + in_unit(name, raw)


def _raise_to(totals: Totals, init_container: Container) -> None:
    for name, raw in init_container.resources.requests.items():
        if is_counted(name):
            totals[name] = max(totals.get(name, 0), in_unit(name, raw))


def _quantity(name: str, amount: int) -> Quantity:
    if name == CPU:
        return quantity.of_milli(amount)
    if name in _BINARY_NAMES or name.startswith(_HUGE_PAGES_PREFIX):
        return quantity.of_whole(amount, "BinarySI")
    return quantity.of_whole(amount)


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
    requested = sum_requests(pods) if pods else {}
    slots = in_unit(PODS, allocatable.get(PODS, "0"))
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
