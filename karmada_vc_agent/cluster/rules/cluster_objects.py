"""Compose Clusters, and their status (contract 1.1, 4.1, 4.4)."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from karmada_vc_agent.cluster.rules.conditions import (
    READY,
    Condition,
    ConditionType,
    Shown,
    count_nodes,
    set_conditions,
)
from karmada_vc_agent.model import quantity, vocabulary
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    parse_api_version,
)
from karmada_vc_agent.model.quantity import Quantity, Raw
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.model.vocabulary import AGENT_ANNOTATION, HOST_LABEL

Totals = dict[str, int]
"""Resource name -> amount: cpu in milli-cores, everything else in whole units."""

PODS = "pods"


def sum_allocatable(nodes: Iterable[Node]) -> dict[str, str]:
    """Sum by resource; sorted by node, so that the format of the first addend does not change."""
    sums: dict[str, Quantity] = {}
    for node in sorted(nodes, key=lambda node: node.metadata.name):
        for name, raw in node.status.allocatable.items():
            amount = quantity.read(raw)
            if amount is not None:
                sums[name] = sums[name] + amount if name in sums else amount
    return {name: str(sums[name]) for name in sorted(sums)}


def within_quota(allocatable: Mapping[str, str], quota: Mapping[str, str]) -> dict[str, str]:
    """Return the allocatable, capped by `hard` of a quota; its limits restrict no requests."""
    capped = dict(allocatable)
    for name, raw in quota.items():
        resource = PODS if name == f"count/{PODS}" else name.removeprefix("requests.")
        allowed = quantity.parse(raw)
        if resource in capped and allowed.nano < quantity.parse(capped[resource]).nano:
            capped[resource] = str(allowed)
    return capped


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
        for init_container in pod.spec.init_containers:
            for name, amount in _amounts(init_container.resources.requests):
                totals[name] = max(totals.get(name, 0), amount)
        _add(totals, pod.spec.overhead)
        totals[PODS] += 1
    return totals


def resource_list(totals: Totals) -> dict[str, str]:
    """Return totals as quantities in Karmada's format, positive ones only."""
    counted = sorted(name for name, amount in totals.items() if amount > 0)
    return {name: str(quantity.of_unit(name, totals[name])) for name in counted}


def _amounts(requests: dict[str, Raw]) -> Iterator[tuple[str, int]]:
    counted = (item for item in requests.items() if quantity.is_counted(item[0]))
    return ((name, quantity.in_unit(name, raw)) for name, raw in counted)


def _add(totals: Totals, requests: dict[str, Raw]) -> None:
    for name, amount in _amounts(requests):
        totals[name] = totals.get(name, 0) + amount


def allocatable_modelings(
    resource_models: Sequence[Object], nodes: Iterable[Node], pods_on_nodes: Iterable[Pod]
) -> list[Object]:
    """Count the nodes of each grade, one `{"grade", "count"}` for each model, in order.

    resource_models: as in Cluster.spec, `{"grade", "ranges": [{"name", "min", "max"}]}`.
    Deviation: Karmada stops at the first node without a free pod slot; here others count.
    """
    minimums: dict[str, list[int]] = defaultdict(list)  # ascending, in nano units
    for model in resource_models:
        for range_ in model.get("ranges") or ():
            minimums[range_["name"]].append(quantity.parse(range_["min"]).nano)
    if not minimums:
        return []
    pods_by_node: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods_on_nodes:
        if not pod.is_finished:
            pods_by_node[pod.spec.node_name].append(pod)
    counts = Counter(_grade(minimums, node, pods_by_node[node.metadata.name]) for node in nodes)
    return [
        {"grade": model.get("grade") or 0, "count": counts[index]}
        for index, model in enumerate(resource_models)
    ]


def _grade(minimums: dict[str, list[int]], node: Node, pods: list[Pod]) -> int:
    """Return the index of the highest grade whose minimums a node meets, -1 for none."""
    allocatable, requested = node.status.allocatable, sum_requests(pods)
    if pods and quantity.in_unit(PODS, allocatable.get(PODS, "0")) <= requested[PODS]:
        return -1

    def available(name: str) -> int:
        offered = quantity.read(allocatable.get(name) or "")
        if offered is None:
            return 0
        return offered.nano - quantity.of_unit(name, requested.get(name, 0)).nano

    return min(bisect_right(steps, available(name)) - 1 for name, steps in minimums.items())


