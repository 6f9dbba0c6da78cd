"""The Cluster object that a virtual cluster registers, and the changes to an existing one."""

from typing import Any

from karmada_vc_agent.model import karmada, quantity
from karmada_vc_agent.model.domain import AGENT_ANNOTATION, HOST_LABEL
from karmada_vc_agent.model.objects import Object, annotations_of, dig
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
