"""Virtual clusters discovered on the host: NodeGroups, values of a node label."""

from karmada_vc_agent.cluster.rules.conditions import Condition, ConditionType
from karmada_vc_agent.cluster.virtual_cluster_sources import Origin
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.discovered.controller import setup_node_groups, setup_node_labels
from karmada_vc_agent.features.discovered.discovery import describe, start
from karmada_vc_agent.features.discovered.records import DiscoveredFields
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.parts import ConditionSpec, Feature, Parts

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


def _host_roles(config: AgentConfig) -> tuple[str, ...]:
    own = config.of(DiscoveredFields)
    is_used = own.node_groups.is_used or own.discover.is_used
    return ("features/discovered/roles.yaml",) if is_used else ()


FEATURE = Feature(
    "discovered",
    settings=DiscoveredFields,
    controllers=(setup_node_groups, setup_node_labels),
    conditions=CONDITIONS,
    start=start,
    describe=describe,
    host_roles=_host_roles,
)
