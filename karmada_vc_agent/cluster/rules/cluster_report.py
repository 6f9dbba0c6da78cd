"""Compose the status of a Cluster (contract 4.1, 4.4)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from karmada_vc_agent.cluster.rules import resource_models as models
from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType, Shown, set_condition
from karmada_vc_agent.cluster.rules.resource_summary import summarize_resources, within_quota
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.objects import GroupVersionKind, Object, parse_api_version

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
    modelings = models.allocatable_modelings(resource_models, nodes, pods_on_nodes)
    return {**summary, "allocatableModelings": modelings} if modelings else summary
