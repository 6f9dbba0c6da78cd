"""The condition GroupPresent: whether the source of a discovered virtual cluster exists."""

from karmada_vc_agent.cluster.origins import Origin
from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.condition_spec import ConditionSpec
from karmada_vc_agent.runner.parts import Parts

GROUP_PRESENT = ConditionType(
    "GroupPresent",
    "The NodeGroup or label value that defines the virtual cluster exists.",
    idle="Defined",
)


def group_present(origin: Origin | None) -> Condition:
    """Return the condition; origin: None where settings or an object define a virtual cluster."""
    if origin is None:
        text = "the settings or a VirtualCluster object define it now"
        return GROUP_PRESENT.true("Defined", text)
    if origin.absence:
        return GROUP_PRESENT.false("Gone", origin.absence)
    return GROUP_PRESENT.true("Found", f"defined by {origin.text}")


def _present(parts: Parts, vc: VirtualCluster) -> Condition:
    return group_present(parts.common.origins.of(vc.name))


CONDITIONS = (ConditionSpec(GROUP_PRESENT, _present),)
