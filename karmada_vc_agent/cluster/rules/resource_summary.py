"""Sums of node capacity and pod requests, counted as Karmada counts (contract 4.4)."""

from collections.abc import Iterable, Mapping
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
