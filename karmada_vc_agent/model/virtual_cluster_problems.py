"""What is wrong with the description of a virtual cluster, and where it stands."""

from collections.abc import Iterator
from typing import Any

from karmada_vc_agent.model import quantity
from karmada_vc_agent.model.selectors import label_key_problem, label_value_problem
from karmada_vc_agent.model.virtual_cluster import VirtualCluster


def problems_of(vc: VirtualCluster) -> Iterator[tuple[str, str | None]]:
    """Yield each place that was looked at, and the problem there or None."""
    yield from _label_problems(vc)
    yield from _taint_problems(vc)
    yield from _model_problems(vc)


def _label_problems(vc: VirtualCluster) -> Iterator[tuple[str, str | None]]:
    """Yield where a label key or value stands, and what is wrong with it, if anything."""
    for where, labels in (
        ("nodeSelector.matchLabels", vc.node_selector.match_labels),
        ("clusterLabels", vc.cluster_labels),
    ):
        for key, value in labels.items():
            yield where, label_key_problem(key) or label_value_problem(value)
    for requirement in vc.node_selector.match_expressions:
        yield "nodeSelector.matchExpressions", label_key_problem(requirement.key)
    yield "provider", label_value_problem(vc.provider)
    yield "region", label_value_problem(vc.region)
    for zone in vc.zones:
        yield "zones", label_value_problem(zone)


def _taint_problems(vc: VirtualCluster) -> Iterator[tuple[str, str | None]]:
    """Yield where a taint stands, and what is wrong with it, if anything (contract 1.1)."""
    seen = set()
    for index, taint in enumerate(vc.taints):
        where, effect = f"taints[{index}]", taint.get("effect")
        yield f"{where}.key", label_key_problem(str(taint.get("key") or ""))
        if effect not in ("NoSchedule", "NoExecute"):
            yield f"{where}.effect", f'is "{effect}", must be NoSchedule or NoExecute'
        if (taint.get("key"), effect) in seen:
            yield where, f"key and effect are used twice: {taint.get('key')}:{effect}"
        seen.add((taint.get("key"), effect))


def _model_problems(vc: VirtualCluster) -> Iterator[tuple[str, str | None]]:
    """Yield quantities that are none; the rest of resourceModels is the hub's to judge."""
    last = len(vc.resource_models) - 1
    for index, model in enumerate(vc.resource_models):
        if not isinstance(model.get("grade", 0), int):
            yield f"resourceModels[{index}].grade", "must be a whole number"
        for number, bounds in enumerate(model.get("ranges") or ()):
            where = f"resourceModels[{index}].ranges[{number}]"
            if not isinstance(bounds, dict):
                yield f"{where}", "must have name, min and max"
                continue
            # What the hub sets itself may be left out: the first minimum, the last maximum.
            yield f"{where}.min", _quantity_problem(bounds.get("min", 0 if index == 0 else None))
            yield f"{where}.max", _quantity_problem(bounds.get("max", 0 if index == last else None))


def _quantity_problem(value: Any) -> str | None:
    if value is None:
        return "is not set"
    try:
        quantity.parse(value)
    except (TypeError, ValueError) as error:
        return str(error)
    return None


def overlap_for_certain(vc: VirtualCluster, other: VirtualCluster) -> bool:
    """Whether two virtual clusters select a common node, whatever nodes there are."""
    if set(vc.node_names) & set(other.node_names):
        return True
    ours, theirs = vc.node_selector, other.node_selector
    return bool(ours and theirs) and (ours.implies(theirs) or theirs.implies(ours))