_MAX_INT64 = "9223372036854775807"


def new_cluster(
    vc: VirtualCluster,
    cluster_id: str,
    agent: str = "",
    host: str = "",
    access: Object | None = None,
) -> Object:
    """Return the Cluster to create. Source: contract 1.1.

    agent: `<namespace>/<name>`; host: its id; access: what one that the hub can reach has, too.
    """
    annotations = {AGENT_ANNOTATION: agent} if agent else {}
    annotations |= dig(access, "metadata", "annotations") or {}
    labels = {**({HOST_LABEL: host} if host else {}), **vc.cluster_labels}
    fields = {"taints": list(vc.taints), "resourceModels": standard_models(vc)}
    spec = {"id": cluster_id, "syncMode": "Pull", **_described(vc), **(dig(access, "spec") or {})}
    return {
        "apiVersion": vocabulary.CLUSTER_API,
        "kind": "Cluster",
        "metadata": {"name": vc.name, **_filled({"annotations": annotations, "labels": labels})},
        "spec": spec | _filled(fields),
    }


def _filled(fields: Object) -> Object:
    return {key: value for key, value in fields.items() if value}


def cluster_changes(
    cluster: Object, vc: VirtualCluster, agent: str = "", host: str = "", *, settings_changed: bool
) -> Object:
    """Return the merge patch that aligns an existing Cluster with the settings; {} = no change.

    Labels, provider, region and zones are overlaid and never cleared, agent and host filled in
    where empty, taints added only if the settings changed: operators write these, too.
    resourceModels follow the settings where these have some, and stay without (contract trap 16).
    """
    patch: Object = {}
    labels = dig(cluster, "metadata", "labels") or {}
    of_host = {HOST_LABEL: host} if host and HOST_LABEL not in labels else {}
    desired = {**of_host, **vc.cluster_labels}
    if any(labels.get(key) != value for key, value in desired.items()):
        patch["metadata"] = {"labels": desired}
    if agent and not annotations_of(cluster).get(AGENT_ANNOTATION):
        patch.setdefault("metadata", {})["annotations"] = {AGENT_ANNOTATION: agent}
    spec = cluster.get("spec") or {}
    described = {**_described(vc), **_filled({"resourceModels": standard_models(vc)})}
    changes = {key: value for key, value in described.items() if (spec.get(key) or []) != value}
    if settings_changed:
        taints = spec.get("taints") or []
        present = {(taint.get("key"), taint.get("effect")) for taint in taints}
        added = [t for t in vc.taints if (t.get("key"), t.get("effect")) not in present]
        if added:
            changes["taints"] = [*taints, *added]
    if changes:
        patch["spec"] = changes
    return patch


def served_by_another(name: str, agent: str) -> str:
    return (
        f"Cluster {name} is served by agent {agent} (namespace/name); give the virtual cluster "
        "another name, or stop that agent for good and run on the hub: kubectl annotate cluster "
        f"{name} {AGENT_ANNOTATION}-"
    )


def standard_models(vc: VirtualCluster) -> list[Object]:
    """Return resourceModels as the server stores them: sorted and canonical (contract 1.2)."""
    models = sorted(vc.resource_models, key=lambda model: int(model.get("grade") or 0))
    standard = []
    for index, model in enumerate(models):
        ranges = []
        for entry in model.get("ranges") or []:
            is_last = index == len(models) - 1
            low = str(quantity.parse(entry["min"])) if index else "0"
            high = _MAX_INT64 if is_last else str(quantity.parse(entry["max"]))
            ranges.append({"name": entry["name"], "min": low, "max": high})
        standard.append({"grade": int(model.get("grade") or 0), "ranges": ranges})
    return standard


def _described(vc: VirtualCluster) -> Object:
    return _filled({"provider": vc.provider, "region": vc.region, "zones": list(vc.zones)})


COMPLETE_API_ENABLEMENTS = ConditionType(
    "CompleteAPIEnablements",
    "`apiEnablements` has all that the host serves.",
    on_cluster=Shown.ALWAYS,
)


