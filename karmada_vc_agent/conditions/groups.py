"""Conditions about what defines a virtual cluster: whether it can be trusted, and is there."""

from collections.abc import Iterable

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType
from karmada_vc_agent.cluster.rules.group_trusted import GROUP_TRUSTED, group_trusted
from karmada_vc_agent.conditions.spec import ConditionSpec, Trigger
from karmada_vc_agent.features.found.origins import Origin
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.keys import itself
from karmada_vc_agent.runner.parts import Parts

GROUP_PRESENT = ConditionType(
    "GroupPresent",
    "The NodeGroup or label value that the virtual cluster was found by exists.",
    idle="Defined",
)


def group_present(origin: Origin | None) -> Condition:
    """Return the condition; origin: None where settings or an object define a virtual cluster."""
    if origin is None:
        text = "the settings or a VirtualCluster object define it now"
        return GROUP_PRESENT.true("Defined", text)
    if origin.absence:
        return GROUP_PRESENT.false("Gone", origin.absence)
    return GROUP_PRESENT.true("Found", f"found by {origin.text}")


def _trusted(parts: Parts, vc: VirtualCluster) -> Condition:
    origin, trust = parts.common.origins.of(vc.name), parts.common.stores.trust
    return group_trusted(
        vc,
        has_kubeedge=trust.has_kubeedge,
        node_restriction=trust.node_restriction,
        found_by=origin.text if origin is not None else "",
        by_label=origin is not None and origin.is_label,
    )


def _present(parts: Parts, vc: VirtualCluster) -> Condition:
    return group_present(parts.common.origins.of(vc.name))


def _origins(parts: Parts) -> Iterable[Trigger]:
    yield parts.common.origins.changed.subscribe, itself


CONDITIONS = (
    ConditionSpec(GROUP_TRUSTED, _trusted, _origins),
    ConditionSpec(GROUP_PRESENT, _present),
)
