"""Compose Clusters, and their status (contract 1.1, 4.1, 4.4)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from karmada_vc_agent.cluster.rules import resource_sums
from karmada_vc_agent.cluster.rules.conditions import (
    READY,
    Condition,
    ConditionType,
    Shown,
    set_condition,
)
from karmada_vc_agent.cluster.rules.resource_sums import summarize_resources, within_quota
from karmada_vc_agent.model import karmada, quantity
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.domain import AGENT_ANNOTATION, HOST_LABEL
from karmada_vc_agent.model.objects import (
    GroupVersionKind,
    Object,
    annotations_of,
    dig,
    parse_api_version,
)
from karmada_vc_agent.model.virtual_cluster import VirtualCluster

_MAX_INT64 = "9223372036854775807"


def new_cluster(
    vc: VirtualCluster,
    cluster_id: str,
    agent: str = "",
    host: str = "",
    access: Object | None = None,
) -> Object:
    """Return the Cluster to create. Source: contract 1.1.

    agent: the agent that serves it, `<namespace>/<name>`; host: the id of its host; empty = not
    recorded. access: annotations and spec fields of one that the hub can reach.
    """
    metadata: Object = {"name": vc.name}
    annotations = {AGENT_ANNOTATION: agent} if agent else {}
    annotations |= dig(access, "metadata", "annotations") or {}
    if annotations:
        metadata["annotations"] = annotations
    if labels := {**({HOST_LABEL: host} if host else {}), **vc.cluster_labels}:
        metadata["labels"] = labels
    spec: Object = {"id": cluster_id, "syncMode": "Pull", **_described(vc)}
    spec |= dig(access, "spec") or {}
    if vc.taints:
        spec["taints"] = list(vc.taints)
    if vc.resource_models:
        spec["resourceModels"] = standard_models(vc)
    return {
        "apiVersion": karmada.CLUSTER_API,
        "kind": "Cluster",
        "metadata": metadata,
        "spec": spec,
    }


def cluster_changes(
    cluster: Object,
    vc: VirtualCluster,
    agent: str = "",
    host: str = "",
    *,
    settings_changed: bool,
) -> Object:
    """Return the merge patch that aligns an existing Cluster with the settings; {} = no change.

    Labels, provider, region and zones are overlaid and never cleared. Agent and host are filled in
    where they are empty: what operators wrote there stays. Taints are added only if the
    settings changed, since operators cordon and taint Clusters too. resourceModels always follow
    the settings, since the server defaults them where there are none (contract trap 16).
    """
    patch: Object = {}
    labels = dig(cluster, "metadata", "labels") or {}
    desired = dict(vc.cluster_labels)
    if host and HOST_LABEL not in labels:
        desired = {HOST_LABEL: host, **desired}
    if any(labels.get(key) != value for key, value in desired.items()):
        patch["metadata"] = {"labels": desired}
    if agent and not annotations_of(cluster).get(AGENT_ANNOTATION):
        patch.setdefault("metadata", {})["annotations"] = {AGENT_ANNOTATION: agent}
    spec = cluster.get("spec") or {}
    changes = {key: value for key, value in _described(vc).items() if spec.get(key) != value}
    if (spec.get("resourceModels") or []) != standard_models(vc):
        changes["resourceModels"] = standard_models(vc)
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
    """Return the message for a Cluster that another agent of this host serves."""
    return (
        f"Cluster {name} is served by agent {agent} (namespace/name); give the virtual cluster "
        "another name, or stop that agent for good and run on the hub: kubectl annotate cluster "
        f"{name} {AGENT_ANNOTATION}-"
    )


def standard_models(vc: VirtualCluster) -> list[Object]:
    """Return resourceModels as the server stores them (contract 1.2).

    Sorted by grade, the first minimum 0, the last maximum MaxInt64, quantities canonical.
    """
    models = sorted(vc.resource_models, key=lambda model: int(model.get("grade") or 0))
    standard = []
    for index, model in enumerate(models):
        ranges = []
        for entry in model.get("ranges") or []:
            low = "0" if index == 0 else _canonical(entry.get("min"))
            high = _MAX_INT64 if index == len(models) - 1 else _canonical(entry.get("max"))
            ranges.append({"name": entry.get("name"), "min": low, "max": high})
        standard.append({"grade": int(model.get("grade") or 0), "ranges": ranges})
    return standard


def _canonical(value: Any) -> str:
    return str(quantity.parse(value))


def _described(vc: VirtualCluster) -> Object:
    described = {"provider": vc.provider, "region": vc.region, "zones": list(vc.zones)}
    return {key: value for key, value in described.items() if value}


COMPLETE_API_ENABLEMENTS = ConditionType(
    "CompleteAPIEnablements",
    "`apiEnablements` has all that the host serves.",
    on_cluster=Shown.ALWAYS,
)


def compose_cluster_status(
    live_status: Object | None,
    fields: Mapping[str, Any],
    conditions: Iterable[Condition],
    now: str,
) -> Object:
    """Return the whole status to PUT: the live one overlaid with what was observed.

    fields: by name; None = not reported. Everything else is kept: remedyActions, unknown fields,
    conditions of other controllers (contract 4.1, trap 17). Write it only if it differs from
    live_status.
    """
    kept = {name: value for name, value in (live_status or {}).items() if name not in fields}
    reported = {name: value for name, value in fields.items() if value is not None}
    return with_conditions({**kept, **reported}, conditions, now)


def with_conditions(
    live_status: Object | None, conditions: Iterable[Condition], now: str
) -> Object:
    """Return the status with only these conditions changed, as when the host is offline."""
    status = live_status or {}
    merged = status.get("conditions")
    for condition in conditions:
        merged = set_condition(merged, condition, now)
    return {**status, "conditions": merged} if merged else dict(status)


def api_enablements(
    resource_lists: Iterable[Object], is_hidden: Callable[[GroupVersionKind], bool]
) -> list[Object]:
    """Return apiEnablements: one entry for each group version, sorted by name.

    resource_lists: discovery answers `{"groupVersion", "resources": [{"name", "kind"}]}`.
    is_hidden: kinds that the virtual cluster must not get, so that the scheduler places none.
    """
    enablements = []
    for resource_list in resource_lists:
        group_version = resource_list["groupVersion"]
        resources = [
            {"name": resource["name"], "kind": resource["kind"]}
            for resource in resource_list.get("resources") or ()
            if "/" not in resource["name"]  # a subresource
            and not is_hidden(parse_api_version(group_version, resource["kind"]))
        ]
        enablement: Object = {"groupVersion": group_version}
        if resources:
            enablement["resources"] = sorted(resources, key=lambda resource: resource["name"])
        enablements.append(enablement)
    return sorted(enablements, key=lambda enablement: enablement["groupVersion"])


def complete_api_enablements(count: int, *, is_partial: bool) -> Condition:
    """Return the condition on the completeness of apiEnablements (contract 4.4).

    count: number of entries. is_partial: discovery failed for some group versions.
    """
    if count == 0:
        return COMPLETE_API_ENABLEMENTS.false(
            "Empty", "collected empty APIEnablements from the cluster"
        )
    if is_partial:
        message = f"might collect partial APIEnablements({count}) from the cluster"
        return COMPLETE_API_ENABLEMENTS.false("Partial", message)
    return COMPLETE_API_ENABLEMENTS.true(
        "Complete", "collected complete APIEnablements from the cluster"
    )


def node_summary(nodes: Iterable[Node]) -> dict[str, int]:
    """Count nodes and ready nodes; zeros are omitted, so no nodes give `{}`."""
    counted = list(nodes)
    counts = {"totalNum": len(counted), "readyNum": sum(node.is_ready for node in counted)}
    return {name: count for name, count in counts.items() if count}


def resource_summary(
    nodes: Sequence[Node],
    pods_on_nodes: Sequence[Pod],
    pending_pods: Sequence[Pod],
    resource_models: Sequence[Object],
    quota: Mapping[str, str] | None = None,
) -> Object:
    """Return resourceSummary, with allocatableModelings if the Cluster has models.

    resource_models: spec.resourceModels of the Cluster. quota: of the virtual cluster; it caps
    allocatable, and removes the modelings, since Karmada ignores allocatable next to them (contract
    4.5).
    """
    summary = summarize_resources(nodes, pods_on_nodes, pending_pods)
    if quota:
        allocatable = within_quota(summary.get("allocatable") or {}, quota)
        return {**summary, "allocatable": allocatable} if allocatable else summary
    modelings = resource_sums.allocatable_modelings(resource_models, nodes, pods_on_nodes)
    return {**summary, "allocatableModelings": modelings} if modelings else summary


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