def compose_cluster_status(
    live_status: Object | None, fields: Mapping[str, Any], conditions: Iterable[Condition], now: str
) -> Object:
    """Return the whole status to PUT: the live one overlaid with what was observed.

    fields: by name; None = not reported. Everything else is kept: remedyActions, unknown fields,
    conditions of other controllers (contract 4.1, trap 17).
    """
    kept = {name: value for name, value in (live_status or {}).items() if name not in fields}
    reported = {name: value for name, value in fields.items() if value is not None}
    return with_conditions({**kept, **reported}, conditions, now)


def with_conditions(
    live_status: Object | None, conditions: Iterable[Condition], now: str
) -> Object:
    """Return the status with only these conditions changed, as when the host is offline."""
    status = live_status or {}
    merged = set_conditions(status.get("conditions"), conditions, now)
    return {**status, "conditions": merged} if merged else dict(status)


def api_enablements(
    resource_lists: Iterable[Object], is_hidden: Callable[[GroupVersionKind], bool]
) -> list[Object]:
    """Return apiEnablements: one entry for each group version, sorted by name.

    resource_lists: discovery answers `{"groupVersion", "resources": [{"name", "kind"}]}`.
    is_hidden: kinds that the virtual cluster must not get, so that the scheduler places none.
    """
    enablements = []
    for resource_list in sorted(resource_lists, key=itemgetter("groupVersion")):
        group_version = resource_list["groupVersion"]
        resources = [
            {"name": resource["name"], "kind": resource["kind"]}
            for resource in resource_list.get("resources") or ()
            if "/" not in resource["name"]  # a subresource
            and not is_hidden(parse_api_version(group_version, resource["kind"]))
        ]
        listed = {"resources": sorted(resources, key=itemgetter("name"))}
        enablements.append({"groupVersion": group_version, **_filled(listed)})
    return enablements


def complete_api_enablements(count: int, *, is_partial: bool) -> Condition:
    """Return the condition on the completeness of so many apiEnablements (contract 4.4)."""
    kind, where = COMPLETE_API_ENABLEMENTS, "APIEnablements from the cluster"
    if count == 0:
        return kind.false("Empty", f"collected empty {where}")
    if is_partial:
        partial = where.replace(" ", f"({count}) ", 1)
        return kind.false("Partial", f"might collect partial {partial}")
    return kind.true("Complete", f"collected complete {where}")


def node_summary(nodes: Iterable[Node]) -> dict[str, int]:
    """Count nodes and ready nodes; zeros are omitted, so no nodes give `{}`."""
    total, ready = count_nodes(nodes)
    return _filled({"totalNum": total, "readyNum": ready})


def resource_summary(
    nodes: Sequence[Node],
    pods_on_nodes: Sequence[Pod],
    pending_pods: Sequence[Pod],
    resource_models: Sequence[Object],
    quota: Mapping[str, str] | None = None,
) -> Object:
    """Return resourceSummary; empty lists are omitted.

    nodes: all of the virtual cluster, ready or not. pods_on_nodes: every pod bound to one of them;
    finished ones are not counted. pending_pods: its pods without a node, any phase.
    resource_models: as `standard_models` returns them. quota: of the virtual cluster; it caps
    allocatable, and removes the modelings, since Karmada ignores allocatable next to them.
    Source: contract 4.4, 4.5.
    """
    allocated = sum_requests(pod for pod in pods_on_nodes if not pod.is_finished)
    summary: Object = {
        "allocatable": within_quota(sum_allocatable(nodes), quota or {}),
        "allocating": resource_list(sum_requests(pending_pods)),
        "allocated": resource_list(allocated),
    }
    if not quota:
        modelings = allocatable_modelings(resource_models, nodes, pods_on_nodes)
        summary["allocatableModelings"] = modelings
    return _filled(summary)


_NANO = 1e9
_RESOURCES = {
    "memory": "cluster_memory_{}_bytes",
    "cpu": "cluster_cpu_{}_number",
    "pods": "cluster_pod_{}_number",
}


def cluster_numbers(status: Object) -> dict[str, float]:
    """Return metric name -> value: bytes, cores, pods, nodes.

    What the status does not report has no value; what a summary omits is 0 (contract 4.4). Source:
    karmada pkg/metrics/cluster.go, which keeps the last value instead.
    """
    ready = READY.find(status.get("conditions"))
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
